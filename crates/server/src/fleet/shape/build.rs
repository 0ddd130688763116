//! Families and dimensions → a template.
//!
//! 1. the scale: the largest at which the families have no more series than were asked for
//! 2. the lines: family by family, element by element; values and identities leave their places behind
//! 3. the rest: one line each of the family that fills up

use super::super::identity::Piece;
use super::super::options::Values;
use super::super::template::{Name, Template};
use super::super::value::{Moment, Motion, Slot, below, mix, write_digits};
use super::{Dimension, Family, Kind, Shape, Value};

/// Labels of a family that has none of its own but `le` begin with nothing.
const INF: &str = "+Inf";

/// Observations that a histogram counts before it begins again; six digits hold what they make.
const OBSERVATIONS: u64 = 400_000;

/// What a template is made of.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Plan {
    pub(in super::super) shape: super::super::Shape,
    pub(in super::super) series: usize,
    pub(in super::super) values: Values,
    pub(in super::super) openmetrics: bool,
    pub(in super::super) seed: u64,
}

/// Makes the template. *Setup.*
pub(in super::super) fn build(plan: Plan) -> Template {
    let shape = super::table(plan.shape);
    let counts = counts(shape, plan.series);
    let mut first_unit = Vec::new();
    let mut units = 1;
    for (dimension, count) in shape.dimensions.iter().zip(&counts) {
        first_unit.push(units);
        units += if dimension.churns { *count } else { 0 };
    }
    let filler_unit = units;
    let filled = total(shape, &counts).min(plan.series);
    // Some families come in groups that don't fit at the end, so there may be more of it.
    units += plan.series - filled + widest(shape);
    let mut builder = Builder {
        plan,
        shape,
        out: Template::new(0),
        group: 0,
        line: 0,
        written: None,
        left: plan.series,
    };
    for family in shape.families {
        let churns = shape.dimensions[family.over].churns;
        for element in 0..counts[family.over] {
            let unit = if churns { first_unit[family.over] + element } else { 0 };
            builder.element(family, element, unit);
        }
    }
    for element in 0..builder.left {
        builder.element(&shape.filler, element, filler_unit + element);
    }
    if plan.openmetrics {
        builder.out.text.extend_from_slice(b"# EOF\n");
    }
    let mut done = Template::new(units);
    done.text = builder.out.text;
    done.slots = builder.out.slots;
    done.names = builder.out.names;
    done.series = plan.series;
    done.replaceable = builder.out.replaceable;
    done.text.shrink_to_fit();
    done
}

fn lines_of(family: &Family) -> usize {
    let lines = match family.kind {
        Kind::Histogram(bounds) => bounds.len() + 3,
        _ => 1,
    };
    lines * family.each.len().max(1)
}

fn widest(shape: &Shape) -> usize {
    shape.families.iter().map(lines_of).max().unwrap_or(1)
}

fn total(shape: &Shape, counts: &[usize]) -> usize {
    shape.families.iter().map(|family| counts[family.over] * lines_of(family)).sum()
}

/// How many elements each dimension has.
fn counts(shape: &Shape, series: usize) -> Vec<usize> {
    let at = |scale: usize| -> Vec<usize> {
        let count = |dimension: &Dimension| ((dimension.weight * scale as f64) as usize).max(1);
        shape.dimensions.iter().map(count).collect()
    };
    let fits = |scale: usize| total(shape, &at(scale)) <= series;
    let mut too_large = 2;
    while fits(too_large) {
        too_large *= 2;
    }
    let mut good = 1;
    while too_large - good > 1 {
        let middle = good + (too_large - good) / 2;
        if fits(middle) {
            good = middle;
        } else {
            too_large = middle;
        }
    }
    at(good)
}

/// A number as it is written: its digits, where the point is, what stands around them.
struct Look {
    prefix: &'static str,
    digits: u8,
    point: u8,
    exponent: u8,
}

struct Builder {
    plan: Plan,
    shape: &'static Shape,
    out: Template,
    group: u32,
    /// Counts series, for what is drawn per series.
    line: u64,
    /// The family whose HELP and TYPE were written last.
    written: Option<&'static str>,
    left: usize,
}

