//! Libraries that come and go while stacks lead through them.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{Actor, Storm, spin};

/// `VARIANT` makes each library's code another one, so that the same addresses mean something else.
const SOURCE: &str = r"
typedef long (*callback)(long);
static int loaded;
__attribute__((constructor)) static void load(void) { loaded = 1; }
static __attribute__((noinline)) long recurse(long n, callback back) {
    volatile char room[16 + 24 * VARIANT];
    room[n % sizeof room] = (char)n;
    if (n == 0) return back(VARIANT) + room[0] * 0 + loaded;
    return recurse(n - 1, back) + room[0] * 0 + 1;
}
long unladen_torture(long n, callback back) { return recurse(n, back) + 0 * VARIANT; }
";

/// How each library is built: with and without frame pointers, and with tables of its own kind.
const BUILDS: [&[&str]; 3] = [
    &["-O2", "-fomit-frame-pointer"],
    &["-O1", "-fno-omit-frame-pointer"],
    &["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
];

type Entry =
    unsafe extern "C" fn(libc::c_long, extern "C" fn(libc::c_long) -> libc::c_long) -> libc::c_long;

extern "C" fn back(variant: libc::c_long) -> libc::c_long {
    spin(Duration::from_micros(400));
    variant
}

/// Loads a library, calls deep into it and back out of it, and unloads it.
pub(super) fn load(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let directory = Directory::new()?;
    let Some(libraries) = build(&directory.0)? else {
        actor.step("skipped: there is no C compiler");
        return Ok(());
    };
    let mut random = actor.random(storm);
    while storm.goes_on() {
        actor.step("loading a library");
        let variant = random.below(libraries.len() as u64) as usize;
        let depth = random.below(100) as libc::c_long;
        // SAFETY: the library is the one above; nothing of it is used after it is closed.
        unsafe {
            let flags = if random.below(2) == 0 { libc::RTLD_NOW } else { libc::RTLD_LAZY };
            let library = libc::dlopen(libraries[variant].as_ptr(), flags);
            if library.is_null() {
                return Err(format!(
                    "dlopen: {}",
                    CStr::from_ptr(libc::dlerror()).to_string_lossy()
                ));
            }
            let entry = libc::dlsym(library, c"unladen_torture".as_ptr());
            assert!(!entry.is_null(), "the library has its function");
            let entry: Entry = std::mem::transmute(entry);
            actor.step("calling a library");
            let found = entry(depth, back);
            let expected = depth + 1 + variant as libc::c_long;
            if found != expected {
                return Err(format!("the library's function gave {found} instead of {expected}"));
            }
            actor.step("unloading a library");
            libc::dlclose(library);
        }
        storm.counts.loads.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Each variant as a file of its own; none without a compiler.
fn build(directory: &Path) -> Result<Option<Vec<CString>>, String> {
    let source = directory.join("library.c");
    fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut libraries = Vec::new();
    for (variant, flags) in BUILDS.iter().enumerate() {
        let library = directory.join(format!("library{variant}.so"));
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC"]).args(*flags).arg(format!("-DVARIANT={variant}"));
        command.arg("-o").arg(&library).arg(&source);
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("{command:?} ended with {status}")),
            Err(_) => return Ok(None),
        }
        let path = library.into_os_string().into_encoded_bytes();
        libraries.push(CString::new(path).map_err(|error| error.to_string())?);
    }
    Ok(Some(libraries))
}

/// A directory that goes away with the actor.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Directory, String> {
        let path = std::env::temp_dir().join(format!("unladen-torture-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left in a temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
