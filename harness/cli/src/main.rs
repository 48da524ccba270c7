//! The binary `riprap`: the only crate that knows every registry.
//!
//! Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments or unreadable input, 255 the harness itself failed.
//! Results go to stdout, everything else to stderr.

mod agent;
mod args;
mod broker;
mod check;
mod compare;
mod explain;
mod list;
mod objects;
mod replay;
mod report;
mod scenario;
mod self_test;
mod shrink;
mod sim;
mod swarm;
mod test;

use args::{Cli, Command};
use clap::error::ErrorKind;
use riprap_checker::Valid;
use std::process::ExitCode;

/// A simulation allocates for each message, and is a tenth faster with this than with the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Why there is no verdict: one line each.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments, or what they name, are at fault: exit code 254.
    Usage(String),
    /// The harness could not do its work: exit code 255.
    Harness(String),
    /// ^C came before there was anything to say: exit code 2, as of a run that says nothing.
    Interrupted(&'static str),
}

impl Failure {
    pub(crate) fn usage(why: impl ToString) -> Failure {
        Failure::Usage(why.to_string())
    }

    pub(crate) fn harness(why: impl ToString) -> Failure {
        Failure::Harness(why.to_string())
    }
}

fn main() -> ExitCode {
    let done = match Cli::read() {
        Ok(cli) => carry_out(cli.command),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => print(&error.to_string()).map(|()| 0),
            _ => Err(Failure::Usage(explain::explain(&error))),
        },
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Failure::Usage(why)) => {
            say(&why);
            ExitCode::from(254)
        }
        Err(Failure::Harness(why)) => {
            say(&why);
            ExitCode::from(255)
        }
        Err(Failure::Interrupted(before)) => {
            say(&format!("interrupted before {before}"));
            ExitCode::from(Valid::Unknown.exit_code())
        }
    }
}

fn carry_out(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Test(args) => test::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Report(args) => report::run(&args),
        Command::List(args) => list::run(&args),
        Command::Broker(args) => broker::run(&args),
        Command::Objects(args) => objects::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::SelfTest(args) => self_test::run(&args),
    }
}

/// One line on stderr. A stderr that is gone changes nothing of how the program ends.
pub(crate) fn say(line: &str) {
    use std::io::{Write as _, stderr};
    let _ = stderr().write_all(format!("riprap: {}\n", one_line(line)).as_bytes());
}

/// Without what would break the line or control the terminal: names of files may hold anything.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Prints to stdout. A reader that has gone away (`riprap list ... | head -1`) is no fault of ours.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use std::io::{ErrorKind, Write as _, stdout};
    match stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::harness(format!("failed to write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}