impl Builder {
    /// All lines of one element of a family's dimension.
    fn element(&mut self, family: &Family, element: usize, unit: usize) {
        let variants = if family.each.is_empty() { &[""] } else { family.each };
        for variant in variants {
            let lines = lines_of(family) / variants.len();
            if lines > self.left {
                return;
            }
            self.head(family);
            self.group += 1;
            match family.kind {
                Kind::Histogram(bounds) => self.histogram(family, bounds, element, variant, unit),
                _ => {
                    self.series(family, "", None, element, variant, unit);
                    self.value(family, unit);
                }
            }
            self.left -= lines;
            if unit != 0 {
                self.out.replaceable += lines;
            }
        }
    }

    fn head(&mut self, family: &Family) {
        if self.written == Some(family.name) {
            return;
        }
        self.written = Some(family.name);
        let openmetrics = self.plan.openmetrics;
        let (name, kind) = match family.kind {
            Kind::Counter if openmetrics => match family.name.strip_suffix("_total") {
                Some(name) => (name, "counter"),
                None => (family.name, "unknown"),
            },
            Kind::Counter => (family.name, "counter"),
            Kind::Gauge => (family.name, "gauge"),
            Kind::Untyped if openmetrics => (family.name, "unknown"),
            Kind::Untyped => (family.name, "untyped"),
            Kind::Histogram(_) => (family.name, "histogram"),
        };
        for part in ["# HELP ", name, " ", family.help, "\n# TYPE ", name, " ", kind, "\n"] {
            self.text(part);
        }
    }

    fn text(&mut self, text: &str) {
        self.out.text.extend_from_slice(text.as_bytes());
    }

    /// Name and labels, up to the blank before the value.
    fn series(
        &mut self,
        family: &Family,
        suffix: &str,
        le: Option<&str>,
        element: usize,
        variant: &str,
        unit: usize,
    ) {
        self.text(family.name);
        self.text(suffix);
        if !family.labels.is_empty() || le.is_some() {
            self.text("{");
            self.labels(family.labels, element, variant, unit);
            if let Some(le) = le {
                if !family.labels.is_empty() {
                    self.text(",");
                }
                self.text("le=\"");
                self.text(le);
                let whole = self.plan.openmetrics && le != INF && !le.contains(['.', 'e']);
                self.text(if whole { ".0\"" } else { "\"" });
            }
            self.text("}");
        }
        self.text(" ");
        self.line += 1;
    }

    fn labels(&mut self, pattern: &str, element: usize, variant: &str, unit: usize) {
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once('{') {
            self.text(before);
            let (word, after) = after.split_once('}').unwrap_or((after, ""));
            rest = after;
            if word == "n" {
                self.text(&element.to_string());
            } else if word == "each" {
                self.text(variant);
            } else if let Some(piece) = Piece::named(word) {
                let at = self.place();
                self.out.names.push(Name { at, unit: unit as u32, piece });
                self.out.text.extend(std::iter::repeat_n(b'0', usize::from(piece.len)));
            } else if let Some((_, words)) = self.shape.lists.iter().find(|(name, _)| *name == word)
            {
                self.text(words[element % words.len()]);
            } else {
                debug_assert!(false, "{word:?} in {pattern:?} means nothing");
            }
        }
        self.text(rest);
    }

    fn place(&self) -> u32 {
        // The number of series is bounded such that a body stays below this.
        u32::try_from(self.out.text.len()).unwrap_or(u32::MAX)
    }

    /// Whether the values of this group move, where a share was asked for.
    fn is_chosen(&self, share: f64) -> bool {
        let drawn = mix(self.plan.seed ^ (u64::from(self.group) << 20));
        ((drawn >> 11) as f64 / (1u64 << 53) as f64) < share
    }

