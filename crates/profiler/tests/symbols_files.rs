//! Where names come from: debug files, compressed and split ones, symbol tables, a program that was replaced;
//! and what damaged files do. Programs are made by the C compiler that Rust links with.
#![cfg(feature = "symbols")]
#![expect(clippy::print_stdout, reason = "a test that can't run says why")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol};
use profiler::profile::{Mapping, Symbolize};
use profiler::symbols::{Resolver, build_id};
use testkit::random::Random;

const PROGRAM: &str = "
static volatile int seen;
static inline __attribute__((always_inline)) int inner(int a) {
    seen += a;
    return seen * 3;
}
static inline __attribute__((always_inline)) int middle(int a) {
    int sum = 0;
    for (int i = 0; i < a; i++)
        sum += inner(i);
    return sum;
}
__attribute__((noinline)) int outer(int a) {
    return middle(a + 1) + 7;
}
int main(int argc, char **argv) { return outer(argc); }
";
const PATH: &str = "unladen/program.c";

/// Compiles the program with `flags`; none, said on standard output, where that is not to be had.
fn compile(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(directory.join("unladen")).unwrap();
    fs::write(directory.join(PATH), PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    cc.current_dir(&directory).args(["-O2", "-Wl,--build-id", "-o", "program", PATH]).args(flags);
    run(&mut cc).then(|| directory.join("program"))
}

fn run(command: &mut Command) -> bool {
    let done = command.output();
    let is_done = done.as_ref().is_ok_and(|output| output.status.success());
    if !is_done {
        println!("skipped: {command:?}: {done:?}");
    }
    is_done
}

fn objcopy(directory: &Path, arguments: &[&str]) -> bool {
    run(Command::new("objcopy").current_dir(directory).args(arguments))
}

/// The addresses of a function.
fn function(path: &Path, name: &str) -> Vec<u64> {
    let bytes = fs::read(path).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
    (symbol.address()..symbol.address() + symbol.size()).collect()
}

/// The names at all addresses, with files and lines: each list once, the longest first.
fn said(resolver: &mut Resolver, addresses: &[u64]) -> Vec<Vec<String>> {
    resolver.prepare(addresses, &[]);
    let mut all = Vec::new();
    for &address in addresses {
        let mut calls = Vec::new();
        resolver.symbolize(address, None, &mut |symbol| {
            let file = symbol.file.rsplit_once("/unladen/").map_or(symbol.file, |(_, rest)| rest);
            calls.push(format!("{} {file}:{} {}", symbol.name, symbol.line, symbol.start_line));
        });
        all.push(calls);
    }
    all.sort_by_key(|calls| (std::cmp::Reverse(calls.len()), calls.clone()));
    all.dedup();
    all
}

const INLINED: [&str; 3] =
    ["inner program.c:4 3", "middle program.c:10 7", "outer program.c:14 13"];

/// Whether inlined functions were found with files and lines.
fn has_all(said: &[Vec<String>]) -> bool {
    said.contains(&INLINED.map(str::to_owned).to_vec())
}

#[test]
fn names_come_from_every_kind_of_debug_information() {
    let cases: [(&str, &[&str]); 7] = [
        ("dwarf5", &["-g", "-gdwarf-5"]),
        ("dwarf4", &["-g", "-gdwarf-4"]),
        ("static", &["-g", "-static"]),
        ("fixed", &["-g", "-no-pie"]),
        ("compressed", &["-g", "-gz=zlib"]),
        ("split5", &["-g", "-gdwarf-5", "-gsplit-dwarf"]),
        ("split4", &["-g", "-gdwarf-4", "-gsplit-dwarf"]),
    ];
    for (name, flags) in cases {
        let Some(program) = compile(name, flags) else { continue };
        let addresses = function(&program, "outer");
        let mut resolver = Resolver::of_file(&program).unwrap();
        let said = said(&mut resolver, &addresses);
        assert!(has_all(&said), "{name}: {said:?}");
        assert!(said.iter().all(|calls| calls.last().unwrap().starts_with("outer ")), "{said:?}");
    }
}

#[test]
fn split_units_are_found_in_a_package() {
    // Rust's compiler makes packages itself, which the linker's tools do not all manage.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let program = "
        #[inline(always)]
        fn inner(a: u32) -> u32 { std::hint::black_box(a) * 3 }
        #[no_mangle]
        #[inline(never)]
        pub extern \"C\" fn outer(a: u32) -> u32 { inner(a + 1) + 7 }
        fn main() { outer(1); }";
    fs::write(directory.join("program.rs"), program).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let flags = ["-g", "-O", "-Csplit-debuginfo=packed", "-Ccodegen-units=1", "program.rs"];
    if !run(rustc.current_dir(&directory).args(flags)) {
        return;
    }
    let program = directory.join("program");
    let found = |program: &Path| {
        let said = said(&mut Resolver::of_file(program).unwrap(), &function(program, "outer"));
        said.iter().any(|calls| {
            let [.., inner, outer] = &calls[..] else { return false };
            inner.starts_with("program::inner ")
                && outer.starts_with("program::outer ")
                && outer.contains("program.rs:6 ")
        })
    };
    assert!(directory.join("program.dwp").exists());
    assert!(found(&program));
    fs::remove_file(directory.join("program.dwp")).unwrap();
    assert!(!found(&program), "it was not there");
}

#[test]
fn debug_files_are_those_of_the_program() {
    let Some(program) = compile("separate", &["-g"]) else { return };
    let addresses = function(&program, "outer");
    let directory = program.parent().unwrap();
    let id = build_id(&program).unwrap().unwrap();
    assert_eq!(id.len(), 40, "{id}");
    if !objcopy(directory, &["--only-keep-debug", "program", "all.debug"])
        || !objcopy(directory, &["--strip-all", "program", "stripped"])
        || !objcopy(directory, &["--strip-debug", "program", "named"])
        || !objcopy(directory, &["--add-gnu-debuglink=all.debug", "stripped", "linked"])
        || !objcopy(directory, &["--remove-section=.note.gnu.build-id", "linked", "checked"])
    {
        return;
    }
    let resolver = |file: &str, directories: &[PathBuf]| {
        let path = directory.join(file);
        Resolver::of_file(path).unwrap().debug_directories(directories.iter().cloned())
    };
    let by_id = directory.join("debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&by_id).unwrap();
    fs::copy(directory.join("all.debug"), by_id.join(format!("{}.debug", &id[2..]))).unwrap();
    let debug = [directory.join("debug")];

    assert!(has_all(&said(&mut resolver("stripped", &debug), &addresses)), "by build id");
    assert!(has_all(&said(&mut resolver("linked", &[]), &addresses)), "by link");
    assert!(has_all(&said(&mut resolver("checked", &[]), &addresses)), "by link and checksum");
    assert_eq!(said(&mut resolver("stripped", &[]), &addresses), [[""; 0]; 1], "nothing is known");
    assert_eq!(said(&mut resolver("named", &[]), &addresses), [["outer :0 0"]], "by symbol");
    // One behind the function's last byte belongs to nothing or to another one.
    let behind = [addresses.last().unwrap() + 1];
    assert!(
        !said(&mut resolver("named", &[]), &behind).concat().contains(&"outer :0 0".to_owned())
    );

    // Another program's debug information is none.
    let Some(other) = compile("other", &["-g", "-DOTHER", "-O1"]) else { return };
    fs::copy(&other, directory.join("all.debug")).unwrap();
    assert!(!has_all(&said(&mut resolver("linked", &[]), &addresses)), "another build id");
    assert!(!has_all(&said(&mut resolver("checked", &[]), &addresses)), "another checksum");
}

#[test]
fn a_mapping_translates_addresses_and_must_be_of_the_same_build() {
    let Some(program) = compile("mapped", &["-g"]) else { return };
    let addresses = function(&program, "outer");
    let bytes = fs::read(&program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let section = elf.section_by_name(".text").unwrap();
    use object::ObjectSection;
    let (offset, _) = section.file_range().unwrap();
    let start = 0x7000_0000_0000;
    let mut mapping = Mapping {
        start,
        limit: start + section.size(),
        offset,
        file: "/elsewhere/program".to_owned(),
        build_id: build_id(&program).unwrap().unwrap(),
    };
    let address = start + (addresses[0] - section.address());
    let mut resolver = Resolver::of_file(&program).unwrap();
    let mut name = |mapping: &Mapping| {
        let mut name = String::new();
        resolver.prepare(&[], &[]);
        resolver.symbolize(address, Some(mapping), &mut |symbol| symbol.name.clone_into(&mut name));
        name
    };
    assert_eq!(name(&mapping), "outer");
    mapping.build_id.replace_range(..1, "x");
    assert_eq!(name(&mapping), "");
}

/// Where a function of this test is, as `/proc/self/maps` has it.
fn own_mapping() -> (u64, Mapping) {
    let address = own_mapping as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapping = maps.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (start, limit) = words[0].split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, limit) = (number(start), number(limit));
        (start <= address && address < limit).then(|| Mapping {
            start,
            limit,
            offset: number(words[2]),
            file: words[5..].join(" "),
            build_id: build_id("/proc/self/exe").unwrap().unwrap_or_default(),
        })
    });
    (address, mapping.unwrap())
}

