//! The folder beneath a file system that forgets, and what would take it back to what is durable.
//!
//! The folder holds what was written last. Beside it, in memory, stands for each file what its writes overwrote, and in one
//! list what names changed, both in order; a sync forgets the part that it makes durable. An append, which is most of what
//! happens, overwrites nothing and costs next to nothing. Removed files lie in a folder of their own until their removal is
//! durable.

use rand::RngExt as _;
use riprap_core::cluster::Lost;
use riprap_core::seed::Stream;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::mem;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What may be kept of overwritten bytes, and of the list of writes itself. What is older than that counts as written back,
/// as a kernel does that has no more memory for what is unwritten. Units: bytes.
const MAX_KEPT_BYTES: u64 = 256 << 20;
/// Files that are looked at after a power failure, the first that lost something: what is right for some is right for all.
const MAX_LOOKS: usize = 64;
/// Units: bytes. Source: stat(2), `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// A file or folder, as the kernel knows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ino(pub(super) u64);

/// The folder itself.
pub(super) const ROOT: Ino = Ino(1);

/// What came of a power failure.
#[derive(Debug, Default)]
pub(super) struct Fallen {
    pub(super) lost: Lost,
    /// Of paths that lost something, how long the file there is now; `None` if there is none.
    pub(super) look_at: BTreeMap<PathBuf, Option<u64>>,
}

/// How far a sync reaches that begins now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pieces: u64,
    names: usize,
    names_settled: u64,
}

#[derive(Debug)]
pub(super) struct Backing {
    root: PathBuf,
    removed: PathBuf,
    files: BTreeMap<Ino, Node>,
    by_name: BTreeMap<(Ino, OsString), Ino>,
    last_ino: u64,
    last_removed: u64,
    /// Oldest first.
    names: Vec<NameChange>,
    /// How many were before these.
    names_settled: u64,
    kept_bytes: u64,
    room: Option<u64>,
    has_refused: bool,
    is_journaled: bool,
    has_power: bool,
}

#[derive(Debug)]
struct Node {
    place: Place,
    is_folder: bool,
    len: u64,
    /// Open as long as somebody has it open.
    file: Option<Arc<File>>,
    opens: u64,
    /// Oldest first.
    unsynced: VecDeque<Piece>,
    /// How many were before these.
    settled: u64,
}

#[derive(Clone, Debug)]
enum Place {
    Root,
    In { folder: Ino, name: OsString },
    Removed(u64),
}

/// A change of a file, as what takes it back.
#[derive(Debug)]
enum Piece {
    Write {
        offset: u64,
        len: u64,
        old_len: u64,
        overwritten: Vec<u8>,
    },
    /// Zeros at the end of what was cut are left out.
    SetLen {
        old_len: u64,
        from: u64,
        cut: Vec<u8>,
    },
}

/// A change of a name; paths are below the root.
#[derive(Debug)]
enum NameChange {
    Created { path: PathBuf, is_folder: bool },
    Removed { path: PathBuf, aside: Aside },
    Renamed { from: PathBuf, to: PathBuf, replaced: Option<Replaced> },
}

/// What was removed, and its number among that.
#[derive(Clone, Copy, Debug)]
struct Aside {
    ino: Ino,
    number: u64,
}

/// What a rename did to the file that had the name before.
#[derive(Debug)]
struct Replaced {
    aside: Aside,
    /// The file that has the name now is written up to here before it has it.
    by: Ino,
    pieces: u64,
}

impl Piece {
    fn kept_bytes(&self) -> u64 {
        let (Piece::Write { overwritten: kept, .. } | Piece::SetLen { cut: kept, .. }) = self;
        (kept.len() + mem::size_of::<Piece>()) as u64
    }

    /// Takes it back, as the newest of its file.
    fn undo(&self, file: &File) -> io::Result<()> {
        match self {
            Piece::Write { offset, len, old_len, overwritten } => {
                if offset + len > *old_len {
                    file.set_len(*old_len)?;
                }
                file.write_all_at(overwritten, *offset)
            }
            Piece::SetLen { old_len, from, cut } => {
                file.set_len(*old_len)?;
                file.write_all_at(cut, *from)
            }
        }
    }
}

impl Node {
    fn new(place: Place, found: &Metadata) -> Node {
        Node {
            place,
            is_folder: found.is_dir(),
            len: found.len(),
            file: None,
            opens: 0,
            unsynced: VecDeque::new(),
            settled: 0,
        }
    }

