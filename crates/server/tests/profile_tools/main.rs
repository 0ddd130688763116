//! `unladen profile` against profiles that are written here, against `go tool pprof`, and against what is
//! no profile. The cases are in `cases.txt`.
#![expect(clippy::print_stdout, reason = "what is skipped is said")]

mod lines;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use lines::written;
use server::profiles::{Wanted, parse, run};

/// What `unladen profile` answers in `directory`, whose name is left out.
fn answer(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let sources = ["top", "flame", "diff"];
    let arguments = arguments.iter().map(|argument| {
        let is_source = !argument.starts_with('-') && !sources.contains(argument);
        let is_file = is_source && !argument.contains("://") && *argument != "-";
        match is_file {
            true => directory.join(argument).display().to_string(),
            false => (*argument).to_owned(),
        }
    });
    let wanted = parse(arguments.collect::<Vec<_>>().into_iter()).map_err(|it| it.message)?;
    let Wanted::Run(request) = wanted else { return Err("help".to_owned()) };
    let mut out = Vec::new();
    let said = run(&request, &mut out);
    let here = format!("{}/", directory.display());
    match said {
        Ok(()) => Ok(String::from_utf8(out).expect("tables and SVGs are text").replace(&here, "")),
        Err(reason) => Err(reason.replace(&here, "")),
    }
}

fn save(directory: &Path, name: &str, body: &[u8]) {
    std::fs::write(directory.join(name), body).expect("the directory is ours");
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("a Vec takes everything")
}

/// Runs the cases: `profile NAME` and its lines, then `$ arguments` and what is answered.
#[test]
fn cases() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let cases = include_str!("cases.txt");
    let mut ran = 0;
    for block in cases.split("\n\n").filter(|block| !block.trim_start().starts_with('#')) {
        let (head, rest) = block.trim_matches('\n').split_once('\n').unwrap_or((block, ""));
        if let Some(name) = head.strip_prefix("profile ") {
            save(directory.path(), name, &written(rest));
            continue;
        }
        let Some(line) = head.strip_prefix("$ ") else { continue };
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let found = match answer(directory.path(), &arguments) {
            Ok(text) => text,
            Err(reason) => format!("error: {reason}\n"),
        };
        assert_eq!(found.trim_end(), rest.trim_end(), "{line}\n{found}");
        ran += 1;
    }
    assert!(ran > 10, "the file was read");
}

const STACKS: &str = "types cpu/nanoseconds\nmain;work 30000000\nmain;idle 10000000";

#[test]
fn compressed_profiles_are_read_and_damaged_ones_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let plain = written(STACKS);
    let mut zstd = vec![0; zstd_safe::compress_bound(plain.len())];
    let length = zstd_safe::compress(&mut zstd[..], &plain, 3).expect("there is room");
    zstd.truncate(length);
    let gzipped = gzip(&plain);
    save(directory, "plain", &plain);
    let expected = answer(directory, &["top", "plain"]).expect("a profile");
    for (name, body) in [
        ("gzip", gzipped.clone()),
        ("zstd", zstd.clone()),
        ("twice", gzip(&gzipped)),
        ("two members", [gzip(&plain[..10]), gzip(&plain[10..])].concat()),
    ] {
        save(directory, name, &body);
        assert_eq!(answer(directory, &["top", name]).as_ref(), Ok(&expected), "{name}");
    }
    for (name, body, reason) in [
        ("half.gz", &gzipped[..gzipped.len() / 2], "half.gz: gzip: "),
        ("half.zst", &zstd[..zstd.len() / 2], "half.zst: zstd: it ends in the middle"),
        ("half", &plain[..plain.len() - 3], "half: pprof: byte "),
        ("empty", b"", "empty: empty, which no profile is"),
        ("text", b"heap profile: 1: 2\n", "text: pprof: byte "),
        ("thrice", &gzip(&gzip(&gzipped)), "thrice: pprof: byte 0: compressed with gzip"),
    ] {
        save(directory, name, body);
        let found = answer(directory, &["top", name]).expect_err(name);
        assert!(found.starts_with(reason), "{name}: {found}");
    }
    let zeros = vec![0; 100 << 20];
    let mut bomb = vec![0; zstd_safe::compress_bound(zeros.len())];
    let length = zstd_safe::compress(&mut bomb[..], &zeros, 3).expect("there is room");
    save(directory, "bomb", &bomb[..length]);
    let found = answer(directory, &["top", "bomb"]).expect_err("it is too much for its size");
    assert!(found.starts_with("bomb: zstd: longer than "), "{found}");
    // Empty locations: the first is refused.
    save(directory, "locations", &gzip(&b"\x22\0".repeat(4 << 20)));
    let found = answer(directory, &["top", "locations"]).expect_err("no location has an id");
    assert!(found.contains("byte 2: a location with the id 0"), "{found}");
    let found = answer(directory, &["top", "localhost:9090"]).expect_err("no such file");
    assert!(
        found.contains("No such file") && found.contains("(for a URL write http://"),
        "{found}"
    );
}