fn own_name(mapping: &Mapping, address: u64) -> Option<String> {
    let mut name = None;
    Resolver::of_process().symbolize(address, Some(mapping), &mut |symbol| {
        assert!(symbol.file.ends_with("tests/symbols_files.rs") && symbol.line > 0, "{symbol:?}");
        name = Some(symbol.name.to_owned());
    });
    name
}

#[test]
fn this_program_is_found_even_when_it_was_replaced() {
    const CHILD: &str = "UNLADEN_TEST_REPLACED";
    let expected = Some("symbols_files::own_mapping".to_owned());
    if let Ok(path) = std::env::var(CHILD) {
        // What a package manager does: another file under the same name.
        fs::remove_file(&path).unwrap();
        fs::copy("/proc/self/exe", format!("{path}.copy")).unwrap();
        fs::write(&path, fs::read("/bin/sh").unwrap()).unwrap();
        let (address, mapping) = own_mapping();
        assert!(mapping.file.ends_with("(deleted)"), "{mapping:?}");
        assert_eq!(own_name(&mapping, address), expected);
        return;
    }
    let (address, mut mapping) = own_mapping();
    assert_eq!(own_name(&mapping, address), expected);
    // Without a build id the code is compared.
    let with_id = std::mem::take(&mut mapping.build_id);
    if with_id.is_empty() {
        assert_eq!(own_name(&mapping, address), expected);
    }
    let other = Mapping { build_id: format!("{with_id}00"), ..mapping };
    assert_eq!(own_name(&other, address), None, "the build id of another one");

    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replaced");
    fs::create_dir_all(&directory).unwrap();
    let copy = directory.join("program");
    let _ = fs::remove_file(&copy);
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let child = Command::new(&copy)
        .args(["--exact", "this_program_is_found_even_when_it_was_replaced", "--nocapture"])
        .env(CHILD, &copy)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let errors = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success() && text.contains("1 passed"), "{text}{errors}");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn the_kernels_own_code_has_names() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return };
    let (start, limit) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let mapping = Mapping {
        start: number(start),
        limit: number(limit),
        offset: 0,
        file: "[vdso]".to_owned(),
        build_id: String::new(),
    };
    let addresses: Vec<u64> = (mapping.start..mapping.limit).step_by(16).collect();
    let mut resolver = Resolver::of_process();
    // What has a build id in memory is compared by that; here it is not known.
    let image = {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; (mapping.limit - mapping.start) as usize];
        fs::File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, mapping.start).unwrap();
        bytes
    };
    let id = object::File::parse(&*image).unwrap().build_id().unwrap().map(<[u8]>::to_vec);
    let build_id = id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
    let mapping = Mapping { build_id, ..mapping };
    resolver.prepare(&addresses, std::slice::from_ref(&mapping));
    let mut names = Vec::new();
    for address in addresses {
        resolver
            .symbolize(address, Some(&mapping), &mut |symbol| names.push(symbol.name.to_owned()));
    }
    assert!(names.iter().any(|name| name.contains("gettime")), "{names:?}");
}

