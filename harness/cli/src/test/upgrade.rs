//! The other version of a system that nodes go to in the course of a run: what `--upgrade-to` means.
//!
//! A system that is fetched by its version, or described by a file and asked for by version, goes to a version; any other to
//! a program that runs in place of the one before.

use crate::Failure;
use riprap_core::plan::TestConfig;
use riprap_core::system::{Deployment, System};
use riprap_nemesis::Choice;
use riprap_systems::Registered;
use serde_json::{Value as Json, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// How nodes are deployed once they have been upgraded; none if nothing of the kind is asked for.
pub(super) fn deployment(
    config: &TestConfig,
    faults: &[Choice],
    system: &dyn Registered,
    before: &Deployment,
) -> Result<Option<Deployment>, Failure> {
    let Some(to) = &config.upgrade_to else { return Ok(None) };
    if !faults.iter().any(|(fault, _)| fault.needs_upgrade()) {
        return Err(Failure::Usage(format!(
            "--upgrade-to {to}: no fault of this run goes there; --nemesis rolling-upgrade is right"
        )));
    }
    let is_described = system.description().is_some();
    let by_version = system.info().versions.is_some() && (before.version.is_some() || !is_described);
    let upgraded = if by_version {
        Deployment { version: Some(to.clone()), ..before.clone() }
    } else {
        // Nodes start in whatever folder; the program's path is from this one.
        let program = std::fs::canonicalize(to);
        let program = program
            .map_err(|e| Failure::Usage(format!("--upgrade-to is `{to}`: {e}; a program is right")))?;
        check_program("--upgrade-to", &program)?;
        Deployment { program: Some(program), ..before.clone() }
    };
    system.validate(&upgraded).map_err(|why| Failure::Usage(format!("--upgrade-to {to}: {why}")))?;
    let (old, new) = (system.versions(before), system.versions(&upgraded));
    if old == new && upgraded.program == before.program {
        return Err(Failure::Usage(format!(
            "--upgrade-to {to}: that is what runs from the start; another is right"
        )));
    }
    Ok(Some(upgraded))
}

/// What runs first and in the end, for `test.json`.
pub(super) fn versions(system: &dyn System, before: &Deployment, upgraded: &Deployment) -> Json {
    let mut told = system.versions(before);
    let mut then = system.versions(upgraded);
    if let Some(program) = &upgraded.program {
        then["program"] = program.display().to_string().into();
    }
    match &mut told {
        Json::Object(fields) => {
            fields.insert("upgraded_to".to_owned(), then);
            told
        }
        other => json!({"first": other, "upgraded_to": then}),
    }
}

/// Whether a file is a program that can be run.
pub(super) fn check_program(option: &str, program: &Path) -> Result<(), Failure> {
    let kind = std::fs::metadata(program);
    let wrong = match &kind {
        Ok(kind) if !kind.is_file() => "not a file".to_owned(),
        Ok(kind) if kind.permissions().mode() & 0o111 == 0 => "not executable".to_owned(),
        Ok(_) => return Ok(()),
        Err(e) => e.to_string(),
    };
    Err(Failure::Usage(format!("{option} is `{}`: {wrong}; a program is right", program.display())))
}
