//! The servers that can be loaded: how each is recognised and started, and under which names it shows what
//! is asked of all.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::child::plain;
use crate::cli::Mistake;

/// A server as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// None: this program.
    program: Option<PathBuf>,
    flags: Vec<String>,
}

impl Wanted {
    /// This program, with its usual flags.
    pub(crate) fn ours() -> Self {
        Wanted { program: None, flags: Vec::new() }
    }

    /// `unladen` or a path, and flags behind it, separated by spaces. A path that exists may have spaces.
    pub(crate) fn parse(text: &str) -> Result<Self, Mistake> {
        let whole = Path::new(text);
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = match whole.is_file() {
            true => {
                words.by_ref().for_each(drop);
                text.to_owned()
            }
            false => words.next().ok_or_else(|| {
                Mistake::new("--server wants a program: unladen, or the path of another server")
            })?,
        };
        let program = (program != "unladen").then(|| PathBuf::from(program));
        Ok(Wanted { program, flags: words.collect() })
    }
}

/// The kinds of servers that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unladen,
    Prometheus,
    VictoriaMetrics,
    Vmagent,
}

/// A server that will be started.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    /// What it is called in the report; different for each.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) version: String,
    pub(super) program: PathBuf,
    pub(super) flags: Vec<String>,
}

/// How long a program may take to say which version it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Finds the programs, asks them who they are and gives each a name of its own.
///
/// # Errors
/// A program that isn't there, or that is no server that is known.
pub(super) fn recognise(wanted: &[Wanted]) -> Result<Vec<Contender>, String> {
    let mut found: Vec<Contender> = Vec::new();
    for one in wanted {
        let program = match &one.program {
            Some(program) => program.clone(),
            None => std::env::current_exe()
                .map_err(|error| format!("cannot tell where this program is: {error}"))?,
        };
        let said = version(&program)?;
        let kind = kind(&said, &program).ok_or_else(|| {
            format!(
                "{} is no server that can be loaded: there are unladen, prometheus, victoria-metrics and \
                 vmagent, told by --version or by the name of the file",
                program.display()
            )
        })?;
        let base = kind.name();
        let same = found.iter().filter(|other| other.kind == kind).count();
        let name = if same == 0 { base.to_owned() } else { format!("{base} {}", same + 1) };
        let version: String = plain(first_line(&said)).take(120).collect();
        found.push(Contender { name, kind, version, program, flags: one.flags.clone() });
    }
    Ok(found)
}

/// The first line that has something in it.
fn first_line(said: &str) -> &str {
    said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// What a program answers to `--version`, which Go's programs write anywhere.
fn version(program: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
    let directory = std::env::temp_dir();
    let mut child = Command::new(program)
        .arg("--version")
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if child.try_wait().map_err(|error| failed(&error))?.is_some() {
            break;
        }
        if Instant::now() > deadline {
            // Ended by now or not: nothing more is wanted of it.
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(&"did not say its version within ten seconds"));
        }
        pause();
    }
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

#[expect(clippy::disallowed_methods, reason = "another process has no condition to wait on")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

fn kind(said: &str, program: &Path) -> Option<Kind> {
    let by_version = said.lines().find_map(|line| {
        let line = line.trim_start();
        [
            ("unladen, version", Kind::Unladen),
            ("prometheus, version", Kind::Prometheus),
            ("victoria-metrics-", Kind::VictoriaMetrics),
            ("vmagent-", Kind::Vmagent),
        ]
        .into_iter()
        .find_map(|(begin, kind)| line.starts_with(begin).then_some(kind))
    });
    by_version.or_else(|| {
        let name = program.file_name()?.to_str()?;
        [
            ("vmagent", Kind::Vmagent),
            ("victoria-metrics", Kind::VictoriaMetrics),
            ("prometheus", Kind::Prometheus),
            ("unladen", Kind::Unladen),
        ]
        .into_iter()
        .find_map(|(begin, kind)| name.starts_with(begin).then_some(kind))
    })
}

/// What a server is given besides the flags that were asked for.
pub(super) struct Given<'a> {
    pub(super) config: &'a Path,
    pub(super) data: &'a Path,
    pub(super) port: u16,
    /// Where vmagent sends what it scraped.
    pub(super) sink: &'a str,
}

