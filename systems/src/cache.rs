//! Where what is fetched is kept.

use std::path::PathBuf;

/// The folder of a system in the cache. Errors: one line.
pub(crate) fn folder(system: &str) -> Result<PathBuf, String> {
    Ok(root()?.join(system))
}

/// The cache: `RIPRAP_CACHE`, by default `~/.cache/riprap`. Errors: one line.
pub fn root() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = set("RIPRAP_CACHE").or_else(|| Some(set("HOME")?.join(".cache/riprap")));
    Ok(found.ok_or("neither RIPRAP_CACHE nor HOME is set; the folder for what is fetched is right")?)
}
