//! Calls → SVG: a flame graph that stands alone, with the outermost calls at the top.
//!
//! Every call is a rectangle as wide as what was measured in it and below; its title has name, value and
//! share. Calls beside each other are in the order of their names, so that two graphs of one program can be
//! laid side by side. Colours are those of modules; in a comparison, red is dearer and blue cheaper.
//!
//! Without its script it is a picture with titles. With it a click zooms, and a search marks what matches and
//! adds up its share. The script reads the titles as text and makes no markup of them.

use std::fmt::Write;

use super::column::{Column, percent};
use super::text::{cut, xml};
use super::tree::{Call, CallId, Tree};

/// The height of a call, in pixels.
const ROW: u32 = 17;

/// What stands above the calls.
const TOP: u32 = 56;

/// Left and right of the calls.
const MARGIN: u32 = 10;

/// What a character of the names takes, of 12 pixels' height.
const CHARACTER: f64 = 7.0;

/// What is narrower is left out, with all below it, in pixels: nobody can see it.
const NARROWEST: f64 = 0.2;

/// More than that no browser shows quickly: the narrowest are left out.
const MOST: usize = 40_000;

const SCRIPT: &str = include_str!("flame.js");

/// A call that is drawn.
struct Box {
    call: CallId,
    x: f64,
    width: f64,
    depth: u32,
}

/// The SVG.
pub(super) fn draw(tree: &Tree, column: &Column, title: &str, width: u32) -> String {
    let inner = f64::from(width - 2 * MARGIN);
    let boxes = lay_out(tree, inner);
    let deepest = boxes.iter().map(|it| it.depth).max().unwrap_or(0);
    let height = TOP + (deepest + 1) * ROW + MARGIN;
    let mut out = String::new();
    // Writing to a String never fails.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, Menlo, Consolas, \
         'DejaVu Sans Mono', monospace\" font-size=\"12\">\n\
         <title>{title}</title>\n\
         <style>.f{{cursor:pointer}}.f rect{{stroke:#fff;stroke-width:.5}}.f text{{pointer-events:none}}\
         .f:hover rect{{stroke:#000;stroke-width:1}}.d rect{{opacity:.45}}.m rect{{fill:#d63af9}}\
         .b{{cursor:pointer;fill:#36c}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{shown}</text>\n\
         <text id=\"detail\" x=\"{MARGIN}\" y=\"44\" fill=\"#444\">{note}</text>\n\
         <text id=\"reset\" class=\"b\" x=\"{reset}\" y=\"22\" visibility=\"hidden\">all</text>\n\
         <text id=\"search\" class=\"b\" x=\"{search}\" y=\"22\" text-anchor=\"end\" \
         visibility=\"hidden\">search</text>\n\
         <text id=\"matched\" x=\"{search}\" y=\"44\" text-anchor=\"end\"></text>\n",
        title = xml(title),
        shown = xml(&cut(title, (width as usize).saturating_sub(180) / 9)),
        note = note(tree, column),
        reset = width - MARGIN - 90,
        search = width - MARGIN,
    );
    let root = tree.calls()[0];
    for it in &boxes {
        draw_box(tree, column, it, root, &mut out);
    }
    let _ = write!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n");
    out
}

/// What the colours mean.
fn note(tree: &Tree, column: &Column) -> String {
    let root = tree.calls()[0];
    if root.width() == 0.0 {
        return "No samples".to_owned();
    }
    match tree.is_difference {
        true => "Red is dearer than before, blue is cheaper; a call is as wide as both together"
            .to_owned(),
        false => format!("{} in all; colours are those of modules", xml(&column.write(root.new))),
    }
}

