//! The command line of `unladen profile`.

use std::path::PathBuf;

use store::Pattern;

use super::source::shown;
use crate::cli::Mistake;

/// What was asked for.
#[derive(Debug)]
pub enum Wanted {
    /// This work.
    Run(Box<Request>),
    /// A text that explains.
    Help(String),
}

/// What to do with which profiles.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub tool: Tool,
    /// Which part of the profiles.
    pub selection: Selection,
    /// Where the result goes; `None` for standard output.
    pub output: Option<PathBuf>,
    /// What stands above an SVG.
    pub title: Option<String>,
    /// The width of an SVG, in pixels.
    pub width: u32,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Tool {
    /// A table per name.
    Top {
        /// A file or URL.
        source: String,
    },
    /// A flame graph.
    Flame {
        /// A file or URL.
        source: String,
    },
    /// What differs between two profiles.
    Diff {
        /// A file or URL.
        old: String,
        /// A file or URL.
        new: String,
        /// A flame graph and no table.
        flame: bool,
        /// As if both had taken as long as the new one.
        normalize: bool,
    },
}

/// Which part of a profile, and how it is shown.
#[derive(Debug)]
pub struct Selection {
    /// The name or number of the value; `None` for the one that the profile prefers.
    pub sample_index: Option<String>,
    /// What a name stands for.
    pub by: By,
    /// Only stacks in which a function or a file matches.
    pub focus: Option<Pattern>,
    /// No stacks in which a function or a file matches.
    pub ignore: Option<Pattern>,
    /// Stacks begin at the outermost function that matches, or whose file does, if there is one.
    pub from: Option<Pattern>,
    /// The rows of a table; 0 for all.
    pub limit: usize,
    /// The largest row first.
    pub descending: bool,
    /// Sorted by what a name costs with all that it calls.
    pub by_cum: bool,
    /// The characters of a name in a table; 0 for all.
    pub name_width: usize,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A function.
    Function,
    /// A source file.
    File,
    /// A line.
    Line,
    /// A crate, a package, a loaded file.
    Module,
    /// All labels of a sample.
    Labels,
    /// The label of this key.
    Label(String),
}

impl By {
    /// What stands above the names.
    pub(super) fn header(&self) -> &'static str {
        match self {
            By::Function => "FUNCTION",
            By::File => "FILE",
            By::Line => "LINE",
            By::Module => "MODULE",
            By::Labels | By::Label(_) => "LABEL",
        }
    }

    fn parse(text: &str) -> Result<Self, Mistake> {
        Ok(match text {
            "function" => By::Function,
            "file" => By::File,
            "line" => By::Line,
            "module" => By::Module,
            "label" | "labels" => By::Labels,
            _ => match text.strip_prefix("label:").or_else(|| text.strip_prefix("label=")) {
                Some(key) if !key.is_empty() => By::Label(key.to_owned()),
                _ => {
                    return Err(Mistake::new(format!(
                        "--by is function, file, line, module, label or label:KEY, and not {text:?}"
                    )));
                }
            },
        })
    }
}

impl Default for Selection {
    fn default() -> Self {
        Selection {
            sample_index: None,
            by: By::Function,
            focus: None,
            ignore: None,
            from: None,
            limit: 40,
            descending: false,
            by_cum: false,
            name_width: 72,
        }
    }
}

const DEFAULT_WIDTH: u32 = 1200;

const HELP: &str = "\
usage: unladen profile top   [<flags>] FILE|URL
       unladen profile flame [<flags>] FILE|URL
       unladen profile diff  [<flags>] OLD NEW

Reads a profile in pprof's format, whoever wrote it, compressed or not: from a file, from a URL such as
http://localhost:9090/debug/pprof/profile?seconds=10 (which is waited for), or with - from standard input.

  top     A table per function: how often, how much, how much each time, which share; CUM is what was
          measured in a function and in all that it calls
  flame   A flame graph as SVG, which zooms on a click and searches
  diff    What each function costs more or less in the second profile

Flags:
  --sample-index=NAME   Which of the profile's values: cpu, inuse_space, ... or its number
                        (without it, the one that the profile prefers)
  --by=function         function, file, line, module, label (all labels) or label:KEY
  --focus=PATTERN       Only stacks with a function or file that matches (RE2, anywhere in the name)
  --ignore=PATTERN      No stacks with a function or file that matches
  --from=PATTERN        Stacks begin at the outermost function or file that matches: without what a
                        runtime puts around it; those without one stay whole
  --limit=40            Rows of a table, 0 for all
  --cum                 Sort by CUM
  --descending          The largest row first, not last
  --name-width=72       Characters of a name in a table, 0 for all
  -o, --output=FILE     Write there, not to standard output
  --title=TEXT          (flame) What stands above the graph
  --width=1200          (flame) Pixels
  --normalize           (diff) As if the old profile had taken as long as the new one
  --flame               (diff) A flame graph: red is dearer than before, blue is cheaper