    fn end(&self) -> u64 {
        self.settled + self.unsynced.len() as u64
    }
}

impl Backing {
    /// Of what is in `root`, all of it durable.
    pub(super) fn new(root: PathBuf, removed: PathBuf) -> Backing {
        let mut backing = Backing {
            root,
            removed,
            files: BTreeMap::new(),
            by_name: BTreeMap::new(),
            last_ino: ROOT.0,
            last_removed: 0,
            names: Vec::new(),
            names_settled: 0,
            kept_bytes: 0,
            room: None,
            has_refused: false,
            is_journaled: true,
            has_power: true,
        };
        backing.forget_all();
        backing
    }

    fn forget_all(&mut self) {
        let root = Node {
            place: Place::Root,
            is_folder: true,
            len: 0,
            file: None,
            opens: 0,
            unsynced: VecDeque::new(),
            settled: 0,
        };
        self.files = BTreeMap::from([(ROOT, root)]);
        self.by_name.clear();
        self.names_settled += self.names.len() as u64;
        self.names.clear();
        self.kept_bytes = 0;
    }

    /// Takes all that is there for durable.
    pub(super) fn begin_anew(&mut self) -> io::Result<()> {
        self.settle_names(self.names.len())?;
        self.forget_all();
        Ok(())
    }

    pub(super) fn set_journaled(&mut self, is_journaled: bool) {
        self.is_journaled = is_journaled;
    }

    /// From now on nothing becomes durable, until the power failure is over.
    pub(super) fn cut_power(&mut self) {
        self.has_power = false;
    }

    pub(super) fn set_room(&mut self, room: Option<u64>) {
        (self.room, self.has_refused) = (room, false);
    }

    pub(super) fn room(&self) -> Option<u64> {
        self.room
    }

    pub(super) fn has_refused(&self) -> bool {
        self.has_refused
    }

