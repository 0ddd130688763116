//! An engine as a process of its own that answers commands, and peers that only run and print.
//!
//! 1. The parent starts the engine; the child builds its data and prints a first [`Line`].
//! 2. For each command, a word on standard input, the child does a piece of work and prints a line.
//! 3. The child ends at the end of its input.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Failure;
use crate::protocol::Line;
use crate::statistics::median;

/// The child's side: prints `ready`, then the answer to each command, until the input ends.
pub fn answer(
    ready: &Line,
    mut ask: impl FnMut(&str) -> Result<Line, Failure>,
) -> Result<(), Failure> {
    println!("{ready}");
    for command in stdin().lines() {
        let line = ask(command?.trim())?;
        println!("{line}");
        stdout().flush()?;
    }
    Ok(())
}

/// The parent's side of one engine, with all it has answered.
#[derive(Debug)]
pub struct Engine {
    name: String,
    child: Child,
    commands: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    measured: Measured,
}

/// Everything an engine has told, by key.
#[derive(Clone, Debug, Default)]
pub struct Measured(BTreeMap<String, Vec<f64>>);

impl Measured {
    /// Takes the numbers of a line in.
    pub fn take(&mut self, line: &Line) {
        for (key, _) in line.values() {
            if let Some(number) = line.number(key) {
                self.0.entry(key.to_owned()).or_default().push(number);
            }
        }
    }

    /// The median of what was told under this key.
    pub fn median(&self, key: &str) -> Option<f64> {
        median(self.0.get(key)?)
    }

    /// All that was told under keys that begin so.
    pub fn all(&self, prefix: &str) -> Vec<f64> {
        let known = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        known.flat_map(|(_, values)| values.iter().copied()).collect()
    }

    /// The largest of what was told under this key.
    pub fn most(&self, key: &str) -> Option<f64> {
        self.0.get(key)?.iter().copied().max_by(f64::total_cmp)
    }
}

impl Engine {
    /// Starts this binary again as the engine `name` and waits until its data is built.
    pub fn start(name: &str, arguments: &[String]) -> Result<Engine, Failure> {
        Engine::start_program(&std::env::current_exe()?, name, arguments)
    }

    /// As [`Engine::start`], but another program that answers as this one would: the same one built otherwise.
    pub fn start_program(
        program: &Path,
        name: &str,
        arguments: &[String],
    ) -> Result<Engine, Failure> {
        let mut child = Command::new(program)
            .args(["--engine", name])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().ok_or("the child has no output")?).lines();
        let measured = Measured::default();
        let mut engine = Engine { name: name.to_owned(), child, commands, lines, measured };
        engine.read()?;
        Ok(engine)
    }

    /// The engine's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has the engine do one piece of work.
    pub fn ask(&mut self, command: &str) -> Result<Line, Failure> {
        let commands = self.commands.as_mut().ok_or("the engine has ended")?;
        writeln!(commands, "{command}")?;
        commands.flush()?;
        self.read()
    }

    /// Lets the engine end and gives what it told.
    pub fn end(mut self) -> Result<Measured, Failure> {
        self.commands = None;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("engine {} ended with {status}", self.name).into());
        }
        Ok(std::mem::take(&mut self.measured))
    }

    fn read(&mut self) -> Result<Line, Failure> {
        for line in self.lines.by_ref() {
            let line = line?;
            match Line::parse(&line) {
                Some(line) => {
                    self.measured.take(&line);
                    return Ok(line);
                }
                None => println!("{}: {line}", self.name),
            }
        }
        Err(format!("engine {} ended before it answered", self.name).into())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // An engine whose bench failed must not outlive it; one that has ended takes no harm.
        self.commands = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the Makefile leaves a program that is built with `--target-dir target/DIRECTORY`; this program
/// for none.
pub fn other_build(program: &str, directory: Option<&str>) -> Result<PathBuf, Failure> {
    let Some(directory) = directory else { return Ok(std::env::current_exe()?) };
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    Ok(target.join(directory).join("release").join(program))
}

/// Where `bench/peers/build` leaves a program.
pub fn peer_binary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bin").join(name)
}

/// Runs a peer to its end and reads its lines. What else it prints, and why it could not run, is said;
/// a peer that is missing is no failure of the bench.
pub fn run_peer(program: &Path, arguments: &[&str]) -> Vec<Line> {
    let shown = || format!("{} {}", program.display(), arguments.join(" "));
    let child =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("missing: {}: {error}", shown());
            return Vec::new();
        }
    };
    let output = child.stdout.take().map(BufReader::new);
    let mut lines = Vec::new();
    for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        match Line::parse(&line) {
            Some(line) => lines.push(line),
            None => println!("{line}"),
        }
    }
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => println!("failed: {}: {status}", shown()),
        Err(error) => println!("failed: {}: {error}", shown()),
    }
    lines
}
