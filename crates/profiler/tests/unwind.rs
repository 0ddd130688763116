//! Walks of this process' own stacks.
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use profiler::unwind::{self, End, Registers, Walk};

/// Held by those who ask what changed, for it is told once.
static MODULES: Mutex<()> = Mutex::new(());

#[inline(never)]
fn descend(depth: usize, f: &mut dyn FnMut()) -> usize {
    if depth == 0 {
        f();
        return 0;
    }
    black_box(descend(black_box(depth - 1), f)) + 1
}

/// Ends loops when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[inline(never)]
fn here(frames: &mut [u64]) -> Walk {
    black_box(unwind::walk(&Registers::here(), frames))
}

#[test]
fn every_call_is_found_down_to_the_threads_start() {
    let _held = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    unwind::refresh();
    let mut frames = vec![0; 2000];
    let mut shallow = Walk::default();
    descend(10, &mut || shallow = here(&mut frames));
    let mut deep = Walk::default();
    descend(1010, &mut || deep = here(&mut frames));
    assert_eq!((shallow.end, deep.end), (End::Root, End::Root), "{shallow:?} {deep:?}");
    assert_eq!(deep.depth, shallow.depth + 1000);
    let mut few = [0; 7];
    let mut cut = Walk::default();
    descend(10, &mut || cut = here(&mut few));
    assert_eq!(cut, Walk { depth: 7, end: End::Truncated });
    assert_eq!(here(&mut []), Walk { depth: 0, end: End::Truncated });
    let exact = here(&mut frames);
    assert_eq!(exact.end, End::Root);
    let all = exact.depth;
    assert_eq!(here(&mut frames[..all]).end, End::Root, "the last place holds the root");
    assert_eq!(here(&mut frames[..all - 1]).end, End::Truncated);
}

#[test]
fn a_second_look_finds_nothing_new_and_modules_have_names_and_build_ids() {
    let _held = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    unwind::refresh();
    assert_eq!(unwind::refresh(), unwind::Refreshed::Same);
    let modules = unwind::modules();
    let here = every_call_is_found_down_to_the_threads_start as fn() as usize as u64;
    let own = modules.iter().find(|module| (module.start..module.end).contains(&here)).unwrap();
    assert_eq!(own.path, std::env::current_exe().unwrap().to_str().unwrap());
    assert!(own.build_id.len() >= 8, "{own:?}");
    assert!(modules.iter().any(|module| module.path == "[vdso]"));
    assert!(modules.is_sorted_by_key(|module| module.start));
    let statistics = unwind::statistics();
    assert!(statistics.ranges > 1000, "{statistics:?}");
    assert_eq!(statistics.refused_entries, 0, "{statistics:?}");
    assert_eq!(statistics.without_tables, 0, "{statistics:?}");
    assert!(statistics.unsupported_rows * 10_000 <= statistics.rows, "{statistics:?}");
    assert!(statistics.bytes < statistics.rows * 16 + (1 << 18), "{statistics:?}");
}

#[test]
fn the_same_from_a_copy_of_the_stack() {
    let _held = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    unwind::refresh();
    std::thread::spawn(|| {
        let (send, receive) = mpsc::channel();
        descend(400, &mut || {
            let registers = Registers::here();
            let mut frames = [0; 500];
            let walk = unwind::walk(&registers, &mut frames);
            assert_eq!(walk.end, End::Root);
            // SAFETY: less of the stack than the calls above occupy.
            let stack = unsafe { std::slice::from_raw_parts(registers.sp as *const u8, 1 << 14) };
            let mut copied = [0; 500];
            let copy = unwind::walk_copy(&registers, stack, &mut copied);
            assert_eq!(copy.end, End::Lost);
            assert!(copy.depth > 4 && copy.depth < walk.depth, "{copy:?}");
            assert_eq!(copied[..copy.depth], frames[..copy.depth]);
            send.send(()).unwrap();
        });
        receive.recv().unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn walks_go_on_while_tables_are_replaced_and_in_a_forked_child() {
    let _held = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(library) = ["libm.so.6", "libresolv.so.2", "libutil.so.1", "libanl.so.1"]
        .map(|name| std::ffi::CString::new(name).unwrap())
        .into_iter()
        .find(|name| {
            // SAFETY: asks whether it is loaded, and gives up what that took.
            unsafe {
                let loaded = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
                if !loaded.is_null() {
                    libc::dlclose(loaded);
                }
                loaded.is_null()
            }
        })
    else {
        return;
    };
    unwind::refresh();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let walkers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut frames = [0; 200];
                    let mut walks = 0;
                    while !stop.load(Ordering::Relaxed) {
                        descend(20, &mut || assert_eq!(here(&mut frames).end, End::Root));
                        walks += 1;
                    }
                    walks
                })
            })
            .collect();
        // Walkers are waited for, also where one of the assertions fails.
        let _stopped = Stop(&stop);
        let before = unwind::statistics().bytes;
        for _ in 0..10 {
            // SAFETY: a library of the system is loaded and unloaded; nothing of it is used.
            unsafe {
                let loaded = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
                assert!(!loaded.is_null());
                assert_eq!(unwind::refresh(), unwind::Refreshed::Loaded);
                libc::dlclose(loaded);
            }
            assert_eq!(unwind::refresh(), unwind::Refreshed::Unloaded);
        }
        // SAFETY: the child walks, prepares the tables anew, and leaves without running anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut frames = [0; 200];
            let inherited = here(&mut frames).end == End::Root;
            let anew = unwind::refresh() == unwind::Refreshed::Loaded;
            let walked = here(&mut frames).end == End::Root;
            // SAFETY: leaves at once.
            unsafe { libc::_exit(i32::from(!(inherited && anew && walked))) };
        }
        let mut status = -1;
        // SAFETY: awaits the child from above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        stop.store(true, Ordering::Relaxed);
        for walker in walkers {
            assert!(walker.join().unwrap() > 0);
        }
        assert_eq!(status, 0, "in the child");
        unwind::refresh();
        let after = unwind::statistics().bytes;
        assert!(after < before + (2 << 20), "old tables are freed: {before} then {after} bytes");
    });
}