    /// The folder itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn node(&self, ino: Ino) -> io::Result<&Node> {
        self.files.get(&ino).ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    fn node_mut(&mut self, ino: Ino) -> io::Result<&mut Node> {
        self.files.get_mut(&ino).ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    /// Where it is below the root; `None` if it was removed.
    fn relative(&self, ino: Ino) -> io::Result<Option<PathBuf>> {
        let (mut names, mut at) = (Vec::new(), ino);
        loop {
            match &self.node(at)?.place {
                Place::Root => return Ok(Some(names.into_iter().rev().collect())),
                Place::In { folder, name } => {
                    names.push(name);
                    at = *folder;
                }
                Place::Removed(_) => return Ok(None),
            }
        }
    }

    fn relative_in(&self, folder: Ino, name: &OsStr) -> io::Result<PathBuf> {
        let folder = self.relative(folder)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(folder.join(name))
    }

    fn lies(&self, number: u64) -> PathBuf {
        self.removed.join(number.to_string())
    }

    /// Where it lies on the machine's disk.
    pub(super) fn path(&self, ino: Ino) -> io::Result<PathBuf> {
        match (self.relative(ino)?, &self.node(ino)?.place) {
            (Some(path), _) => Ok(self.root.join(path)),
            (None, Place::Removed(number)) => Ok(self.lies(*number)),
            (None, _) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn add(&mut self, folder: Ino, name: &OsStr, found: &Metadata) -> Ino {
        self.last_ino += 1;
        let ino = Ino(self.last_ino);
        self.files.insert(ino, Node::new(Place::In { folder, name: name.to_owned() }, found));
        self.by_name.insert((folder, name.to_owned()), ino);
        ino
    }

    /// What has that name in a folder.
    pub(super) fn lookup(&mut self, folder: Ino, name: &OsStr) -> io::Result<(Ino, Metadata)> {
        if let Some(ino) = self.by_name.get(&(folder, name.to_owned())).copied() {
            return Ok((ino, self.metadata(ino)?));
        }
        let found = fs::symlink_metadata(self.root.join(self.relative_in(folder, name)?))?;
        if !found.is_dir() && !found.is_file() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok((self.add(folder, name, &found), found))
    }

    pub(super) fn metadata(&self, ino: Ino) -> io::Result<Metadata> {
        match &self.node(ino)?.file {
            Some(file) => file.metadata(),
            None => fs::symlink_metadata(self.path(ino)?),
        }
    }

    /// Makes an empty file or folder.
    pub(super) fn create(
        &mut self,
        folder: Ino,
        name: &OsStr,
        mode: u32,
        is_folder: bool,
    ) -> io::Result<Ino> {
        let relative = self.relative_in(folder, name)?;
        let path = self.root.join(&relative);
        if is_folder {
            fs::create_dir(&path)?;
        } else {
            File::options().write(true).create_new(true).mode(mode).open(&path)?;
        }
        fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
        let ino = self.add(folder, name, &fs::symlink_metadata(&path)?);
        self.note(NameChange::Created { path: relative, is_folder });
        Ok(ino)
    }

    /// Puts what has a name where removed files wait.
    fn put_aside(&mut self, folder: Ino, name: &OsStr) -> io::Result<Aside> {
        let (ino, found) = self.lookup(folder, name)?;
        let number = self.last_removed + 1;
        fs::rename(self.path(ino)?, self.lies(number))?;
        self.last_removed = number;
        self.by_name.remove(&(folder, name.to_owned()));
        self.node_mut(ino)?.place = Place::Removed(number);
        self.give_back(found.len().min(found.blocks() * BLOCK_BYTES));
        Ok(Aside { ino, number })
    }

    pub(super) fn remove(&mut self, folder: Ino, name: &OsStr, is_folder: bool) -> io::Result<()> {
        let relative = self.relative_in(folder, name)?;
        self.check_removable(&relative, is_folder)?;
        let aside = self.put_aside(folder, name)?;
        self.note(NameChange::Removed { path: relative, aside });
        Ok(())
    }

    /// Whether it is what it is said to be, and empty if that is a folder.
    fn check_removable(&self, relative: &Path, is_folder: bool) -> io::Result<()> {
        let path = self.root.join(relative);
        match (fs::symlink_metadata(&path)?.is_dir(), is_folder) {
            (true, true) if fs::read_dir(&path)?.next().is_some() => {
                Err(io::ErrorKind::DirectoryNotEmpty.into())
            }
            (true, false) => Err(io::ErrorKind::IsADirectory.into()),
            (false, true) => Err(io::ErrorKind::NotADirectory.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn rename(&mut self, from: (Ino, &OsStr), to: (Ino, &OsStr)) -> io::Result<()> {
        let (ino, found) = self.lookup(from.0, from.1)?;
        let (old, new) = (self.relative_in(from.0, from.1)?, self.relative_in(to.0, to.1)?);
        if old == new {
            return Ok(());
        }
        let mut replaced = None;
        if fs::symlink_metadata(self.root.join(&new)).is_ok() {
            self.check_removable(&new, found.is_dir())?;
            let aside = self.put_aside(to.0, to.1)?;
            replaced = Some(Replaced { aside, by: ino, pieces: self.node(ino)?.end() });
        }
        fs::rename(self.root.join(&old), self.root.join(&new))?;
        self.by_name.remove(&(from.0, from.1.to_owned()));
        self.by_name.insert((to.0, to.1.to_owned()), ino);
        self.node_mut(ino)?.place = Place::In { folder: to.0, name: to.1.to_owned() };
        self.note(NameChange::Renamed { from: old, to: new, replaced });
        Ok(())
    }

    fn note(&mut self, change: NameChange) {
        self.names.push(change);
    }

    /// What is in a folder, by name.
    pub(super) fn list(&mut self, folder: Ino) -> io::Result<Vec<(Ino, bool, OsString)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.path(folder)?)? {
            let name = entry?.file_name();
            // What is no file and no folder was not made here.
            if let Ok((ino, metadata)) = self.lookup(folder, &name) {
                found.push((ino, metadata.is_dir(), name));
            }
        }
        Ok(found)
    }

    pub(super) fn open(&mut self, ino: Ino) -> io::Result<()> {
        if self.node(ino)?.file.is_none() {
            let file = File::options().read(true).write(true).open(self.path(ino)?)?;
            self.node_mut(ino)?.file = Some(Arc::new(file));
        }
        self.node_mut(ino)?.opens += 1;
        Ok(())
    }

    pub(super) fn close(&mut self, ino: Ino) -> io::Result<()> {
        let node = self.node_mut(ino)?;
        node.opens = node.opens.saturating_sub(1);
        if node.opens == 0 {
            node.file = None;
        }
        self.drop_if_gone(ino);
        Ok(())
    }

    /// Forgets a file that nobody has open and no power failure can bring back.
    fn drop_if_gone(&mut self, ino: Ino) {
        let Some(Node { place: Place::Removed(number), opens: 0, .. }) = self.files.get(&ino) else { return };
        if fs::symlink_metadata(self.lies(*number)).is_err() {
            self.settle_pieces(ino, u64::MAX);
            self.files.remove(&ino);
        }
    }

    /// What a sync is asked of on the machine's disk.
    pub(super) fn to_sync(&self, ino: Ino) -> io::Result<Arc<File>> {
        if self.node(ino)?.is_folder { Ok(Arc::new(File::open(self.path(ino)?)?)) } else { self.file(ino) }
    }

    /// The file, open or opened for the moment.
    pub(super) fn file(&self, ino: Ino) -> io::Result<Arc<File>> {
        match &self.node(ino)?.file {
            Some(file) => Ok(Arc::clone(file)),
            None => Ok(Arc::new(File::options().read(true).write(true).open(self.path(ino)?)?)),
        }
    }

    pub(super) fn read(&self, ino: Ino, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        read_up_to(&*self.file(ino)?, offset, size)
    }

    /// Writes what there is room for. Errors: there is room for none.
    pub(super) fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let (file, old_len) = (self.file(ino)?, self.node(ino)?.len);
        let end = offset + bytes.len() as u64;
        let growth = end.saturating_sub(old_len.max(offset));
        let missing = self.room.map_or(0, |room| growth.saturating_sub(room));
        self.has_refused |= missing > 0;
        let bytes = &bytes[..bytes.len() - missing as usize];
        if bytes.is_empty() && missing > 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        if let Some(room) = &mut self.room {
            *room -= growth - missing;
        }
        let overwritten =
            read_up_to(&file, offset, bytes.len().min(old_len.saturating_sub(offset) as usize))?;
        let written = file.write_all_at(bytes, offset);
        self.node_mut(ino)?.len = file.metadata()?.len();
        self.keep(ino, Piece::Write { offset, len: bytes.len() as u64, old_len, overwritten })?;
        written.map(|()| bytes.len())
    }

    pub(super) fn set_len(&mut self, ino: Ino, len: u64) -> io::Result<()> {
        let (file, old_len) = (self.file(ino)?, self.node(ino)?.len);
        let held = file.metadata()?.blocks() * BLOCK_BYTES;
        let mut cut = read_up_to(&file, len, old_len.saturating_sub(len) as usize)?;
        let zeros = cut.iter().rev().take_while(|byte| **byte == 0).count();
        cut.truncate(cut.len() - zeros);
        file.set_len(len)?;
        self.give_back(held.min(old_len.saturating_sub(len)));
        self.node_mut(ino)?.len = len;
        self.keep(ino, Piece::SetLen { old_len, from: len, cut })
    }

    fn give_back(&mut self, freed: u64) {
        if let Some(room) = &mut self.room {
            *room += freed;
        }
    }

    fn keep(&mut self, ino: Ino, piece: Piece) -> io::Result<()> {
        if !self.is_journaled {
            return Ok(());
        }
        self.kept_bytes += piece.kept_bytes();
        self.node_mut(ino)?.unsynced.push_back(piece);
        if self.kept_bytes > MAX_KEPT_BYTES {
            self.settle_pieces(ino, u64::MAX);
        }
        Ok(())
    }

    /// How far a sync reaches that begins now.
    pub(super) fn mark(&self, ino: Ino) -> io::Result<Mark> {
        let (names, names_settled) = (self.names.len(), self.names_settled);
        Ok(Mark { pieces: self.node(ino)?.end(), names, names_settled })
    }

    /// A sync that began then is over. Errors: the power went away meanwhile.
    pub(super) fn synced(&mut self, ino: Ino, mark: Mark) -> io::Result<()> {
        if !self.has_power {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.settle_pieces(ino, mark.pieces);
        let since = (self.names_settled - mark.names_settled) as usize;
        self.settle_names(mark.names.saturating_sub(since))
    }

    /// The pieces of a file before this one are durable.
    fn settle_pieces(&mut self, ino: Ino, end: u64) {
        // A file that is gone has nothing that could be durable.
        let Some(node) = self.files.get_mut(&ino) else { return };
        while node.settled < end {
            let Some(piece) = node.unsynced.pop_front() else { break };
            node.settled += 1;
            self.kept_bytes -= piece.kept_bytes();
        }
    }

    /// So many changes of names are durable.
    fn settle_names(&mut self, count: usize) -> io::Result<()> {
        self.names_settled += count as u64;
        for change in self.names.drain(..count).collect::<Vec<_>>() {
            let aside = match change {
                NameChange::Created { .. } => None,
                NameChange::Removed { aside, .. } => Some(aside),
                NameChange::Renamed { replaced, .. } => replaced.map(|replaced| {
                    self.settle_pieces(replaced.by, replaced.pieces);
                    replaced.aside
                }),
            };
            let Some(Aside { ino, number }) = aside else { continue };
            let path = self.lies(number);
            if fs::symlink_metadata(&path)?.is_dir() {
                fs::remove_dir(&path)
            } else {
                fs::remove_file(&path)
            }?;
            self.drop_if_gone(ino);
        }
        Ok(())
    }

    /// The power fails: what is drawn says how far each file and the names survive. All that is left is durable.
    pub(super) fn power_fail(&mut self, random: &mut Stream) -> io::Result<Fallen> {
        let mut fallen = Fallen::default();
        let names_kept = survivors(self.names.len(), random);
        let mut written = BTreeMap::new();
        for change in &self.names[..names_kept] {
            if let NameChange::Renamed { replaced: Some(replaced), .. } = change {
                written.insert(replaced.by, replaced.pieces);
            }
        }
        let unsynced: Vec<Ino> =
            self.files.iter().filter(|(_, node)| !node.unsynced.is_empty()).map(|(ino, _)| *ino).collect();
        for ino in unsynced {
            let (file, path) = (self.file(ino)?, self.relative(ino)?);
            let node = self.node_mut(ino)?;
            let least = written.get(&ino).map_or(0, |pieces| pieces.saturating_sub(node.settled) as usize);
            let kept = survivors(node.unsynced.len(), random).max(least);
            let lost_before = fallen.lost.writes;
            for number in (kept..node.unsynced.len()).rev() {
                let piece = &node.unsynced[number];
                // The write at the point up to which all survives may be torn, where anything survives.
                let first = match piece {
                    Piece::Write { offset, len, .. } if number == kept && kept > 0 => {
                        read_up_to(&file, *offset, random.random_range(0..=*len) as usize)?
                    }
                    _ => Vec::new(),
                };
                piece.undo(&file)?;
                if let Piece::Write { offset, len, .. } = piece {
                    file.write_all_at(&first, *offset)?;
                    fallen.lost.bytes += len - first.len() as u64;
                    fallen.lost.writes += u64::from(first.len() as u64 != *len);
                } else {
                    fallen.lost.writes += 1;
                }
            }
            if fallen.lost.writes > lost_before {
                fallen.look_at.extend(path.map(|path| (path, None)));
            }
        }
        for change in self.names.drain(names_kept..).rev().collect::<Vec<_>>() {
            fallen.lost.names += 1;
            self.undo_name(&change)?;
            let (NameChange::Created { path, .. }
            | NameChange::Removed { path, .. }
            | NameChange::Renamed { to: path, .. }) = change;
            fallen.look_at.insert(path, None);
        }
        self.settle_names(names_kept)?;
        self.forget_all();
        self.has_power = true;
        while fallen.look_at.len() > MAX_LOOKS {
            fallen.look_at.pop_last();
        }
        for (path, len) in &mut fallen.look_at {
            let found = fs::symlink_metadata(self.root.join(path)).ok();
            *len = found.map(|found| if found.is_dir() { 0 } else { found.len() });
        }
        Ok(fallen)
    }

    fn undo_name(&self, change: &NameChange) -> io::Result<()> {
        let at = |path: &PathBuf| self.root.join(path);
        match change {
            NameChange::Created { path, is_folder: true } => fs::remove_dir(at(path)),
            NameChange::Created { path, is_folder: false } => fs::remove_file(at(path)),
            NameChange::Removed { path, aside } => fs::rename(self.lies(aside.number), at(path)),
            NameChange::Renamed { from, to, replaced } => {
                fs::rename(at(to), at(from))?;
                match replaced {
                    Some(replaced) => fs::rename(self.lies(replaced.aside.number), at(to)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// How many of so many steps survive, the first ones.
fn survivors(count: usize, random: &mut Stream) -> usize {
    match random.random_range(0..4) {
        0 | 1 => 0,
        2 => random.random_range(0..=count),
        _ => count,
    }
}

/// So many bytes, or fewer where the file ends before.
fn read_up_to(file: &File, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