/// The name of a metric, and what a line's labels must have in them.
type Metric = (&'static str, &'static str);

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Unladen => "unladen",
            Kind::Prometheus => "prometheus",
            Kind::VictoriaMetrics => "victoria-metrics",
            Kind::Vmagent => "vmagent",
        }
    }

    /// The command line, without what was asked for in addition.
    pub(super) fn arguments(self, given: &Given<'_>) -> Vec<String> {
        let Given { config, data, port, sink } = given;
        let (config, data) = (config.display(), data.display());
        match self {
            Kind::Unladen | Kind::Prometheus => {
                let mut all = vec![
                    format!("--config.file={config}"),
                    format!("--storage.tsdb.path={data}"),
                    format!("--web.listen-address=127.0.0.1:{port}"),
                ];
                if self == Kind::Unladen {
                    all.insert(0, "serve".to_owned());
                }
                all
            }
            // A query at the very end is to see everything that was taken in.
            Kind::VictoriaMetrics => vec![
                format!("-promscrape.config={config}"),
                format!("-storageDataPath={data}"),
                format!("-httpListenAddr=127.0.0.1:{port}"),
                "-search.latencyOffset=0s".to_owned(),
                "-promscrape.config.strictParse=false".to_owned(),
            ],
            Kind::Vmagent => vec![
                format!("-promscrape.config={config}"),
                format!("-remoteWrite.tmpDataPath={data}"),
                format!("-httpListenAddr=127.0.0.1:{port}"),
                format!("-remoteWrite.url={sink}"),
                "-promscrape.config.strictParse=false".to_owned(),
            ],
        }
    }

    /// The path that answers 200 once the server works.
    pub(super) fn ready(self) -> &'static str {
        match self {
            Kind::Unladen | Kind::Prometheus => "/-/ready",
            Kind::VictoriaMetrics | Kind::Vmagent => "/health",
        }
    }

    /// Whether it keeps samples and answers queries.
    pub(super) fn has_queries(self) -> bool {
        self != Kind::Vmagent
    }

    /// Bytes allocated since the start.
    pub(super) fn allocated(self) -> Metric {
        match self {
            Kind::Unladen => ("heap_allocated_bytes_total", ""),
            _ => ("go_memstats_alloc_bytes_total", ""),
        }
    }

    /// Bytes of the heap that are in use: the first less the second.
    pub(super) fn heap(self) -> (Metric, Option<Metric>) {
        match self {
            Kind::Unladen => {
                (("heap_allocated_bytes_total", ""), Some(("heap_freed_bytes_total", "")))
            }
            _ => (("go_memstats_heap_inuse_bytes", ""), None),
        }
    }

    /// Samples taken in since the start, those that the server adds (`up`, …) included.
    pub(super) fn ingested(self) -> Metric {
        match self {
            Kind::Unladen | Kind::Prometheus => ("prometheus_tsdb_head_samples_appended_total", ""),
            Kind::VictoriaMetrics => ("vm_rows_inserted_total", "type=\"promscrape\""),
            Kind::Vmagent => ("vm_promscrape_scraped_samples_sum", ""),
        }
    }

    /// Series that are taken in now.
    pub(super) fn series(self) -> Metric {
        match self {
            Kind::Unladen | Kind::Prometheus => ("prometheus_tsdb_head_series", ""),
            Kind::VictoriaMetrics => ("vm_cache_entries", "type=\"storage/hour_metric_ids\""),
            Kind::Vmagent => ("vm_promscrape_active_series", ""),
        }
    }
}

/// The sum over all lines of a metric in an exposition; none where it isn't there.
pub(super) fn value(exposition: &str, (name, label): Metric) -> Option<f64> {
    let mut sum = None;
    for line in exposition.lines() {
        let Some(rest) = line.strip_prefix(name) else { continue };
        if !rest.starts_with(['{', ' ']) {
            continue;
        }
        let (labels, number) = rest.rsplit_once(' ').unwrap_or((rest, ""));
        if labels.contains(label) {
            *sum.get_or_insert(0.0) += number.parse::<f64>().ok()?;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_by_version_or_name() {
        for (said, program, expected) in [
            ("unladen, version 0.1.0 (linux x86_64)\n", "/x", Some(Kind::Unladen)),
            ("\nprometheus, version 3.14.0 (branch: x)\n", "/x", Some(Kind::Prometheus)),
            ("victoria-metrics-20220714-tags-v1.79.0\n", "/x", Some(Kind::VictoriaMetrics)),
            ("vmagent-2022\n", "/x", Some(Kind::Vmagent)),
            ("\n", "/usr/bin/victoria-metrics", Some(Kind::VictoriaMetrics)),
            ("", "/opt/vmagent-prod", Some(Kind::Vmagent)),
            ("", "/opt/prometheus-3", Some(Kind::Prometheus)),
            ("cat (GNU coreutils) 9.7", "/bin/cat", None),
        ] {
            assert_eq!(kind(said, Path::new(program)), expected, "{said:?} {program}");
        }
        let missing = recognise(&[Wanted::parse("/no/such/server --flag").unwrap()]).unwrap_err();
        assert!(missing.contains("/no/such/server: "), "{missing}");
        let other = recognise(&[Wanted::parse("/bin/echo").unwrap()]).unwrap_err();
        assert!(other.contains("/bin/echo is no server that can be loaded"), "{other}");
    }

    #[test]
    fn a_version_does_not_steer_the_terminal() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prometheus-odd");
        std::fs::write(&path, "#!/bin/sh\nprintf '\\n\\033[2J3.1\\342\\200\\256\\007\\n'\n")
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = recognise(&[Wanted { program: Some(path), flags: Vec::new() }]).unwrap();
        assert_eq!(found[0].version, "\u{fffd}[2J3.1\u{fffd}\u{fffd}");
    }

    #[test]
    fn flags_follow_the_program() {
        let wanted = Wanted::parse("unladen --profile.budget=0  --log.level=warn").unwrap();
        assert_eq!(wanted.program, None);
        assert_eq!(wanted.flags, ["--profile.budget=0", "--log.level=warn"]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b");
        std::fs::write(&path, "").unwrap();
        let wanted = Wanted::parse(path.to_str().unwrap()).unwrap();
        assert_eq!((wanted.program, wanted.flags), (Some(path), vec![]));
    }

    #[test]
    fn lines_of_a_metric_are_summed() {
        let text = "# TYPE heap_allocated_bytes_total counter\n\
                    heap_allocated_bytes_total{stage=\"parse\"} 1e+06\n\
                    heap_allocated_bytes_total{stage=\"query\"} 24\n\
                    heap_allocated_bytes_total_more 5\nup 1\n";
        assert_eq!(value(text, ("heap_allocated_bytes_total", "")), Some(1_000_024.0));
        assert_eq!(value(text, ("heap_allocated_bytes_total", "stage=\"query\"")), Some(24.0));
        assert_eq!(value(text, ("up", "")), Some(1.0));
        assert_eq!(value(text, ("down", "")), None);
    }
}
