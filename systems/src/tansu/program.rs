//! Tansu's program, which cargo fetches and builds: there is none to be had that is built.
//!
//! It is built from the crates that its release names (`--locked`), whose hashes cargo checks, once, into the cache:
//!
//! ```text
//! CACHE/tansu/0.6.0/tansu   the program, put there last: while it is not there, the version is not
//! CACHE/tansu/0.6.0/build   while it is built; a build that was broken off is gone on with
//! ```

use crate::cache;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What it is built with: storage in objects, which all agents share.
const FEATURES: &str = "dynostore";

/// Where the program of a version is, or would be. Errors: one line.
pub(super) fn path(version: &str) -> Result<PathBuf, String> {
    Ok(cache::folder("tansu")?.join(version).join("tansu"))
}

/// Has a version there. `tell` is told how far it is. Errors: one line.
pub(super) fn fetch(version: &str, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    let program = path(version)?;
    if program.is_file() {
        return Ok(());
    }
    let folder = program.parent().expect("it is in a folder of its version");
    let build = folder.join("build");
    std::fs::create_dir_all(&build).map_err(|e| format!("failed to make {}: {e}", build.display()))?;
    compile(version, &build, tell)?;
    let built = build.join("installed/bin/tansu");
    std::fs::rename(&built, &program)
        .map_err(|e| format!("failed to move {} to {}: {e}", built.display(), program.display()))?;
    // What is left takes space and harms nobody.
    let _ = std::fs::remove_dir_all(&build);
    Ok(())
}

fn compile(version: &str, build: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    tell(&format!("fetching Tansu {version} with cargo"));
    let mut cargo = Command::new("cargo")
        .args(["install", "tansu", "--locked", "--force", "--features", FEATURES])
        .args(["--version", version, "--color", "never", "--root"])
        .arg(build.join("installed"))
        .env("CARGO_TARGET_DIR", build.join("target"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| {
            format!("failed to start cargo, which builds Tansu: {e}; Rust 1.90 or newer is needed")
        })?;
    let told = cargo.stderr.take().expect("it is piped");
    let (mut compiled, mut wrong) = (0, None);
    for line in BufReader::new(told).lines().map_while(Result::ok) {
        match step(&line) {
            Step::Compiling => {
                compiled += 1;
                tell(&format!("building Tansu {version} with cargo: {compiled} crates"));
            }
            Step::Wrong(why) => _ = wrong.get_or_insert_with(|| why.to_owned()),
            Step::Other => {}
        }
    }
    let status = cargo.wait().map_err(|e| format!("failed to wait for cargo: {e}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("failed to build Tansu {version}: {}", wrong.unwrap_or_else(|| status.to_string())))
}

/// What a line of cargo's says.
#[derive(PartialEq, Eq, Debug)]
enum Step<'a> {
    Compiling,
    Wrong(&'a str),
    Other,
}

fn step(line: &str) -> Step<'_> {
    let line = line.trim_start();
    match line.strip_prefix("error") {
        _ if line.starts_with("Compiling ") => Step::Compiling,
        // `error: ...`, or `error[E0308]: ...`.
        Some(rest) => rest.split_once(": ").map_or(Step::Other, |(_, why)| Step::Wrong(why)),
        None => Step::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says() {
        let check = |line: &str, expect: Step<'_>| assert_eq!(step(line), expect, "{line}");
        check("   Compiling tansu v0.6.0", Step::Compiling);
        check("error: could not find `tansu` in registry", Step::Wrong("could not find `tansu` in registry"));
        check("error[E0308]: mismatched types", Step::Wrong("mismatched types"));
        check("warning: package `spin v0.9.8` is yanked", Step::Other);
        check("    Finished `release` profile", Step::Other);
    }
}
