//! Where what is fetched is kept.

use std::path::PathBuf;

/// The folder of a system in the cache: below `RIPRAP_CACHE`, by default `~/.cache/riprap`. Errors: one line.
pub(crate) fn folder(system: &str) -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = set("RIPRAP_CACHE").or_else(|| Some(set("HOME")?.join(".cache/riprap")));
    let found =
        found.ok_or("neither RIPRAP_CACHE nor HOME is set; the folder for what is fetched is right")?;
    Ok(found.join(system))
}
