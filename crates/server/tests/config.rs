//! Configuration files, judged: the conformance data of Prometheus, and cases of our own from
//! `tests/config`.

use std::path::{Path, PathBuf};

use server::config::{self, Loaded, Options};

/// The folder with Prometheus' own test files, if it is there.
fn conformance() -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .filter_map(Path::parent)
        .map(|dir| dir.join("shared/conformance/config"))
        .find(|dir| dir.is_dir());
    if found.is_none() {
        report("skipped: there is no folder shared/conformance beside the repository");
    }
    found
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn report(text: &str) {
    eprintln!("{text}");
}

fn yaml_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yml"))
        .collect();
    files.sort();
    files
}

/// A line of `refused.txt`.
struct Refusal<'t> {
    line: &'t str,
    field: &'t str,
    words: &'t str,
}

fn refusals() -> Vec<(&'static str, Refusal<'static>)> {
    include_str!("config/refused.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let parts: Vec<&str> = line.splitn(4, " | ").collect();
            let [file, line, field, words] = parts[..] else { panic!("{line}: four parts") };
            (file, Refusal { line, field, words })
        })
        .collect()
}

#[test]
fn conformance_files_are_accepted_or_refused_for_the_right_reason() {
    let Some(dir) = conformance() else { return };
    let refusals = refusals();
    let (mut accepted, mut refused) = (0, 0);
    for path in yaml_files(&dir) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let expected = refusals.iter().find(|(file, _)| *file == name).map(|(_, why)| why);
        match (config::load(&path, &Options::default()), expected) {
            (Ok(_), None) => {
                assert!(!name.ends_with(".bad.yml"), "{name} was accepted");
                accepted += 1;
            }
            (Ok(_), Some(why)) => panic!("{name} was accepted despite: {}", why.words),
            (Err(errors), None) => panic!("{name} was refused:\n{errors}"),
            (Err(errors), Some(why)) => {
                assert!(!name.ends_with(".good.yml"), "{name} is in the table of refusals");
                let (file, line) = why.line.split_once(':').unwrap_or((name, why.line));
                let fits = errors.iter().any(|error| {
                    error.file.file_name().is_some_and(|found| found == file)
                        && error.position.is_some_and(|at| at.line.to_string() == line)
                        && error.field == why.field
                        && error.message.contains(why.words)
                });
                assert!(fits, "{name} was refused, but not for {}:\n{errors}", why.words);
                refused += 1;
            }
        }
    }
    assert!(accepted >= 65 && refused >= 150, "accepted {accepted}, refused {refused}");
    assert_eq!(refused, refusals.len(), "the table names files that are not there");
}

#[test]
fn what_is_printed_loads_again_and_prints_the_same() {
    let Some(dir) = conformance() else { return };
    let mut count = 0;
    for path in yaml_files(&dir) {
        let Ok(first) = config::load(&path, &Options::default()) else { continue };
        let name = path.display().to_string();
        let text = first.text.clone();
        // The paths in it are joined with the folder already.
        let again = config::load_text(&text, &path, Path::new(""), &Options::default())
            .unwrap_or_else(|errors| panic!("{name}:\n{errors}\n{text}"));
        // What external labels say of the environment is expanded at each load.
        if !name.ends_with("external_labels.good.yml") {
            for (line, (before, after)) in text.lines().zip(again.text.lines()).enumerate() {
                assert_eq!(before, after, "{name}: line {} of the printed text", line + 1);
            }
            assert_eq!(again.text, text, "{name}");
            let same = redacted(&first) == redacted(&again);
            assert!(same, "{name}: the printed configuration means something else");
        }
        count += 1;
    }
    assert!(count >= 65, "only {count} files were printed");
}

/// All of a configuration that is not secret, for comparing: secrets print alike.
fn redacted(loaded: &Loaded) -> String {
    format!("{:#?}", loaded.config)
}

/// A case of `cases.txt`.
struct Case<'t> {
    title: &'t str,
    yaml: &'t str,
    expected: Vec<&'t str>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    text.split("\n=== ")
        .skip(1)
        .map(|part| {
            let (title, rest) = part.split_once('\n').expect("a title on its line");
            let (yaml, expected) =
                rest.split_once("\n--- ").expect("`--- ` before what is expected");
            let expected = expected.trim_end().split("\n--- ").collect();
            Case { title, yaml, expected }
        })
        .collect()
}

