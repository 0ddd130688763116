//! Which of a profile's values is looked at, and how it is written.

use wire::pprof::Document;

use super::text::plain;

/// A column of a profile's values, and the one that counts the same things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Its place among the values of a sample.
    pub(super) index: usize,
    /// Where the number of things is that its values are the sizes of, if there is one.
    pub(super) count: Option<usize>,
    /// What is measured: `alloc_space`.
    pub(super) kind: String,
    /// The unit as the profile names it.
    pub(super) unit: String,
    /// What is counted, in the plural: `objects`.
    pub(super) things: String,
}

impl Column {
    /// The column of this name or number; what the profile prefers when there is none.
    pub(super) fn choose(document: &Document<'_>, wanted: Option<&str>) -> Result<Self, String> {
        let types: Vec<(String, String)> = document
            .sample_types()
            .iter()
            .map(|it| (plain(&document.text(it.kind)), plain(&document.text(it.unit))))
            .collect();
        let names = || types.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ");
        let index = match wanted {
            None => document.default_column(),
            Some(wanted) => types
                .iter()
                .position(|(kind, _)| kind == wanted)
                .or_else(|| wanted.parse().ok().filter(|&index| index < types.len()))
                .ok_or_else(|| {
                    format!(
                        "there is no value {wanted:?}: --sample-index is one of {} or a number \
                         from 0 to {}",
                        names(),
                        types.len().saturating_sub(1)
                    )
                })?,
        };
        let (kind, unit) =
            types.get(index).ok_or("the profile has no types of values, and so no values")?;
        let count = count_of(&types, index);
        let counted = count.map_or(kind.as_str(), |count| &types[count].0);
        let things = counted.rsplit('_').next().unwrap_or(counted).to_owned();
        Ok(Column { index, count, kind: kind.clone(), unit: unit.clone(), things })
    }

    /// One of what is counted: `object`.
    pub(super) fn thing(&self) -> &str {
        self.things.strip_suffix('s').unwrap_or(&self.things)
    }

    /// What stands above the values: `CPU`, `BYTES`.
    pub(super) fn header(&self) -> String {
        let name = if self.is_bytes() { "bytes" } else { &self.kind };
        name.to_uppercase()
    }

    fn is_bytes(&self) -> bool {
        matches!(self.unit.as_str(), "bytes" | "byte" | "B")
    }

    /// A value with its unit, in three or four digits.
    pub(super) fn write(&self, value: f64) -> String {
        const TIMES: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];
        const SIZES: [(&str, f64); 5] = [
            ("TiB", 1_099_511_627_776.0),
            ("GiB", 1_073_741_824.0),
            ("MiB", 1_048_576.0),
            ("KiB", 1024.0),
            ("B", 1.0),
        ];
        let (scale, units): (f64, &[(&str, f64)]) = match self.unit.as_str() {
            "nanoseconds" | "nanosecond" | "ns" => (1.0, &TIMES),
            "microseconds" | "microsecond" | "us" => (1e3, &TIMES),
            "milliseconds" | "millisecond" | "ms" => (1e6, &TIMES),
            "seconds" | "second" | "s" => (1e9, &TIMES),
            _ if self.is_bytes() => (1.0, &SIZES),
            _ => return number(value),
        };
        let value = value * scale;
        let fits = units.iter().find(|(_, size)| value.abs() >= *size);
        match fits {
            None if value == 0.0 => "0".to_owned(),
            None => format!("{value:.2}{}", units[units.len() - 1].0),
            Some(&(unit, 1.0)) if value.fract() == 0.0 => format!("{value:.0}{unit}"),
            Some((unit, size)) => format!("{:.2}{unit}", value / size),
        }
    }

    /// How many things there are.
    pub(super) fn write_count(&self, count: f64) -> String {
        number(count)
    }

    /// A value with its unit and its sign.
    pub(super) fn write_change(&self, value: f64) -> String {
        if value > 0.0 { format!("+{}", self.write(value)) } else { self.write(value) }
    }
}

/// The column that counts what the one at `index` measures: the count with the same begin of its name
/// (`inuse_objects` for `inuse_space`), else the first count, as the format wants it.
fn count_of(types: &[(String, String)], index: usize) -> Option<usize> {
    let is_count = |(_, unit): &(String, String)| unit == "count";
    let (kind, _) = types.get(index).filter(|it| !is_count(it))?;
    let prefix = kind.split_once('_').map(|(prefix, _)| prefix);
    let same = |it: &(String, String)| {
        is_count(it) && it.0.split_once('_').map(|(prefix, _)| prefix) == prefix
    };
    types.iter().position(same).or_else(|| types.iter().position(is_count))
}

/// A number without a unit: whole if it is.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// `part` of `whole` in percent, as tprof has it: two digits behind the point.
pub(super) fn percent(part: f64, whole: f64) -> String {
    let share = if whole == 0.0 { 0.0 } else { 100.0 * part / whole };
    let text = format!("{share:.2}");
    // A share that is too small to be shown has no sign.
    if text == "-0.00" { "0.00".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(unit: &str) -> Column {
        let kind = "x".to_owned();
        Column { index: 0, count: None, kind, unit: unit.to_owned(), things: "calls".to_owned() }
    }

    #[test]
    fn shares_have_two_digits() {
        for (part, whole, text) in [
            (1.0, 3.0, "33.33"),
            (-1.0, 3.0, "-33.33"),
            (-1.0, 1e6, "0.00"),
            (-0.0, 5.0, "0.00"),
            (5.0, 0.0, "0.00"),
        ] {
            assert_eq!(percent(part, whole), text);
        }
    }

    #[test]
    fn values_are_written_in_a_unit_that_fits() {
        for (unit, value, text) in [
            ("nanoseconds", 0.0, "0"),
            ("nanoseconds", 12.0, "12ns"),
            ("nanoseconds", 0.5, "0.50ns"),
            ("nanoseconds", 1_500.0, "1.50µs"),
            ("nanoseconds", 10_000_000.0, "10.00ms"),
            ("nanoseconds", -2.5e9, "-2.50s"),
            ("microseconds", 1.0, "1.00µs"),
            ("milliseconds", 1_500.0, "1.50s"),
            ("seconds", 3_600.0, "3600.00s"),
            ("bytes", 1_023.0, "1023B"),
            ("bytes", 1_536.0, "1.50KiB"),
            ("bytes", 3.0 * 1_048_576.0, "3.00MiB"),
            ("count", 7.0, "7"),
            ("count", 7.5, "7.50"),
            ("cycles", 1e12, "1000000000000"),
        ] {
            assert_eq!(column(unit).write(value), text, "{value} {unit}");
        }
        assert_eq!(column("bytes").write_change(2048.0), "+2.00KiB");
        assert_eq!(column("bytes").write_change(-2048.0), "-2.00KiB");
        assert_eq!(column("bytes").write_change(0.0), "0");
    }

    #[test]
    fn counts_are_found() {
        let types = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(kind, unit)| ((*kind).to_owned(), (*unit).to_owned())).collect()
        };
        let heap = types(&[
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ]);
        let cpu = types(&[("samples", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds")]);
        let bare = types(&[("cpu", "nanoseconds")]);
        for (types, index, count) in [
            (&heap, 0, None),
            (&heap, 1, Some(0)),
            (&heap, 3, Some(2)),
            (&cpu, 1, Some(0)),
            (&cpu, 2, Some(0)),
            (&bare, 0, None),
        ] {
            assert_eq!(count_of(types, index), count, "{types:?} {index}");
        }
    }
}
