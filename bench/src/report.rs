//! Tables for people, bars, and the RESULT line for programs.

use std::fmt::Write as _;

/// A table whose columns are as wide as their widest cell; the first is set to the left.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<'h>(headings: impl IntoIterator<Item = &'h str>) -> Self {
        Table { rows: vec![headings.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as lines.
    pub fn print(&self) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell =
            |row: &Vec<String>, column: usize| row.get(column).map_or(0, |c| c.chars().count());
        let width = |column| self.rows.iter().map(|row| cell(row, column)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, text) in row.iter().enumerate() {
                let width = widths[column];
                let _ = match column {
                    0 => write!(line, "{text:<width$}"),
                    _ => write!(line, "  {text:>width$}"),
                };
            }
            println!("{}", line.trim_end());
        }
    }
}

/// A number with so many digits after the point, or `n/a`.
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.digits$}"))
}

/// A number divided by a unit, as [`number`].
pub fn scaled(value: Option<f64>, unit: f64, digits: usize) -> String {
    number(value.map(|value| value / unit), digits)
}

/// The bars of the bench, each with what was measured.
#[derive(Debug, Default)]
pub struct Bars(Vec<(String, Option<f64>, Bar)>);

/// A bound of a figure.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// It may not be above.
    AtMost(f64),
    /// It may not be below.
    AtLeast(f64),
}

impl Bars {
    /// Adds a figure with its bar.
    pub fn add(&mut self, name: &str, value: Option<f64>, bar: Bar) {
        self.0.push((name.to_owned(), value, bar));
    }

    /// One line for each: the figure, the bar, whether it holds.
    pub fn print(&self) {
        let mut table = Table::new(["bar", "measured", "wanted", ""]);
        for (name, value, bar) in &self.0 {
            let (wanted, holds) = match *bar {
                Bar::AtMost(most) => (format!("<= {most}"), value.map(|value| value <= most)),
                Bar::AtLeast(least) => (format!(">= {least}"), value.map(|value| value >= least)),
            };
            let verdict =
                holds.map_or("not measured", |holds| if holds { "holds" } else { "MISSED" });
            table.row([name.clone(), number(*value, 2), wanted, verdict.to_owned()]);
        }
        table.print();
    }
}

/// The last line: `RESULT bench key=value …`, the keys in the order given.
#[derive(Debug)]
pub struct ResultLine(String);

impl ResultLine {
    /// `RESULT bench`.
    pub fn new(bench: &str) -> Self {
        ResultLine(format!("RESULT {bench}"))
    }

    /// Adds a word.
    pub fn word(mut self, key: &str, value: &str) -> Self {
        let _ = write!(self.0, " {key}={value}");
        self
    }

    /// Adds a number with so many digits after the point, or `n/a`.
    pub fn number(self, key: &str, value: Option<f64>, digits: usize) -> Self {
        self.word(key, &number(value, digits))
    }

    /// Prints it.
    pub fn print(&self) {
        println!("{}", self.0);
    }
}
