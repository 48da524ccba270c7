//! What is wrong with a command line, in one line that says what would have been right.
//!
//! clap's own words take several lines and point at `--help`; what they are made of says it in one.

use crate::args::Cli;
use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error as _;

/// The line, without the program's name before it.
pub(crate) fn explain(error: &clap::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = word(error, ContextKind::InvalidSubcommand);
            format!("unknown command `{name}`; one of: {}", commands())
        }
        ErrorKind::MissingSubcommand => {
            format!("a command is missing; one of: {}", commands())
        }
        ErrorKind::UnknownArgument => unknown_argument(error),
        ErrorKind::InvalidValue => {
            let (name, value) = (argument(error), word(error, ContextKind::InvalidValue));
            let possible = words(error, ContextKind::ValidValue);
            let wrong = if value.is_empty() {
                format!("{} needs a value", word(error, ContextKind::InvalidArg))
            } else {
                format!("{name} is `{value}`")
            };
            if possible.is_empty() { wrong } else { format!("{wrong}; one of: {}", possible.join(", ")) }
        }
        ErrorKind::ValueValidation => {
            let (name, value) = (argument(error), word(error, ContextKind::InvalidValue));
            let right = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{name} is `{value}`; {right}")
        }
        ErrorKind::MissingRequiredArgument => missing(error),
        ErrorKind::ArgumentConflict => {
            let one = argument(error);
            let others = words(error, ContextKind::PriorArg);
            let others: Vec<&str> = others.iter().map(|other| bare(other)).collect();
            if others == [one.as_str()] {
                format!("{one} is given more than once; once is right")
            } else {
                format!("{one} and {} exclude each other; one of them is right", others.join(", "))
            }
        }
        // The first paragraph says what is wrong; usage and hints follow it.
        _ => {
            let text = error.to_string();
            let paragraph = text.split("\n\n").next().unwrap_or_default();
            paragraph.trim_start_matches("error: ").to_owned()
        }
    }
}

fn unknown_argument(error: &clap::Error) -> String {
    let given = word(error, ContextKind::InvalidArg);
    let what = if given.starts_with('-') { "option" } else { "argument" };
    let command = command(error).join(" ");
    match word(error, ContextKind::SuggestedArg).as_str() {
        "" => format!("unknown {what} `{given}`; `{command} --help` tells what there is"),
        near => {
            format!("unknown {what} `{given}`; `{near}` may be meant, `{command} --help` tells what there is")
        }
    }
}

fn missing(error: &clap::Error) -> String {
    let names = words(error, ContextKind::InvalidArg);
    let missing = format!("missing {}", names.join(" "));
    let command_line = command(error);
    let mut all = Cli::command();
    all.build();
    let command = command_line.get(1).and_then(|name| all.find_subcommand(name));
    let argument = command.and_then(|command| command.get_arguments().find(|a| names == [a.to_string()]));
    let possible = argument.map(clap::Arg::get_possible_values).unwrap_or_default();
    if possible.is_empty() {
        return format!("{missing}; `{} {}` is right", command_line.join(" "), names.join(" "));
    }
    let possible: Vec<&str> = possible.iter().map(clap::builder::PossibleValue::get_name).collect();
    format!("{missing}; one of: {}", possible.join(", "))
}

/// The names of all commands.
fn commands() -> String {
    let cli = Cli::command();
    let names: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    names.join(", ")
}

/// The program and its command, as the usage names them.
fn command(error: &clap::Error) -> Vec<String> {
    let usage = word(error, ContextKind::Usage);
    let words = usage.trim_start_matches("Usage:").split_whitespace();
    words.take_while(|word| !word.starts_with(['-', '[', '<'])).map(str::to_owned).collect()
}

/// The argument that an error is about, without its values: `--seed`, `WHAT`.
fn argument(error: &clap::Error) -> String {
    bare(&word(error, ContextKind::InvalidArg)).to_owned()
}

/// `--seed` of `--seed <N>`, `WHAT` of `<WHAT>`.
fn bare(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or_default().trim_matches(['<', '>'])
}

fn word(error: &clap::Error, kind: ContextKind) -> String {
    words(error, kind).join(" ")
}

