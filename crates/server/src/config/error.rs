//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a file: line and column count from 1, the column in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One fault: `file:line:column: field: what is wrong and what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file that holds it.
    pub file: PathBuf,
    /// Where; `None` if the file could not be read at all.
    pub position: Option<Position>,
    /// The path of the field, such as `scrape_configs[2].scrape_timeout`; empty for the file itself.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(at) = self.position {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Everything that is wrong, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    /// How many more there were than are kept.
    omitted: usize,
}

impl ConfigErrors {
    /// A single fault.
    #[cold]
    pub fn one(error: ConfigError) -> Self {
        ConfigErrors { errors: vec![error], omitted: 0 }
    }

    /// The faults.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.errors.iter()
    }
}

/// One fault to a line.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.omitted > 0 {
            write!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A remark on something that stands in the configuration and is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The section or field, such as `scrape_configs[0].consul_sd_configs`.
    pub section: String,
    /// The file that holds it.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// What it is about.
    pub message: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.section, self.message)
    }
}

/// More faults than this are counted and not kept.
const KEPT: usize = 50;

/// Collects what is found while one file is read and checked.
#[derive(Debug)]
pub(super) struct Report {
    file: PathBuf,
    errors: Vec<ConfigError>,
    omitted: usize,
    pub(super) unsupported: Vec<Notice>,
    pub(super) warnings: Vec<Notice>,
}

impl Report {
    pub(super) fn new(file: &Path) -> Self {
        Report {
            file: file.to_owned(),
            errors: Vec::new(),
            omitted: 0,
            unsupported: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A report on another file, whose findings [`Report::absorb`] takes in.
    pub(super) fn sibling(&self, file: &Path) -> Self {
        Report::new(file)
    }

    pub(super) fn absorb(&mut self, other: Report) {
        self.errors.extend(other.errors);
        self.omitted += other.omitted;
        self.unsupported.extend(other.unsupported);
        self.warnings.extend(other.warnings);
    }

    #[cold]
    pub(super) fn error(
        &mut self,
        at: Position,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.push(ConfigError {
            file: self.file.clone(),
            position: Some(at),
            field: field.into(),
            message: message.into(),
        });
    }

    #[cold]
    pub(super) fn file_error(&mut self, message: impl Into<String>) {
        self.push(ConfigError {
            file: self.file.clone(),
            position: None,
            field: String::new(),
            message: message.into(),
        });
    }

    fn push(&mut self, error: ConfigError) {
        if self.errors.len() < KEPT {
            self.errors.push(error);
        } else {
            self.omitted += 1;
        }
    }

    /// Understood, but what it asks for does not happen: not to be run with.
    pub(super) fn unsupported(
        &mut self,
        at: Position,
        section: impl Into<String>,
        message: impl Into<String>,
    ) {
        let notice = self.notice(at, section.into(), message.into());
        self.unsupported.push(notice);
    }

    /// Worth knowing, and no reason not to run.
    pub(super) fn warn(
        &mut self,
        at: Position,
        section: impl Into<String>,
        message: impl Into<String>,
    ) {
        let notice = self.notice(at, section.into(), message.into());
        self.warnings.push(notice);
    }

    fn notice(&self, at: Position, section: String, message: String) -> Notice {
        Notice { section, file: self.file.clone(), line: at.line, message }
    }

    /// How many faults there are so far.
    pub(super) fn error_count(&self) -> usize {
        self.errors.len() + self.omitted
    }

    /// All faults, if there are any.
    pub(super) fn into_errors(mut self) -> Result<(Vec<Notice>, Vec<Notice>), ConfigErrors> {
        if self.errors.is_empty() {
            return Ok((self.unsupported, self.warnings));
        }
        // Checks across fields run after the fields; people read a file from the top.
        self.errors.sort_by(|a, b| {
            (a.file != self.file, &a.file, a.position).cmp(&(
                b.file != self.file,
                &b.file,
                b.position,
            ))
        });
        Err(ConfigErrors { errors: self.errors, omitted: self.omitted })
    }
}
