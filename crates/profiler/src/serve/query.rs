//! What is asked for: a page, and its parameters.
//!
//! Parameters are Go's: `seconds`, `debug`, and `gc`, which is ignored as are all that are not known; and
//! `symbolize`. A value that can't be read is refused with a text that says what is allowed.

use std::time::Duration;

/// The longest query string that is read, in bytes.
const LONGEST: usize = 1 << 20;

/// The longest collection.
pub(super) const LONGEST_COLLECTION: Duration = Duration::from_secs(3600);

/// How long CPU and wall-clock are looked at unless something else is asked for.
pub(super) const DEFAULT_COLLECTION: Duration = Duration::from_secs(30);

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Index,
    /// Leads to the index.
    Redirect,
    Cmdline,
    Symbol,
    Profile(Kind),
}

/// A profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cpu,
    Wall,
    Heap,
    Allocs,
    Threads,
}

impl Kind {
    /// As it is called in addresses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "profile",
            Kind::Wall => "wall",
            Kind::Heap => "heap",
            Kind::Allocs => "allocs",
            Kind::Threads => "threads",
        }
    }
}

impl Page {
    /// The page of a path: what stands behind its last slash.
    pub(super) fn find(path: &str) -> Option<Page> {
        Some(match path.rsplit('/').next().unwrap_or_default() {
            "" => Page::Index,
            "pprof" => Page::Redirect,
            "cmdline" => Page::Cmdline,
            "symbol" => Page::Symbol,
            "profile" => Page::Profile(Kind::Cpu),
            "wall" => Page::Profile(Kind::Wall),
            "heap" => Page::Profile(Kind::Heap),
            "allocs" => Page::Profile(Kind::Allocs),
            "threads" => Page::Profile(Kind::Threads),
            _ => return None,
        })
    }
}

/// How much a text tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Debug {
    /// The format of pprof, and no text.
    #[default]
    Off,
    /// Stacks, each once.
    Grouped,
    /// Each thread for itself.
    Single,
}

/// What the query string says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) seconds: Option<Duration>,
    pub(super) debug: Debug,
    pub(super) symbolize: bool,
}

impl Parameters {
    /// Reads a query string; tells what is wrong with it, to whoever asked.
    pub(super) fn parse(query: &str) -> Result<Parameters, String> {
        let mut all = Parameters { seconds: None, debug: Debug::Off, symbolize: true };
        if query.len() > LONGEST {
            return Err(format!("the query string is longer than {LONGEST} bytes"));
        }
        for part in query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match (name, value) {
                (_, "") => {}
                ("seconds", value) => all.seconds = Some(seconds(value)?),
                ("debug", "0") => all.debug = Debug::Off,
                ("debug", "1") => all.debug = Debug::Grouped,
                ("debug", "2") => all.debug = Debug::Single,
                ("debug", _) => {
                    return Err("invalid value for \"debug\" - must be 0, 1 or 2".to_owned());
                }
                ("symbolize", "true" | "1") => all.symbolize = true,
                ("symbolize", "false" | "0") => all.symbolize = false,
                ("symbolize", _) => {
                    let text = "invalid value for \"symbolize\" - must be true or false";
                    return Err(text.to_owned());
                }
                _ => {}
            }
        }
        Ok(all)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let most = LONGEST_COLLECTION.as_secs_f64();
    match text.parse::<f64>() {
        Ok(seconds) if seconds >= 0.001 && seconds <= most => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "invalid value for \"seconds\" - must be a positive number of at most {most}"
        )),
    }
}

/// The addresses that someone wants to know the names of: numbers with a `+` between them, as Go's tool posts
/// them. What is no number is left out, as Go does.
pub(super) fn addresses(text: &str) -> Vec<u64> {
    let number = |word: &str| {
        let word = word.trim();
        match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        }
    };
    text.split('+').filter_map(number).filter(|&address| address != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_wherever_they_are_mounted() {
        for (path, expected) in [
            ("/debug/pprof/", Some(Page::Index)),
            ("/debug/pprof", Some(Page::Redirect)),
            ("/debug/pprof/heap", Some(Page::Profile(Kind::Heap))),
            ("/a/debug/pprof/profile", Some(Page::Profile(Kind::Cpu))),
            ("wall", Some(Page::Profile(Kind::Wall))),
            ("/debug/pprof/goroutine", None),
            ("/debug/pprof/heap%00", None),
        ] {
            assert_eq!(Page::find(path), expected, "{path}");
        }
        for kind in [Kind::Cpu, Kind::Wall, Kind::Heap, Kind::Allocs, Kind::Threads] {
            assert_eq!(Page::find(kind.name()), Some(Page::Profile(kind)));
        }
    }

    #[test]
    fn parameters_are_gos() {
        let all = |seconds: Option<f64>, debug, symbolize| Parameters {
            seconds: seconds.map(Duration::from_secs_f64),
            debug,
            symbolize,
        };
        for (query, expected) in [
            ("", all(None, Debug::Off, true)),
            ("seconds=5", all(Some(5.0), Debug::Off, true)),
            ("seconds=0.25&gc=1", all(Some(0.25), Debug::Off, true)),
            ("seconds=3600&debug=2", all(Some(3600.0), Debug::Single, true)),
            ("seconds=&debug=1&symbolize=false&x=%", all(None, Debug::Grouped, false)),
            ("symbolize=1&&", all(None, Debug::Off, true)),
        ] {
            assert_eq!(Parameters::parse(query), Ok(expected), "{query}");
        }
        let seconds = "invalid value for \"seconds\" - must be a positive number of at most 3600";
        for (query, expected) in [
            ("seconds=0", seconds),
            ("seconds=-1", seconds),
            ("seconds=3600.1", seconds),
            ("seconds=NaN", seconds),
            ("seconds=inf", seconds),
            ("seconds=1e400", seconds),
            ("seconds=ten", seconds),
            ("debug=3", "invalid value for \"debug\" - must be 0, 1 or 2"),
            ("symbolize=no", "invalid value for \"symbolize\" - must be true or false"),
            (&"a".repeat(2 << 20), "the query string is longer than 1048576 bytes"),
        ] {
            assert_eq!(Parameters::parse(query), Err(expected.to_owned()), "{query:.30}");
        }
    }

    #[test]
    fn addresses_are_numbers_between_plus_signs() {
        for (text, expected) in [
            ("", &[][..]),
            ("0x1f+0x2", &[31, 2]),
            ("17+x+0+0XA\n", &[17, 10]),
            ("0xffffffffffffffff+0x1ffffffffffffffff", &[u64::MAX]),
        ] {
            assert_eq!(addresses(text), expected, "{text}");
        }
    }
}