#[test]
fn damaged_files_cost_names_and_nothing_else() {
    let mut random = Random::new(4);
    let kinds: [(&str, &[&str]); 3] = [
        ("damaged5", &["-g", "-gdwarf-5"]),
        ("damaged4", &["-g", "-gdwarf-4"]),
        ("damaged-compressed", &["-g", "-gz=zlib"]),
    ];
    let begun = Instant::now();
    let (mut read, mut named) = (0, 0);
    for (name, flags) in kinds {
        let Some(program) = compile(name, flags) else { continue };
        let addresses = function(&program, "outer");
        let good = fs::read(&program).unwrap();
        let path = program.with_extension("damaged");
        for round in 0..400 {
            let mut bytes = good.clone();
            if round % 8 == 0 {
                bytes.truncate(random.below(good.len() as u64) as usize);
            }
            for _ in 0..random.below(20) {
                if bytes.is_empty() {
                    break;
                }
                // Half of it where the debug information is.
                let half = bytes.len() as u64 / 2;
                let at = if random.below(2) == 0 {
                    half + random.below(half.max(1))
                } else {
                    random.below(half.max(1))
                };
                let at = (at as usize).min(bytes.len() - 1);
                bytes[at] = random.below(256) as u8;
            }
            fs::write(&path, &bytes).unwrap();
            let Ok(mut resolver) = Resolver::of_file(&path) else { continue };
            read += 1;
            named += usize::from(has_all(&said(&mut resolver, &addresses)));
            let _ = build_id(&path);
        }
    }
    if read > 0 {
        assert!(read > 500 && named > 100 && named < read, "{read} read, {named} with all names");
    }
    assert!(begun.elapsed() < Duration::from_secs(120));
}

#[test]
fn what_is_no_program_is_refused() {
    let text = Path::new(env!("CARGO_TARGET_TMPDIR")).join("text");
    fs::write(&text, "no program").unwrap();
    for path in [text.as_path(), Path::new("/nowhere"), Path::new("/dev/zero"), Path::new("/")] {
        let error = Resolver::of_file(path).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");
        assert!(build_id(path).is_err());
    }
}