";

/// Reads the command line behind `unladen profile`.
///
/// # Errors
/// The first mistake.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Wanted, Mistake> {
    let mut arguments = arguments;
    let tool = match arguments.next().as_deref() {
        Some(tool @ ("top" | "flame" | "diff")) => tool.to_owned(),
        Some("help" | "--help" | "-help" | "-h") => return Ok(Wanted::Help(HELP.to_owned())),
        other => {
            return Err(Mistake::new(format!(
                "unladen profile knows top, flame and diff, and found {}: see unladen profile --help",
                other.map_or("nothing".to_owned(), |word| format!("{:?}", shown(word)))
            )));
        }
    };
    let mut read = Read::default();
    while let Some(argument) = arguments.next() {
        let flag = match argument.strip_prefix('-') {
            None | Some("") => {
                read.sources.push(argument);
                continue;
            }
            Some(flag) => flag.strip_prefix('-').unwrap_or(flag),
        };
        if matches!(flag, "h" | "help") {
            return Ok(Wanted::Help(HELP.to_owned()));
        }
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        // As Go's tool writes them.
        let name = name.replace('_', "-");
        read.flag(&tool, &name, value, &mut arguments)?;
    }
    read.finish(&tool)
}

#[derive(Default)]
struct Read {
    sources: Vec<String>,
    selection: Selection,
    output: Option<PathBuf>,
    title: Option<String>,
    width: Option<u32>,
    flame: bool,
    normalize: bool,
}

impl Read {
    fn flag(
        &mut self,
        tool: &str,
        name: &str,
        value: Option<String>,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), Mistake> {
        let selection = &mut self.selection;
        let switch = match name {
            "cum" => Some(&mut selection.by_cum),
            "descending" => Some(&mut selection.descending),
            "flame" if tool == "diff" => Some(&mut self.flame),
            "normalize" if tool == "diff" => Some(&mut self.normalize),
            _ => None,
        };
        if let Some(switch) = switch {
            if let Some(value) = value {
                return Err(Mistake::new(format!("--{name} takes no value, and found {value:?}")));
            }
            *switch = true;
            return Ok(());
        }
        let mut value = || {
            value
                .clone()
                .or_else(|| rest.next())
                .ok_or_else(|| Mistake::new(format!("expected a value for flag '--{name}'")))
        };
        let number = |value: String, from: u32, to: u32| {
            let parsed = value.parse::<u32>().ok().filter(|number| (from..=to).contains(number));
            parsed.ok_or_else(|| {
                Mistake::new(format!("--{name} is a number from {from} to {to}, not {value:?}"))
            })
        };
        match name {
            "sample-index" => selection.sample_index = Some(value()?),
            "by" => selection.by = By::parse(&value()?)?,
            "focus" => selection.focus = Some(pattern(name, &value()?)?),
            "ignore" => selection.ignore = Some(pattern(name, &value()?)?),
            "from" => selection.from = Some(pattern(name, &value()?)?),
            "limit" => selection.limit = number(value()?, 0, u32::MAX)? as usize,
            "name-width" => selection.name_width = number(value()?, 0, 10_000)? as usize,
            "o" | "output" => self.output = Some(PathBuf::from(value()?)),
            "title" => self.title = Some(value()?),
            "width" => self.width = Some(number(value()?, 300, 20_000)?),
            _ => {
                return Err(Mistake::new(format!(
                    "unladen profile {tool} has no flag --{name}: see unladen profile --help"
                )));
            }
        }
        Ok(())
    }