/// Where each call is drawn. The children of each are found by sorting all calls by who made them; a place is
/// known before those of its children are asked for, because they stand behind it.
fn lay_out(tree: &Tree, inner: f64) -> Vec<Box> {
    let calls = tree.calls();
    let total = calls[0].width();
    if total <= 0.0 {
        return Vec::new();
    }
    let scale = inner / total;
    let wide = |index: &usize| calls[*index].width() * scale >= NARROWEST;
    let mut order: Vec<usize> = (1..calls.len()).filter(wide).collect();
    if order.len() > MOST {
        // Who called is never narrower, and stands before: what is left hangs together.
        order.sort_by(|&a, &b| calls[b].width().total_cmp(&calls[a].width()).then(a.cmp(&b)));
        order.truncate(MOST);
    }
    let names = tree.names();
    // Stacks of one parent beside each other, in the order of names.
    order.sort_by(|&a, &b| {
        let key = |index: usize| (calls[index].parent.0, names.name(calls[index].name));
        key(a).cmp(&key(b))
    });
    let mut boxes = vec![Box { call: CallId(0), x: f64::from(MARGIN), width: inner, depth: 0 }];
    // By call: the place of its box and 1, and where its next child goes.
    let mut placed = vec![(0usize, 0.0); calls.len()];
    placed[0] = (1, f64::from(MARGIN));
    for index in order {
        let call = calls[index];
        let width = call.width() * scale;
        let (parent, next) = placed[call.parent.0 as usize];
        // Sums of floating-point numbers: a parent may be a hair narrower than its child.
        let Some(parent) = parent.checked_sub(1) else { continue };
        placed[call.parent.0 as usize].1 += width;
        boxes.push(Box {
            call: CallId(index as u32),
            x: next,
            width,
            depth: boxes[parent].depth + 1,
        });
        placed[index] = (boxes.len(), next);
    }
    boxes
}

fn draw_box(tree: &Tree, column: &Column, it: &Box, root: Call, out: &mut String) {
    let call = tree.calls()[it.call.0 as usize];
    let is_root = it.call.0 == 0;
    let name = if is_root { "all" } else { tree.names().name(call.name) };
    let cost = if tree.is_difference {
        let change = column.write_change(call.new - call.old);
        let share = percent(call.new - call.old, root.old);
        let (old, new) = (column.write(call.old), column.write(call.new));
        format!("{old} → {new} ({change}, {share}% of the old)")
    } else {
        format!("{} ({}%)", column.write(call.new), percent(call.new, root.new))
    };
    let colour = match (is_root, tree.is_difference) {
        (_, true) => colour_of_change(call.old, call.new),
        (true, false) => "#dddddd".to_owned(),
        (false, false) => colour_of_module(tree.names().module(call.name)),
    };
    let y = TOP + it.depth * ROW;
    let characters = ((it.width - 6.0) / CHARACTER).max(0.0) as usize;
    let label = if characters < 3 { String::new() } else { xml(&cut_end(name, characters)) };
    let _ = write!(
        out,
        "<g class=\"f\"><title>{} \u{2014} {}</title>\
         <rect x=\"{:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" fill=\"{colour}\"/>",
        xml(name),
        xml(&cost),
        it.x,
        it.width,
        ROW - 1,
    );
    let _ = writeln!(out, "<text x=\"{:.2}\" y=\"{}\">{label}</text></g>", it.x + 3.0, y + 12);
}

/// The begin of a name that is too long.
fn cut_end(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

/// A light colour that black text can be read on, the same for the same module in every graph.
fn colour_of_module(module: &str) -> String {
    // FNV-1a, spread over the circle of hues.
    let hash = module.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let hash = hash ^ hash >> 29;
    let hue = (hash % 360) as f64;
    let saturation = 0.45 + (hash / 360 % 4) as f64 * 0.1;
    colour(hue, saturation, 0.76)
}

/// From blue through white to red.
fn colour_of_change(old: f64, new: f64) -> String {
    let share = if old + new > 0.0 { (new - old) / (new + old) } else { 0.0 };
    // A tenth more or less can be seen, and is not yet all of the colour.
    let strength = share.abs().sqrt();
    let faded = (255.0 - 165.0 * strength).round() as u8;
    let half = (255.0 - 110.0 * strength).round() as u8;
    match share {
        share if share > 0.0 => format!("#ff{faded:02x}{faded:02x}"),
        share if share < 0.0 => format!("#{faded:02x}{half:02x}ff"),
        _ => "#f4f4f4".to_owned(),
    }
}

/// A colour by hue (degrees), saturation and lightness, as six digits.
fn colour(hue: f64, saturation: f64, lightness: f64) -> String {
    let reach = saturation * lightness.min(1.0 - lightness);
    let part = |offset: f64| {
        let place = (offset + hue / 30.0) % 12.0;
        let value = lightness - reach * (place - 3.0).min(9.0 - place).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(0.0), part(8.0), part(4.0))
}
