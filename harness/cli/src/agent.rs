//! `riprap agent`: this program on a host of `riprap test --hosts`.

use crate::Failure;
use crate::args::AgentArgs;
use crate::test::system;
use riprap_core::system::System;
use riprap_live::hosts::agent;
use riprap_live::machine;
use std::path::Path;

pub(crate) fn run(args: &AgentArgs) -> Result<u8, Failure> {
    machine::raise_open_files()
        .map_err(|e| Failure::Harness(format!("failed to raise the limit of open files: {e}")))?;
    agent::serve(&args.root, &find).map_err(Failure::Harness)?;
    Ok(0)
}

/// The system of that name, or the one that a file describes.
fn find(name: &str, described: Option<&Path>) -> Result<&'static dyn System, String> {
    let asked = described.map_or(name.to_owned(), |path| path.display().to_string());
    match system(&asked) {
        Ok((found, _)) => Ok(found),
        Err(Failure::Usage(why) | Failure::Harness(why)) => Err(why),
        Err(Failure::Interrupted(before)) => Err(format!("interrupted before {before}")),
    }
}
