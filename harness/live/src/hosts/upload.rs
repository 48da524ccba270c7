//! What a host needs and does not have yet: this program, and what the system is made of. By checksums, so that what is there
//! is not sent again, and what arrived broken is seen.

use super::ssh::Connection;
use riprap_core::cluster::ClusterError;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// How much of a checksum names a file: no two of anybody's builds are alike in so much.
const NAME_LEN: usize = 16;
/// What an agent's folder is in, if the host does not say otherwise by RIPRAP_CACHE.
const ENTER: &str = r#"d="${RIPRAP_CACHE:-$HOME/.cache/riprap}"; mkdir -p "$d" && cd "$d" && "#;

/// A file that a host is to have.
pub(super) struct Wanted {
    /// Where it is here.
    pub(super) local: PathBuf,
    /// Where it is to be there, below the folder.
    pub(super) remote: PathBuf,
    checksum: String,
    is_program: bool,
}

impl Wanted {
    /// A program, under a name of its own for each content.
    pub(super) fn program(local: &Path, name: &str) -> Result<Wanted, ClusterError> {
        let checksum = checksum(local)?;
        let remote = format!("agent/{name}-{}", &checksum[..NAME_LEN]).into();
        Ok(Wanted { local: local.to_owned(), remote, checksum, is_program: true })
    }

    /// A file, or all that is in a folder, at the places below `root` that they have here.
    pub(super) fn below(root: &Path, path: &Path) -> Result<Vec<Wanted>, ClusterError> {
        let unreadable = |e| ClusterError(format!("failed to read {}: {e}", path.display()));
        let files = if path.is_dir() {
            crate::files::paths(path).map_err(unreadable)?.iter().map(|file| path.join(file)).collect()
        } else {
            vec![path.to_owned()]
        };
        let wanted = files.into_iter().map(|local| {
            let outside = |_| ClusterError(format!("{} is not below {}", local.display(), root.display()));
            let remote = local.strip_prefix(root).map_err(outside)?.to_owned();
            let mode = fs::metadata(&local).map_err(unreadable)?.permissions().mode();
            Ok(Wanted { checksum: checksum(&local)?, remote, is_program: mode & 0o111 != 0, local })
        });
        wanted.collect()
    }
}

/// What a host is, and where on it an agent may write.
pub(super) struct Host {
    /// The folder, from the root.
    pub(super) folder: PathBuf,
}

/// Looks at a host: whether this program can run there. Errors: why not.
pub(super) fn look(connection: &Connection) -> Result<Host, ClusterError> {
    let command = in_folder("pwd && uname -sm");
    let said = connection.succeed("make a folder", &command, io::empty())?;
    let said = String::from_utf8_lossy(&said);
    // Behind whatever a shell says that begins.
    let mut lines = said.lines().rev();
    let (machine, folder) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let wanted = format!("Linux {}", std::env::consts::ARCH);
    if machine != wanted {
        return Err(ClusterError(format!(
            "{} is `{machine}`, and this program is for `{wanted}`",
            connection.name()
        )));
    }
    if !folder.starts_with('/') || folder.contains('\'') {
        return Err(ClusterError(format!("the folder on {} is `{folder}`", connection.name())));
    }
    Ok(Host { folder: folder.into() })
}

/// Has a host have these files. `tell` is told of each that is sent. Returns how many were.
pub(super) fn bring(
    connection: &Connection,
    wanted: &[Wanted],
    tell: &dyn Fn(&str),
) -> Result<usize, ClusterError> {
    let there = there(connection, wanted)?;
    let missing: Vec<&Wanted> = wanted.iter().filter(|file| !there.contains(&line(file))).collect();
    for (n, file) in missing.iter().enumerate() {
        tell(&format!("uploading {} of {} to {}", n + 1, missing.len(), connection.name()));
        send(connection, file)?;
    }
    // Read back there, not believed.
    let there = if missing.is_empty() { there } else { self::there(connection, wanted)? };
    match wanted.iter().find(|file| !there.contains(&line(file))) {
        Some(file) => Err(ClusterError(format!(
            "{} is not on {} what it is here after it was sent",
            file.remote.display(),
            connection.name()
        ))),
        None => Ok(missing.len()),
    }
}

/// The files of these that are there, as lines of sha256sum.
fn there(connection: &Connection, wanted: &[Wanted]) -> Result<BTreeSet<String>, ClusterError> {
    let command = in_folder(r#"while IFS= read -r f; do [ ! -f "$f" ] || sha256sum "$f"; done"#);
    let names: String = wanted.iter().map(|file| format!("{}\n", file.remote.display())).collect();
    let said = connection.succeed("read checksums", &command, names.as_bytes())?;
    Ok(String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
}

/// As sha256sum says it.
fn line(file: &Wanted) -> String {
    format!("{}  {}", file.checksum, file.remote.display())
}

fn send(connection: &Connection, file: &Wanted) -> Result<(), ClusterError> {
    let path = quoted(&file.remote);
    let parent = quoted(file.remote.parent().unwrap_or(Path::new(".")));
    let mode = if file.is_program { "755" } else { "644" };
    // Under another name until it is whole: an upload that breaks off leaves nothing that looks right. Of old programs those
    // that nobody has started for a month go.
    let command = in_folder(&format!(
        "mkdir -p {parent} && part={path}.$$ && cat > \"$part\" && chmod {mode} \"$part\" && mv \"$part\" {path} && \
         find agent -type f -atime +30 ! -path {path} -delete"
    ));
    let local = File::open(&file.local).map_err(|e| unreadable(&file.local, &e))?;
    connection.succeed(&format!("upload {}", file.remote.display()), &command, local).map(drop)
}

fn in_folder(command: &str) -> String {
    format!("{ENTER}{command}")
}

/// As a shell reads it as one word.
pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn unreadable(path: &Path, error: &io::Error) -> ClusterError {
    ClusterError(format!("failed to read {}: {error}", path.display()))
}

/// The SHA-256 of a file, in hexadecimal.
fn checksum(path: &Path) -> Result<String, ClusterError> {
    let read = || {
        let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20]);
        loop {
            match file.read(&mut bytes)? {
                0 => return Ok(hash.finalize()),
                len => hash.update(&bytes[..len]),
            }
        }
    };
    let digest = read().map_err(|e| unreadable(path, &e))?;
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_named_as_sha256sum_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("kafka/1/sub")).expect("made");
        fs::write(at("kafka/1/sub/a.jar"), "abc").expect("written");
        fs::write(at("kafka/1/b"), "").expect("written");
        fs::set_permissions(at("kafka/1/b"), fs::Permissions::from_mode(0o755)).expect("ours");
        // FIPS 180-2, appendix B.1; and of nothing.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let wanted = Wanted::below(folder.path(), &at("kafka/1")).expect("readable");
        let told: Vec<(String, bool)> = wanted.iter().map(|file| (line(file), file.is_program)).collect();
        assert_eq!(
            told,
            [(format!("{nothing}  kafka/1/b"), true), (format!("{abc}  kafka/1/sub/a.jar"), false)]
        );
        let program = Wanted::program(&at("kafka/1/sub/a.jar"), "riprap").expect("readable");
        assert_eq!(line(&program), format!("{abc}  agent/riprap-{}", &abc[..NAME_LEN]));
        assert!(Wanted::below(&at("kafka/1"), &at("kafka/other")).is_err());
        assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
    }
}
