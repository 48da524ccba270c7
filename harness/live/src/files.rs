//! The files of a node, as whoever damages or replaces them sees them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A folder as it was: what each file held, by its path below the folder; of a folder in it nothing.
pub(crate) type Snapshot = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// What is in a folder now. For small ones: all of it is kept.
pub(crate) fn snapshot(folder: &Path) -> io::Result<Snapshot> {
    let mut found = Snapshot::new();
    walk(folder, &mut |path, is_folder| {
        let held = if is_folder { None } else { Some(fs::read(folder.join(path))?) };
        found.insert(path.to_owned(), held);
        Ok(())
    })?;
    Ok(found)
}

/// Makes a folder what it was, and nothing else.
pub(crate) fn restore(folder: &Path, snapshot: &Snapshot) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    // A folder comes before what is in it.
    for (path, held) in snapshot {
        let path = folder.join(path);
        match held {
            None => fs::create_dir(path)?,
            Some(bytes) => fs::write(path, bytes)?,
        }
    }
    Ok(())
}

/// The files of a folder that hold anything, in order, each with its length; those that were there once are its owner's
/// settings, and left out. Units: bytes.
pub(crate) fn holding(folder: &Path, settings: &Snapshot) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    walk(folder, &mut |path, is_folder| {
        if !is_folder && !settings.contains_key(path) {
            // A file that goes away meanwhile holds nothing.
            let len = fs::metadata(folder.join(path)).map_or(0, |file| file.len());
            found.extend((len > 0).then(|| (path.to_owned(), len)));
        }
        Ok(())
    })?;
    found.sort();
    Ok(found)
}

/// The files below a folder, by their paths below it, in order.
pub(crate) fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(folder, &mut |path, is_folder| {
        found.extend((!is_folder).then(|| path.to_owned()));
        Ok(())
    })?;
    found.sort();
    Ok(found)
}

/// Flips a bit of a file; gives the byte as it was, and as it reads then.
pub(crate) fn flip(path: &Path, offset: u64, mask: u8) -> io::Result<(u8, u8)> {
    let file = File::options().read(true).write(true).open(path)?;
    let byte = || {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).map(|()| byte[0])
    };
    let was = byte()?;
    file.write_all_at(&[was ^ mask], offset)?;
    Ok((was, byte()?))
}

/// Cuts a file short; gives its length then.
pub(crate) fn cut(path: &Path, len: u64) -> io::Result<u64> {
    let file = File::options().write(true).open(path)?;
    file.set_len(len)?;
    Ok(fs::metadata(path)?.len())
}

/// Visits all that is below a folder, folders before what is in them; tells paths below it, and whether each is a folder.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path, bool) -> io::Result<()>) -> io::Result<()> {
    let mut left = vec![PathBuf::new()];
    while let Some(at) = left.pop() {
        let entries = match fs::read_dir(folder.join(&at)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (at.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() || kind.is_file() {
                visit(&path, kind.is_dir())?;
            }
            if kind.is_dir() {
                left.push(path);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_what_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("a/b")).expect("made");
        fs::write(at("a/settings"), "x=1").expect("written");
        let before = snapshot(folder.path()).expect("readable");
        assert_eq!(before.len(), 3);
        fs::write(at("a/settings"), "x=2").expect("written");
        fs::create_dir(at("log")).expect("made");
        for (name, text) in [("log/1", "one"), ("log/2", ""), ("top", "three")] {
            fs::write(at(name), text).expect("written");
        }
        let held = holding(folder.path(), &before).expect("readable");
        assert_eq!(held, [("log/1".into(), 3), ("top".into(), 5)]);
        assert_eq!(flip(&at("top"), 4, 1).expect("ours"), (b'e', b'd'));
        assert_eq!(fs::read_to_string(at("top")).expect("ours"), "thred");
        assert!(flip(&at("top"), 5, 1).is_err());
        assert_eq!(cut(&at("top"), 3).expect("ours"), 3);
        assert_eq!(fs::read_to_string(at("top")).expect("ours"), "thr");
        restore(folder.path(), &before).expect("ours");
        assert_eq!(snapshot(folder.path()).expect("readable"), before);
    }
}
