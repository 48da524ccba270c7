//! Versions of systems that are fetched by version: three numbers.

/// Whether a version of a system can be run: one from `least` on. `usual` is one, to show; `older` is what is to say of what is
/// older. Errors: one line.
pub(crate) fn check(
    system: &str,
    version: &str,
    least: [u32; 3],
    usual: &str,
    older: &str,
) -> Result<(), String> {
    let parts: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some(parts @ [_, _, _]) if parts >= least.as_slice() => Ok(()),
        Some([_, _, _]) => {
            let [major, minor, patch] = least;
            Err(format!("{system}@{version}: {major}.{minor}.{patch} or newer is right: {older}"))
        }
        _ => Err(format!("{system}@{version}: no version; one like {usual} is right")),
    }
}