#[test]
fn profiles_are_fetched() {
    let server = tiny_http::Server::http("127.0.0.1:0").expect("a free port");
    let address = server.server_addr().to_ip().expect("an address");
    std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let header = |name: &str, value: &str| {
                tiny_http::Header::from_bytes(name, value).expect("a valid header")
            };
            let (status, body, encoding) = match request.url() {
                "/profile?seconds=0" => (200, gzip(&written(STACKS)), None),
                "/encoded" => (200, gzip(&gzip(&written(STACKS))), Some("gzip")),
                "/text" => (200, b"no profile".to_vec(), None),
                "/busy" => (503, b"one at a time\nplease\x1b[0m".to_vec(), None),
                _ => (404, b"not here".to_vec(), None),
            };
            let mut response = tiny_http::Response::from_data(body).with_status_code(status);
            if let Some(encoding) = encoding {
                response.add_header(header("Content-Encoding", encoding));
            }
            let _ = request.respond(response);
        }
    });
    let here = Path::new("");
    let ask = |path: &str| answer(here, &["top", &format!("http://me:secret@{address}{path}")]);
    for path in ["/profile?seconds=0", "/encoded"] {
        let table = ask(path).expect(path);
        assert!(table.contains("work") && table.contains("75.00"), "{path}: {table}");
    }
    for (path, reason) in [
        ("/text", "text: pprof: byte 0: a wire type that does not exist"),
        ("/busy", "the server answered 503 Service Unavailable: one at a time"),
        ("/", "the server answered 404 Not Found: not here"),
    ] {
        let found = ask(path).expect_err(path);
        assert!(found.ends_with(reason), "{found}");
        assert!(!found.contains("secret"), "{found}");
    }
    for target in ["http://me:secret@127.0.0.1:1/x", "http://me:secret@127.0.0.1:99999/x"] {
        let found = answer(here, &["top", target]).expect_err("nobody listens");
        assert!(found.contains("127.0.0.1:"), "{found}");
        assert!(!found.contains("secret"), "{found}");
    }
}

/// What a rectangle of an SVG says: title, x, y, width.
fn rectangles(svg: &str) -> Vec<(String, f64, f64, f64)> {
    let number = |line: &str, name: &str| {
        let begin = line.split(&format!("{name}=\"")).nth(1).expect(name);
        begin.split('"').next().and_then(|it| it.parse::<f64>().ok()).expect(name)
    };
    let boxes = svg.lines().filter(|line| line.starts_with("<g class=\"f\">"));
    let title = |line: &str| {
        line["<g class=\"f\"><title>".len()..].split("</title>").next().map(str::to_owned)
    };
    boxes
        .map(|line| {
            let rect = line.split("<rect").nth(1).expect("a rectangle");
            let title = title(line).expect("a title");
            (title, number(rect, " x"), number(rect, " y"), number(rect, " width"))
        })
        .collect()
}

#[test]
fn a_flame_graph_shows_calls_as_wide_as_they_cost() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    save(directory, "a", &written("types cpu/nanoseconds\nm;b;c 60\nm;b 20\nm;a 20\nx;<b> 300"));
    save(directory, "b", &written("types cpu/nanoseconds\nm;b;c 120\nm;d 40\nx;<b> 300"));
    let svg = answer(directory, &["flame", "a", "--width=1020", "--title=<b>&"]).expect("an SVG");
    let mut found = rectangles(&svg);
    let row = |depth: u32| f64::from(56 + 17 * depth);
    let expected = [
        ("all \u{2014} 400ns (100.00%)", 10.0, row(0), 1000.0),
        ("m \u{2014} 100ns (25.00%)", 10.0, row(1), 250.0),
        ("x \u{2014} 300ns (75.00%)", 260.0, row(1), 750.0),
        ("a \u{2014} 20ns (5.00%)", 10.0, row(2), 50.0),
        ("b \u{2014} 80ns (20.00%)", 60.0, row(2), 200.0),
        ("&lt;b&gt; \u{2014} 300ns (75.00%)", 260.0, row(2), 750.0),
        ("c \u{2014} 60ns (15.00%)", 60.0, row(3), 150.0),
    ];
    found.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.1.total_cmp(&b.1)));
    let expected: Vec<_> = expected.map(|(t, x, y, w)| (t.to_owned(), x, y, w)).to_vec();
    assert_eq!(found, expected);
    assert!(svg.contains("<title>&lt;b&gt;&amp;</title>"));
    let svg = answer(directory, &["diff", "a", "b", "--flame", "--width=1020"]).expect("an SVG");
    let titles: Vec<String> = rectangles(&svg).into_iter().map(|it| it.0).collect();
    for expected in [
        "all \u{2014} 400ns → 460ns (+60ns, 15.00% of the old)",
        "c \u{2014} 60ns → 120ns (+60ns, 15.00% of the old)",
        "a \u{2014} 20ns → 0 (-20ns, -5.00% of the old)",
        "d \u{2014} 0 → 40ns (+40ns, 10.00% of the old)",
    ] {
        assert!(titles.iter().any(|title| title == expected), "{expected}: {titles:?}");
    }
}

