//! Children: those that go on without exec and allocate, and those that run a program, which a stray
//! signal would end or disturb.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Actor, STALL, Storm, pause};

/// Forks; the child allocates, frees, labels, and ends without the destructors of its parent.
pub(super) fn forks(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    while storm.goes_on() {
        actor.step("forking");
        // SAFETY: the child does what is allowed between fork and exit in this program: the allocator
        // looks after itself, and nothing else that is called takes a lock.
        match unsafe { libc::fork() } {
            -1 => return Err(format!("fork: {}", std::io::Error::last_os_error())),
            0 => {
                let is_right = in_child();
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(if is_right { 0 } else { 3 }) }
            }
            child => {
                storm.counts.forks.fetch_add(1, Relaxed);
                actor.step("waiting for a forked child");
                wait(child)?;
            }
        }
        pause(Duration::from_micros(random.below(5000)));
    }
    Ok(())
}

fn in_child() -> bool {
    let _stage = profiler::stage("torture-child");
    let _scope = profiler::scope("torture", "child");
    let mut all = Vec::new();
    for number in 0..200usize {
        let text = vec![number as u8; number * 97 % 20_000 + 1];
        all.push(text);
        if number % 3 == 0 {
            all.swap_remove(number * 31 % all.len());
        }
    }
    all.iter().all(|text| text.iter().all(|byte| *byte == text[0]))
}

/// Waits for a child for as long as an actor may take; a child that hangs is named and ended.
fn wait(child: libc::pid_t) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: there is room for the status, and the child is ours.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if began.elapsed() < STALL / 2 => pause(Duration::from_micros(300)),
            0 => {
                let state = super::watch::process_state(child);
                // SAFETY: our child, which was not waited for yet.
                unsafe {
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, &mut status, 0);
                }
                return Err(format!("a forked child hung: {state}"));
            }
            -1 => return Err(format!("waitpid: {}", std::io::Error::last_os_error())),
            _ if status == 0 => return Ok(()),
            _ => {
                let status = std::process::ExitStatus::from_raw(status);
                return Err(format!("a forked child ended with {status}"));
            }
        }
    }
}

/// Runs programs; one of them would be cut short by a signal that is not ignored.
pub(super) fn execs(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    let programs: [(&str, &[&str], &str); 3] = [
        ("sh", &["-c", "read line < /proc/self/stat && exit 7"], "exit status: 7"),
        ("sleep", &["0.01"], "exit status: 0"),
        ("cat", &["/proc/self/status"], "exit status: 0"),
    ];
    while storm.goes_on() {
        actor.step("running a program");
        let (program, arguments, expected) = programs[random.below(3) as usize];
        let output = Command::new(program).args(arguments).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        if output.status.to_string() != expected {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{program} ended with {}: {said}", output.status));
        }
        if program == "cat" {
            check_inherited(&String::from_utf8_lossy(&output.stdout))?;
        }
        storm.counts.execs.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// A program that is run starts with no signal pending, none blocked and none ignored.
fn check_inherited(status: &str) -> Result<(), String> {
    for field in ["SigPnd", "ShdPnd", "SigBlk"] {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
        let is_empty =
            line.rsplit(['\t', ' ']).next().is_some_and(|set| set.trim_matches('0').is_empty());
        if !is_empty {
            return Err(format!("a program was started with {line:?}"));
        }
    }
    Ok(())
}