    fn value(&mut self, family: &Family, unit: usize) {
        let value = match (self.plan.values, family.value) {
            (Values::Natural, value) => value,
            (Values::Constant, value) => still(value),
            (Values::Share(share), value) if !self.is_chosen(share) => still(value),
            (Values::Busy | Values::Share(_), value) => busy(value, family.kind),
            (Values::Random, _) if family.kind == Kind::Counter => {
                Value::Counter(15, 9, 999_999_937)
            }
            (Values::Random, _) => Value::Gauge(0, 0),
        };
        let drawn = mix(self.plan.seed ^ (self.line << 1) ^ 1);
        let (mut look, motion) = self.look(value, drawn);
        if self.plan.values == Values::Random && family.kind != Kind::Counter {
            look = Look { prefix: "0.", digits: 16, point: 0, exponent: 0 };
            let (base, span) = (10u64.pow(15), 10u64.pow(15) * 9);
            self.number(&look, Ok(Motion::Random { base, span }), unit);
            return;
        }
        if let Value::Text(text) = value {
            self.text(text);
            self.text("\n");
            return;
        }
        self.number(&look, motion, unit);
    }

    /// How a value is written, and what moves it, or the number that it stays.
    fn look(&self, value: Value, drawn: u64) -> (Look, Result<Motion, u64>) {
        let look = |digits: u8, decimals: u8| self.looks(digits, decimals);
        let ten = |digits: u8| 10u64.pow(u32::from(digits) - 1);
        match value {
            Value::Text(_) | Value::Gauge(0, _) => (look(1, 0), Err(0)),
            Value::Still(digits, decimals) => {
                let number = ten(digits) + below(drawn, ten(digits) * 9);
                // Go writes no zeros at the end.
                let number = if decimals > 0 || digits > 6 { number | 1 } else { number };
                (look(digits, decimals), Err(number))
            }
            Value::Counter(digits, decimals, rate) => {
                let (base, span, rate) = Motion::fit(digits, rate);
                // Neighbours have other rates.
                let rate = (rate / 4 + below(drawn, rate)).max(1);
                (look(digits, decimals), Ok(Motion::Counter { base, span, rate }))
            }
            Value::Idle(digits, shift) => {
                let (base, span, rate) = Motion::fit(digits, 3);
                (look(digits, 0), Ok(Motion::Idle { base, span, rate, shift }))
            }
            Value::Gauge(digits, decimals) => {
                let (base, span) = (ten(digits), ten(digits) * 8);
                (look(digits, decimals), Ok(Motion::Gauge { base, span, quantum: 1 }))
            }
            Value::Pages(digits) => {
                const PAGE: u64 = 4096;
                let base = ten(digits).next_multiple_of(PAGE);
                let span = ten(digits) * 8;
                (look(digits, 0), Ok(Motion::Gauge { base, span, quantum: PAGE }))
            }
            Value::Ratio(decimals) => {
                let (base, span) = (ten(decimals), ten(decimals) * 8);
                let look = Look { prefix: "0.", digits: decimals, point: 0, exponent: 0 };
                (look, Ok(Motion::Gauge { base, span, quantum: 1 }))
            }
            Value::Began(decimals) => {
                let scale = 10u64.pow(u32::from(decimals));
                let number = 1_700_000_000 * scale + below(drawn, 60_000_000 * scale);
                (look(10 + decimals, decimals), Err(number | 1))
            }
            Value::Now => (look(13, 3), Ok(Motion::Clock)),
            Value::Micros(_) => (look(6, 0), Err(ten(6))),
        }
    }

    fn looks(&self, digits: u8, decimals: u8) -> Look {
        let whole = digits - decimals;
        if whole > 6 && !self.shape.plain {
            return Look { prefix: "", digits, point: 1, exponent: whole - 1 };
        }
        Look { prefix: "", digits, point: if decimals > 0 { whole } else { 0 }, exponent: 0 }
    }

    fn number(&mut self, look: &Look, motion: Result<Motion, u64>, unit: usize) {
        self.text(look.prefix);
        let at = self.place();
        let Look { digits, point, .. } = *look;
        let width = usize::from(digits) + usize::from(point > 0);
        self.out.text.extend(std::iter::repeat_n(b'.', width));
        let (unit, group) = (unit as u32, self.group);
        match motion {
            Ok(motion) => self.out.slots.push(Slot { at, unit, group, digits, point, motion }),
            Err(number) => {
                write_digits(&mut self.out.text[at as usize..], number, digits, point);
            }
        }
        if look.exponent > 0 {
            self.text(&format!("e+{:02}", look.exponent));
        }
        self.text("\n");
    }

