//! The wall clock that a node is lent: the machine's, or for tests one that stands as far from it as a file says.
//!
//! The file holds milliseconds in decimal. Whoever writes it puts another in its place, so that none is read half written.
//! What the node goes by is written beside it, in a file of the same name and `.seen`: so who sets the clock knows that the
//! node's process has read it.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// See the module.
pub(super) struct WallClock {
    offset: Option<PathBuf>,
    /// The offset that was read last.
    seen_ms: Cell<Option<i64>>,
}

impl WallClock {
    /// One that stands off by what a file says; if there is none, the machine's.
    pub(super) fn new(offset: Option<PathBuf>) -> WallClock {
        WallClock { offset, seen_ms: Cell::new(None) }
    }

    /// Milliseconds since 1970.
    pub(super) fn ms(&self) -> i64 {
        unix_ms().saturating_add(self.offset_ms())
    }

    /// How far it stands from the machine's clock now. Where nobody can tell, it stays as it was. Units: milliseconds.
    pub(super) fn offset_ms(&self) -> i64 {
        let Some(path) = &self.offset else { return 0 };
        let before = self.seen_ms.get();
        let read = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        let offset_ms = read.or(before).unwrap_or(0);
        if before != Some(offset_ms) && tell(path, offset_ms).is_ok() {
            self.seen_ms.set(Some(offset_ms));
        }
        offset_ms
    }
}

/// Says what was read.
fn tell(path: &Path, offset_ms: i64) -> std::io::Result<()> {
    let named = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
    fs::write(named(".seen.new"), offset_ms.to_string())?;
    fs::rename(named(".seen.new"), named(".seen"))
}

/// Negative where the machine's clock stands before 1970.
fn unix_ms() -> i64 {
    let ms = |d: std::time::Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => ms(since),
        Err(before) => -ms(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_off_as_it_is_told_and_says_so() {
        assert_eq!(WallClock::new(None).offset_ms(), 0);
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("clock");
        let clock = WallClock::new(Some(path.clone()));
        let seen = || fs::read_to_string(dir.path().join("clock.seen")).ok();
        for (text, offset_ms) in [
            (None, 0),
            (Some("0"), 0),
            (Some("-7000"), -7000),
            // What is no offset changes nothing.
            (Some("soon"), -7000),
            (Some("86400000\n"), 86_400_000),
        ] {
            if let Some(text) = text {
                fs::write(&path, text).expect("ours");
            }
            assert_eq!((clock.offset_ms(), seen()), (offset_ms, Some(offset_ms.to_string())), "{text:?}");
        }
        let off_ms = clock.ms() - unix_ms();
        assert!((86_399_000..=86_400_000).contains(&off_ms), "{off_ms}");
    }
}