fn words(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(words)) => words.clone(),
        Some(ContextValue::None) | None => Vec::new(),
        Some(other) => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn a_wrong_command_line_is_told_what_is_right() {
        for (line, expected) in [
            (
                "",
                "a command is missing; one of: test, sim, replay, shrink, check, report, list, broker, objects, compare, self-test, agent",
            ),
            (
                "tset",
                "unknown command `tset`; one of: test, sim, replay, shrink, check, report, list, broker, objects, compare, self-test, agent",
            ),
            (
                "help tset",
                "unknown command `tset`; one of: test, sim, replay, shrink, check, report, list, broker, objects, compare, self-test, agent",
            ),
            ("-x", "unknown option `-x`; `riprap --help` tells what there is"),
            ("test --foo", "unknown option `--foo`; `riprap test --help` tells what there is"),
            (
                "test --node 3",
                "unknown option `--node`; `--nodes` may be meant, `riprap test --help` tells what there is",
            ),
            ("test 3", "unknown argument `3`; `riprap test --help` tells what there is"),
            ("test --nodes x", "--nodes is `x`; a whole number from 1 to 64 is right"),
            ("test --nodes 65", "--nodes is `65`; a whole number from 1 to 64 is right"),
            ("test --nodes -1", "--nodes is `-1`; a whole number from 1 to 64 is right"),
            ("test --nodes=", "--nodes is ``; a whole number from 1 to 64 is right"),
            ("test --concurrency 0", "--concurrency is `0`; a whole number from 1 to 1000 is right"),
            ("test --keys 0", "--keys is `0`; a whole number from 1 to 10000 is right"),
            ("test --rate x", "--rate is `x`; a number from 0.001 to 1000000 is right"),
            ("test --rate nan", "--rate is `nan`; a number from 0.001 to 1000000 is right"),
            ("test --rate -1", "--rate is `-1`; a number from 0.001 to 1000000 is right"),
            ("test --seed -1", "--seed is `-1`; a whole number from 0 to 18446744073709551615 is right"),
            ("test --seed", "--seed <N> needs a value"),
            ("test --seed 1 --seed 2", "--seed is given more than once; once is right"),
            (
                "test --time-limit 30",
                "--time-limit is `30`; a whole number with a unit is right, such as 500ms, 30s, 2m or 1h",
            ),
            ("test --time-limit 999ms", "--time-limit is `999ms`; a time from 1s to 168h is right"),
            ("test --time-limit 169h", "--time-limit is `169h`; a time from 1s to 168h is right"),
            ("test --rotate 1s", "--rotate is `1s`; a time from 2s to 168h is right"),
            ("test --quiet-time 0s", "--quiet-time is `0s`; a time from 1ms to 168h is right"),
            ("test --isolation x", "--isolation is `x`; one of: read_committed, read_uncommitted"),
            (
                "test --isolation",
                "--isolation <LEVEL> needs a value; one of: read_committed, read_uncommitted",
            ),
            ("test --sub-via assign,x", "--sub-via is `x`; one of: assign, subscribe"),
            ("test --acks 2", "--acks is `2`; one of: 0, 1, all"),
            ("test --idempotence x", "--idempotence is `x`; one of: true, false"),
            ("test --set x", "--set is `x`; PROPERTY=VALUE is right"),
            ("test --sim --hosts a", "--sim and --hosts exclude each other; one of them is right"),
            (
                "test --hosts a --bootstrap b:1",
                "--hosts and --bootstrap exclude each other; one of them is right",
            ),
            ("test --bootstrap b", "--bootstrap is `b`; HOST:PORT is right"),
            ("check", "missing <HISTORY>; `riprap check <HISTORY>` is right"),
            ("check a.jsonl --guarantees x", "--guarantees is `x`; one of: riprap, jepsen"),
            ("list", "missing <WHAT>; one of: systems, workloads, faults, checkers, defects"),
            ("list x", "WHAT is `x`; one of: systems, workloads, faults, checkers, defects"),
            ("broker", "missing --dir <DIR>; `riprap broker --dir <DIR>` is right"),
            ("broker --dir d --listen x", "--listen is `x`; HOST:PORT with an IP address is right"),
        ] {
            let error = Cli::try_parse_from(["riprap"].into_iter().chain(line.split_whitespace()));
            assert_eq!(explain(&error.expect_err(line)), expected, "riprap {line}");
        }
    }
}