    fn finish(self, tool: &str) -> Result<Wanted, Mistake> {
        let graph = tool == "flame" || self.flame;
        if !graph && (self.title.is_some() || self.width.is_some()) {
            let hint = if tool == "diff" { "add --flame" } else { "use unladen profile flame" };
            return Err(Mistake::new(format!("--title and --width are those of a graph: {hint}")));
        }
        let wanted = if tool == "diff" { 2 } else { 1 };
        if self.sources.len() != wanted {
            let names = if tool == "diff" { "OLD NEW" } else { "FILE|URL" };
            return Err(Mistake::new(format!(
                "expected {wanted} and found {}: unladen profile {tool} [<flags>] {names}",
                self.sources.len()
            )));
        }
        if wanted == 2 && self.sources.iter().all(|source| source == "-") {
            let text = "standard input can be read once: give a file or a URL for one of the two";
            return Err(Mistake::new(text));
        }
        let mut sources = self.sources.into_iter();
        let mut next = || sources.next().unwrap_or_default();
        let tool = match tool {
            "top" => Tool::Top { source: next() },
            "flame" => Tool::Flame { source: next() },
            _ => Tool::Diff {
                old: next(),
                new: next(),
                flame: self.flame,
                normalize: self.normalize,
            },
        };
        Ok(Wanted::Run(Box::new(Request {
            tool,
            selection: self.selection,
            output: self.output,
            title: self.title,
            width: self.width.unwrap_or(DEFAULT_WIDTH),
        })))
    }
}

/// A pattern that may match anywhere.
fn pattern(flag: &str, source: &str) -> Result<Pattern, Mistake> {
    // Alone first: what is wrong is said of what was written, and a lone `)` closes nothing of ours.
    Pattern::new(source)
        .and_then(|_| Pattern::new(&format!("(?s:.*)(?:{source})(?s:.*)")))
        .map_err(|error| Mistake::new(format!("--{flag}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Wanted, Mistake> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn request(line: &str) -> Request {
        match run(line) {
            Ok(Wanted::Run(request)) => *request,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn flags_are_written_in_several_ways() {
        for line in [
            "top --sample-index=cpu --by=line --limit=5 --cum -o x.txt a.pb.gz",
            "top a.pb.gz -sample_index cpu -by line -limit 5 -cum --output=x.txt",
        ] {
            let it = request(line);
            assert_eq!(it.tool, Tool::Top { source: "a.pb.gz".to_owned() }, "{line}");
            assert_eq!(it.selection.sample_index.as_deref(), Some("cpu"), "{line}");
            assert_eq!((it.selection.by, it.selection.limit), (By::Line, 5), "{line}");
            assert!(it.selection.by_cum, "{line}");
            assert_eq!(it.output, Some(PathBuf::from("x.txt")), "{line}");
        }
        let it = request("diff --flame --normalize --width=800 - b.pb --by label:endpoint");
        let (old, new) = ("-".to_owned(), "b.pb".to_owned());
        assert_eq!(it.tool, Tool::Diff { old, new, flame: true, normalize: true });
        assert_eq!((it.width, it.selection.by), (800, By::Label("endpoint".to_owned())));
        assert!(matches!(run("top --help"), Ok(Wanted::Help(_))));
        assert!(matches!(run("--help"), Ok(Wanted::Help(_))));
    }

    #[test]
    fn patterns_match_anywhere() {
        for (source, text, expected) in [
            ("allox", "je_malloc_x", false),
            ("alloc", "raw_alloc_x", true),
            ("^alloc", "raw_alloc", false),
            ("^alloc|x$", "allocx!", true),
            ("^alloc|x$", "box", true),
            ("(?i)ALLOC", "alloc", true),
        ] {
            assert_eq!(
                pattern("focus", source).unwrap().is_match(text),
                expected,
                "{source} {text}"
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("", "knows top, flame and diff, and found nothing"),
            ("tip x", "and found \"tip\""),
            ("top", "expected 1 and found 0: unladen profile top [<flags>] FILE|URL"),
            ("top a b", "expected 1 and found 2"),
            ("diff a", "expected 2 and found 1: unladen profile diff [<flags>] OLD NEW"),
            ("top a --frobnicate", "unladen profile top has no flag --frobnicate"),
            ("top a --normalize", "unladen profile top has no flag --normalize"),
            ("top a --limit=x", "--limit is a number from 0 to 4294967295, not \"x\""),
            ("flame a --width=10", "--width is a number from 300 to 20000"),
            ("top a --by=colour", "--by is function, file, line, module, label or label:KEY"),
            ("top a --by=label:", "--by is function"),
            ("top a --focus=(", "--focus: "),
            ("top a --ignore=)(", "--ignore: "),
            ("top a --from=(", "--from: "),
            ("top a --cum=no", "--cum takes no value"),
            ("top a --limit", "expected a value for flag '--limit'"),
            (
                "top a --title=x",
                "--title and --width are those of a graph: use unladen profile flame",
            ),
            ("diff a b --title=x", "--title and --width are those of a graph: add --flame"),
        ] {
            let mistake = run(line).expect_err(line);
            assert!(mistake.message.contains(expected), "{line}: {}", mistake.message);
        }
    }
}