    /// The lines of a histogram: buckets that rise from nothing to all, the last ones all alike.
    fn histogram(
        &mut self,
        family: &Family,
        bounds: &[&str],
        element: usize,
        variant: &str,
        unit: usize,
    ) {
        let moves = match self.plan.values {
            Values::Constant => false,
            Values::Share(share) => self.is_chosen(share),
            Values::Natural | Values::Busy | Values::Random => true,
        };
        let drawn = mix(self.plan.seed ^ u64::from(self.group));
        // Where the distribution begins and how wide it is differs between histograms.
        let first = bounds.len() as f64 * (0.05 + 0.25 * (drawn & 255) as f64 / 256.0);
        let width = bounds.len() as f64 * (0.3 + 0.25 * (drawn >> 8 & 255) as f64 / 256.0);
        for (number, bound) in bounds.iter().chain([&INF]).enumerate() {
            let along = ((number as f64 - first) / width).clamp(0.0, 1.0);
            // Smooth at both ends, as distributions are.
            let share = (along * along * (3.0 - 2.0 * along) * 65_536.0) as u64;
            self.series(family, "_bucket", Some(bound), element, variant, unit);
            self.part(share, moves, unit);
        }
        let Value::Micros(micros) = family.value else {
            debug_assert!(false, "{} has no duration", family.name);
            return;
        };
        self.series(family, "_sum", None, element, variant, unit);
        let micros = (micros / 2 + below(drawn, micros)).min(150_000);
        let (look, motion) = (self.looks(11, 6), self.sum(micros));
        self.number(&look, if moves { Ok(motion) } else { Err(motion.at(0, START)) }, unit);
        self.series(family, "_count", None, element, variant, unit);
        self.part(65_536, moves, unit);
    }

    /// A cumulated bucket with so much of all observations.
    fn part(&mut self, share: u64, moves: bool, unit: usize) {
        if share < 30 {
            self.text("0\n");
            return;
        }
        let digits = match share {
            ..=327 => 4,
            328..=3276 => 5,
            _ => 6,
        };
        let base = 10u64.pow(digits - 1) + ((OBSERVATIONS * share) >> 16);
        let motion = Motion::Part { base, span: OBSERVATIONS, rate: 4, share };
        let look = self.looks(digits as u8, 0);
        self.number(&look, if moves { Ok(motion) } else { Err(base) }, unit);
    }

    fn sum(&self, micros: u64) -> Motion {
        // An odd share, so that sums don't end in zeros.
        let share = (micros << 16) | 0x3a7f;
        let base = 10_000_000_000 + OBSERVATIONS * micros / 10;
        Motion::Part { base, span: OBSERVATIONS, rate: 4, share }
    }
}

const START: Moment = Moment { tick: 0, unix_ms: 0 };

/// The same number without its movement.
fn still(value: Value) -> Value {
    match value {
        Value::Counter(digits, decimals, _) | Value::Gauge(digits, decimals) => {
            Value::Still(digits, decimals)
        }
        Value::Idle(digits, _) | Value::Pages(digits) => Value::Still(digits, 0),
        Value::Ratio(_) => Value::Text("0.5"),
        Value::Now => Value::Began(3),
        Value::Text(_) | Value::Still(..) | Value::Began(_) | Value::Micros(_) => value,
    }
}

/// Something that moves at every tick instead.
fn busy(value: Value, kind: Kind) -> Value {
    match (value, kind) {
        (Value::Text(_) | Value::Still(..) | Value::Began(_), Kind::Counter) => {
            Value::Counter(9, 0, 1000)
        }
        (Value::Text(_) | Value::Began(_), _) => Value::Gauge(5, 0),
        (Value::Still(digits, decimals), _) => Value::Gauge(digits.max(4), decimals),
        (Value::Idle(digits, _), _) => Value::Counter(digits.max(8), 0, 1000),
        (Value::Gauge(digits, decimals), _) => Value::Gauge(digits.max(4), decimals),
        _ => value,
    }
}
