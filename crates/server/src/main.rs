//! The binary `unladen`.

use std::process::ExitCode;

use server::cli::{self, Command};
use server::{fleet, loadtest, plan, profiles};

/// jemalloc, counted by stage and sampled for the heap's profile.
#[global_allocator]
static ALLOCATOR: profiler::heap::Allocator<tikv_jemallocator::Jemalloc> =
    profiler::heap::Allocator::new(tikv_jemallocator::Jemalloc);

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command answers where it was given"
)]
fn main() -> ExitCode {
    match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Serve(options)) => server::serve::run(*options),
        Ok(Command::CheckConfig(files)) => server::serve::check_config(&files),
        Ok(Command::Profile(request)) => {
            ended("profile", profiles::run(&request, &mut std::io::stdout().lock()))
        }
        Ok(Command::Fleet(options)) => ended("fleet", fleet::run(*options, &mut std::io::stdout())),
        Ok(Command::Loadtest(request)) => {
            ended("loadtest", loadtest::run(&request, &mut std::io::stdout().lock()))
        }
        Ok(Command::Plan(request)) => {
            ended("plan", plan::run(&request, &mut std::io::stdout().lock()))
        }
        Ok(Command::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(mistake) => {
            eprintln!("unladen: error: {}", mistake.message);
            ExitCode::from(mistake.code)
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command answers where it was given")]
fn ended(command: &str, outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("unladen {command}: {reason}");
            ExitCode::FAILURE
        }
    }
}