#[test]
fn cases_load_or_fail_as_they_say() {
    let cases = cases(include_str!("config/cases.txt"));
    assert!(cases.len() > 50, "only {} cases were found", cases.len());
    let mut problems = Vec::new();
    for case in cases {
        let options =
            Options { environment: &|name| (name == "REGION").then(|| "eu-1".to_owned()) };
        let loaded =
            config::load_text(case.yaml, Path::new("case.yml"), Path::new("/etc/x"), &options);
        let before = problems.len();
        problems.extend(case.expected.iter().filter_map(|line| mismatch(line, &loaded)));
        let expected = |kind| case.expected.iter().filter(|line| line.starts_with(kind)).count();
        let (errors, unsupported) = match &loaded {
            Ok(loaded) => (0, loaded.unsupported.len()),
            Err(errors) => (errors.iter().count(), 0),
        };
        if errors != expected("error") || unsupported != expected("unsupported") {
            problems.push(format!("{errors} errors, {unsupported} unsupported sections"));
        }
        if problems.len() > before {
            problems.insert(before, format!("=== {}", case.title));
            problems.push(match loaded {
                Ok(loaded) => format!("{loaded:#?}"),
                Err(errors) => errors.to_string(),
            });
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What is not as a line of a case says.
fn mismatch(line: &str, loaded: &Result<Loaded, config::ConfigErrors>) -> Option<String> {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let notice =
        |notices: &[config::Notice]| notices.iter().any(|notice| notice.to_string().contains(rest));
    let fits = match (kind, loaded) {
        ("error", Err(errors)) => {
            errors.iter().any(|error| error.to_string() == format!("case.yml:{rest}"))
        }
        ("error", Ok(_)) | (_, Err(_)) => false,
        ("loads", Ok(_)) => true,
        ("prints", Ok(loaded)) => loaded.text.contains(rest),
        ("hides", Ok(loaded)) => {
            !loaded.text.contains(rest) && !format!("{loaded:?}").contains(rest)
        }
        ("means", Ok(loaded)) => format!("{:?}", loaded.config).contains(rest),
        ("unsupported", Ok(loaded)) => notice(&loaded.unsupported),
        ("warning", Ok(loaded)) => notice(&loaded.warnings),
        (_, Ok(_)) => panic!("{line:?} is none of the known expectations"),
    };
    (!fits).then(|| format!("--- {line}"))
}

#[test]
fn included_files_inherit_and_resolve_their_own_paths() {
    let dir = temporary("included");
    std::fs::create_dir_all(dir.join("jobs")).unwrap();
    let main = dir.join("prometheus.yml");
    std::fs::write(
        &main,
        "global: {scrape_interval: 7s}\nscrape_config_files: ['jobs/*.yml', none.yml]\n\
         scrape_configs: [{job_name: a}]\n",
    )
    .unwrap();
    let included = "scrape_configs:\n- job_name: b\n  bearer_token_file: token\n";
    std::fs::write(dir.join("jobs/one.yml"), included).unwrap();
    std::fs::write(dir.join("jobs/ignored.yaml"), "not: read").unwrap();
    let loaded = config::load(&main, &Options::default()).unwrap();
    let jobs: Vec<&str> =
        loaded.config.scrape_configs.iter().map(|job| job.job_name.as_str()).collect();
    assert_eq!(jobs, ["a", "b"]);
    let job = &loaded.config.scrape_configs[1];
    assert_eq!(job.scrape_interval.as_secs(), 7);
    let token = dir.join("jobs/token");
    assert!(format!("{:?}", job.http.auth).contains(token.to_str().unwrap()), "{job:?}");
    assert!(!loaded.text.contains("job_name: b"), "the text is that of the main file");
    assert_eq!(loaded.files, [main.clone(), dir.join("jobs/one.yml")]);
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);

    std::fs::write(dir.join("jobs/two.yml"), "scrape_configs:\n- job_name: a\nglobal: {}\n")
        .unwrap();
    let errors = config::load(&main, &Options::default()).unwrap_err().to_string();
    let two = dir.join("jobs/two.yml");
    assert!(errors.contains(&format!("{}:3:1: global: unknown field", two.display())), "{errors}");
    assert!(errors.contains("is already taken in"), "{errors}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_that_is_not_there_is_an_error_that_names_it() {
    let error = config::load(Path::new("/nowhere/x.yml"), &Options::default()).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/x.yml: can't be read: "), "{error}");
}

#[test]
fn the_built_in_configuration_scrapes_the_server_and_the_machine() {
    for (prefix, paths) in
        [("", ["/metrics", "/metrics/node"]), ("/un", ["/un/metrics", "/un/metrics/node"])]
    {
        let loaded = config::builtin("[::1]:9090", prefix).unwrap();
        assert!(loaded.unsupported.is_empty() && loaded.warnings.is_empty());
        let jobs: Vec<(&str, &str)> = loaded
            .config
            .scrape_configs
            .iter()
            .map(|job| (job.job_name.as_str(), job.metrics_path.as_str()))
            .collect();
        assert_eq!(jobs, [("unladen", paths[0]), ("node", paths[1])]);
        assert!(loaded.text.contains("[::1]:9090"), "{}", loaded.text);
    }
}

#[test]
fn deep_and_multiplying_files_are_refused_in_time() {
    let deep = "[".repeat(100_000);
    let mut laughs = "a0: &a0 [x, x]\n".to_owned();
    for level in 1..60 {
        laughs += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
    }
    let nested_keys =
        (0..400).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
    for text in [deep, laughs, nested_keys] {
        let result = config::load_text(&text, Path::new("x"), Path::new(""), &Options::default());
        assert!(result.is_err());
    }
}

fn temporary(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("unladen-config-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
