//! What `go tool pprof -raw` prints of a profile, from the samples on, made of what our reader says.

use std::collections::BTreeMap;
use std::fmt::Write;

use wire::pprof::{Document, LabelValue, Location, Mapping, SampleRead};

pub(crate) fn print(document: &Document<'_>) -> String {
    let mut out = String::from("Samples:\n");
    let default = document.text(document.facts().default_sample_type);
    let types = document.sample_types().iter().map(|it| {
        let kind = document.text(it.kind);
        let mark = if kind == default { "[dflt]" } else { "" };
        format!("{kind}/{}{mark}", document.text(it.unit))
    });
    let _ = writeln!(out, "{}", types.collect::<Vec<_>>().join(" "));
    document.samples().for_each(|it| sample(document, it, &mut out));
    out.push_str("Locations\n");
    document.locations().iter().for_each(|it| location(document, it, &mut out));
    out.push_str("Mappings\n");
    document.mappings().iter().for_each(|it| mapping(document, it, &mut out));
    out
}

fn sample(document: &Document<'_>, sample: SampleRead<'_>, out: &mut String) {
    for value in sample.values {
        let _ = write!(out, " {value:10}");
    }
    out.push_str(": ");
    for id in sample.locations {
        let _ = write!(out, "{} ", id.0);
    }
    out.push('\n');
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    let mut numbers = BTreeMap::<String, Vec<String>>::new();
    for label in sample.labels {
        let key = document.text(label.key).into_owned();
        match label.value {
            // As Go has it.
            LabelValue::Text(text) if text.0 == 0 => {}
            LabelValue::Number { value: 0, unit } if unit.0 == 0 => {}
            LabelValue::Text(text) => {
                texts.entry(key).or_default().push(document.text(text).into_owned());
            }
            LabelValue::Number { value, unit } => {
                let unit = document.text(unit);
                let space = if unit.is_empty() { "" } else { " " };
                numbers.entry(key).or_default().push(format!("{value}{space}{unit}"));
            }
        }
    }
    for labels in [texts, numbers].iter().filter(|labels| !labels.is_empty()) {
        let labels = labels.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" ")));
        let _ = writeln!(out, "{:16}{}", "", labels.collect::<Vec<_>>().join(" "));
    }
}

fn location<L>(document: &Document<'_>, it: &Location<L>, out: &mut String)
where
    L: Iterator<Item = wire::pprof::Line> + Clone,
{
    let mut head = format!("{:6}: {:#x} ", it.id.0, it.address);
    if let Some(mapping) = document.mapping(it.mapping) {
        let _ = write!(head, "M={} ", mapping.id.0);
    }
    if it.is_folded {
        head.push_str("[F] ");
    }
    if it.lines.clone().next().is_none() {
        let _ = writeln!(out, "{head}");
    }
    for line in it.lines.clone() {
        let function = document.function(line.function).expect("it was checked");
        let (name, system_name) =
            (document.text(function.name), document.text(function.system_name));
        let file = document.text(function.filename);
        let _ = write!(
            out,
            "{head}{name} {file}:{}:{} s={}",
            line.line, line.column, function.start_line
        );
        if name != system_name {
            let _ = write!(out, "({system_name})");
        }
        out.push('\n');
        head = " ".repeat(13);
    }
}

fn mapping(document: &Document<'_>, it: &Mapping, out: &mut String) {
    let _ = write!(
        out,
        "{}: {:#x}/{:#x}/{:#x} {} {} ",
        it.id.0,
        it.memory_start,
        it.memory_limit,
        it.file_offset,
        document.text(it.filename),
        document.text(it.build_id)
    );
    for (set, mark) in [
        (it.has_functions, "[FN]"),
        (it.has_filenames, "[FL]"),
        (it.has_line_numbers, "[LN]"),
        (it.has_inline_frames, "[IN]"),
    ] {
        out.push_str(if set { mark } else { "" });
    }
    out.push('\n');
}
