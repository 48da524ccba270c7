//! The binary `riprap`: the only crate that knows every registry.
//!
//! Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments or unreadable input, 255 the harness itself failed.
//! Results go to stdout, everything else to stderr.

mod args;
mod broker;
mod check;
mod list;
mod report;
mod test;

use args::{Cli, Command};
use clap::Parser as _;
use clap::error::ErrorKind;
use std::process::ExitCode;

/// Why there is no verdict: one line each.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments, or what they name, are at fault: exit code 254.
    Usage(String),
    /// The harness could not do its work: exit code 255.
    Harness(String),
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    let result = match cli.command {
        Command::Test(args) => test::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Report(args) => report::run(&args),
        Command::List(args) => list::run(&args),
        Command::Broker(args) => broker::run(&args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Failure::Usage(why)) => {
            eprintln!("riprap: {}", one_line(&why));
            ExitCode::from(254)
        }
        Err(Failure::Harness(why)) => {
            eprintln!("riprap: {}", one_line(&why));
            ExitCode::from(255)
        }
    }
}

/// What clap says: help as it is, an error as one line.
fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print!("{error}");
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprint!("{error}");
            ExitCode::from(254)
        }
        _ => {
            // The first paragraph says what is wrong and what would have been right; usage and hints follow it.
            let text = error.to_string();
            let paragraph = text.split("\n\n").next().unwrap_or_default();
            eprintln!("riprap: {}", one_line(paragraph.trim_start_matches("error: ")));
            ExitCode::from(254)
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