#[test]
fn hostile_names_do_no_harm() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let names = "</title><script>alert(1)</script>;]]>&lt;\"'`;\u{1b}[2J\u{9b}31m;a\u{202e}b";
    save(directory, "a", &written(&format!("types cpu/nanoseconds\n{names} 100")));
    for tool in ["top", "flame"] {
        let shown = answer(directory, &[tool, "a"]).expect("a profile");
        let harmful = |it: char| it.is_control() && it != '\n' || it == '\u{202e}';
        assert!(!shown.contains(harmful), "{tool}");
        assert_eq!(shown.matches("<script>").count(), 1, "{tool}: its own, or the table's text");
        assert!(tool == "top" || !shown.contains("<script>alert"), "{tool}");
    }
    // Deep: nothing recurses. Wide: what nobody can see is left out.
    let deep = vec!["f"; 45_000].join(";");
    save(directory, "deep", &written(&format!("types cpu/nanoseconds\n{deep} 100")));
    let svg = answer(directory, &["flame", "deep"]).expect("an SVG");
    assert_eq!(rectangles(&svg).len(), 40_001);
    let wide: Vec<String> = (0..10_000).map(|it| format!("m;f{it} 1")).collect();
    save(directory, "wide", &written(&format!("types cpu/nanoseconds\n{}", wide.join("\n"))));
    let svg = answer(directory, &["flame", "wide"]).expect("an SVG");
    assert!(rectangles(&svg).len() < 10);
}

/// Flat and cumulative percentages by function, as `go tool pprof -top` has them.
fn go_says(profile: &Path, index: &str) -> Option<BTreeMap<String, [String; 2]>> {
    let mut command = Command::new("go");
    command.args(["tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0"]);
    let answer = command.arg(format!("-sample_index={index}")).arg(profile).output().ok()?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let rows = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let name =
            cells.get(5..)?.join(" ").replace(" (inline)", "").replace(" (partial-inline)", "");
        Some((name, [cells[1], cells[4]].map(|it| it.trim_end_matches('%').to_owned())))
    };
    Some(rows.filter_map(row).collect())
}

#[test]
fn tables_say_what_go_says() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/pprof/fixtures");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let dropped = "types samples/count\ndrop in.*\nkeep inner\nmain;work+insert+hash;leaf 5\n\
                   main;insert+hash;leaf 3\nmain;work+in(int);leaf 2\ninsert+hash;leaf 4\n\
                   work+insert+hash;insert;leaf 7\ninner;inner+insert 1\n-;main 6";
    save(directory.path(), "dropped", &written(dropped));
    let dropped = directory.path().join("dropped").display().to_string();
    for (name, index) in [
        (&*dropped, "samples"),
        ("go_cpu.pb", "cpu"),
        ("go_cpu.pb", "samples"),
        ("go_heap.pb", "inuse_space"),
        ("go_heap.pb", "alloc_objects"),
        ("go_heap.pb", "alloc_space"),
    ] {
        let Some(expected) = go_says(&fixtures.join(name), index) else {
            return println!("skipped: there is no go to ask");
        };
        let arguments =
            ["top", name, "--limit=0", "--name-width=0", &format!("--sample-index={index}")];
        let table = answer(&fixtures, &arguments).expect(name);
        let rows = table.lines().skip(2).filter(|line| !line.starts_with(' '));
        for line in rows {
            // Names may have brackets too: the two shares are the last ones.
            let mut percents: Vec<f64> = line
                .rsplit('[')
                .take(2)
                .map(|it| it.split(']').next().unwrap_or_default().trim())
                .map(|cell| cell.parse().unwrap_or_else(|_| panic!("{line}")))
                .collect();
            percents.reverse();
            let function = line.split("  ").next().unwrap_or_default();
            let Some(theirs) = expected.get(function) else {
                panic!("{name} {index}: Go does not have {function:?}: {expected:?}");
            };
            for (ours, theirs) in percents.into_iter().zip(theirs) {
                // Go writes four digits and rounds the rest.
                let theirs: f64 = theirs.parse().unwrap_or_else(|_| panic!("{theirs}"));
                assert!((ours - theirs).abs() < 0.06, "{name} {index}: {line}: {theirs}");
            }
        }
        let shown = table.lines().skip(2).filter(|line| !line.starts_with(' ')).count();
        assert_eq!(shown, expected.len(), "{name} {index}");
    }
}
