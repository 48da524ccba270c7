//! A disk in memory: deterministic, forgetful when the power fails, and able to fail on demand.
//!
//! What a power failure may do to what was not synced, each piece by itself, as the caller's function decides:
//! a write is lost, torn, whole, or leaves zeros where the file had grown; a cut of a file, a new name, a rename or
//! a removal happened or not. Pieces survive in any combination, as POSIX allows and reordering disks do, but for
//! changes of names that build on each other.
//!
//! A failed [`Disk::sync`] is worse than it looks: what was dirty then never becomes durable, though later syncs
//! report success. Source: Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020. Here this
//! holds for all of the file from then on: stricter than Linux, where what is written anew is synced again.
//!
//! What it cannot show: folders renamed (refused), links, permissions, time.

use super::real::not_open;
use super::{Disk, DiskError, FileId, check_dir, check_path, parent_of};
use std::collections::{BTreeMap, BTreeSet};

/// One piece of what was not synced when the power failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsynced<'a> {
    /// A write into a file.
    Write {
        /// The file's name when it was last opened.
        path: &'a str,
        /// Where the write began.
        offset: u64,
        /// Units: bytes.
        len: usize,
    },
    /// A file cut, or extended by zeros.
    Truncate {
        /// The file's name when it was last opened.
        path: &'a str,
        /// Its length afterwards.
        len: u64,
    },
    /// A name created, replaced or removed.
    Name {
        /// The name; of a rename, the new one.
        path: &'a str,
    },
}

/// What becomes of an [`Unsynced`] piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// As if it had never happened.
    Lost,
    /// Of a write, only this many first bytes; of anything else, nothing.
    Torn(usize),
    /// Of a write, the file's new length, but zeros where it grew; of anything else, nothing.
    Zeros,
    /// As if it had been synced.
    Whole,
}

/// A disk in memory. A clone is an independent copy, open files included.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    inodes: BTreeMap<Inode, Content>,
    names: Names,
    durable_names: Names,
    pending: Vec<NameChange>,
    open: BTreeMap<FileId, Inode>,
    last_file: u64,
    last_inode: u64,
    capacity_bytes: Option<u64>,
    operations: u64,
    syncs: u64,
    fail_at: BTreeSet<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Inode(u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    Folder,
    File(Inode),
}

/// Full path to what it names; folders have entries too, the root has none.
type Names = BTreeMap<String, Entry>;

/// A change of names that happens as a whole or not at all.
#[derive(Clone, Debug)]
struct NameChange {
    /// The path that the change is about; its folder's sync makes it durable.
    path: String,
    entry: Option<Entry>,
    /// Of a rename, the name that goes away.
    from: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    path: String,
    bytes: Vec<u8>,
    /// What takes `bytes` back to what was last synced, oldest first.
    undo: Vec<Undo>,
    sync_failed: bool,
}

/// A change of a file's bytes, kept as what it overwrote: an append, which is most of what happens, costs nothing.
#[derive(Clone, Debug)]
enum Undo {
    Write { offset: usize, len: usize, old_len: usize, overwritten: Vec<u8> },
    Truncate { len: usize, old_len: usize, cut: Vec<u8> },
}

impl MemDisk {
    /// An empty disk without limits.
    pub fn new() -> MemDisk {
        MemDisk::default()
    }

    /// Limits the sum of all files' lengths, or lifts the limit. A write that does not fit writes what does and fails
    /// with [`DiskError::Full`].
    pub fn set_capacity_bytes(&mut self, capacity_bytes: Option<u64>) {
        self.capacity_bytes = capacity_bytes;
    }

    /// How many operations were asked for so far: every call of [`Disk`] but `close` and `exists`.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// How many of these made something durable: a driver that models time has them take some.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Makes the operation with this number fail and do nothing; the first one ever is number 0, the next one is
    /// [`operations`](MemDisk::operations).
    pub fn fail_operation(&mut self, operation: u64) {
        self.fail_at.insert(operation);
    }

    /// Takes back what [`fail_operation`](MemDisk::fail_operation) asked for and has not happened.
    pub fn cancel_failures(&mut self) {
        self.fail_at.clear();
    }

    /// Flips bits of a stored byte, unnoticed by anybody. Panics: the file is not there or shorter.
    pub fn flip_bits(&mut self, path: &str, offset: u64, mask: u8) {
        let inode = self.inode(path).expect("the file whose bits are to flip is there");
        let content = self.inodes.get_mut(&inode).expect("a named inode exists");
        let at = usize::try_from(offset).expect("files in memory have offsets that fit");
        content.bytes[at] ^= mask;
    }

    /// Cuts a file short, durably, as no operation does: what of it was not synced is durable as it stands. Panics: there is no
    /// such file.
    pub fn cut(&mut self, path: &str, len: u64) {
        let inode = self.inode(path).expect("the file that is to be cut is there");
        let content = self.inodes.get_mut(&inode).expect("a named inode exists");
        content.bytes.truncate(usize::try_from(len).expect("files in memory have lengths that fit"));
        content.undo.clear();
    }

    /// All files, by name, each with its length. Units: bytes.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().filter_map(|(path, entry)| match entry {
            Entry::File(inode) => Some((path.as_str(), self.inodes[inode].bytes.len() as u64)),
            Entry::Folder => None,
        })
    }

    /// What a file holds now, synced or not.
    pub fn contents(&self, path: &str) -> Option<&[u8]> {
        self.inode(path).map(|inode| self.inodes[&inode].bytes.as_slice())
    }

    /// The process that used the disk ended: its open files are closed, what it wrote stays.
    pub fn process_crash(&mut self) {
        self.open.clear();
        self.drop_unused();
    }

    /// The power failed: `keep` decides about each unsynced piece; then all open files are closed and what is left is
    /// durable.
    ///
    /// Pieces are asked about file by file in the order the files were created, each file's in the order they
    /// happened, then the names. Returns how many changes of names are lost: those that others build on are not.
    pub fn power_fail(&mut self, mut keep: impl FnMut(&Unsynced<'_>) -> Keep) -> u64 {
        self.open.clear();
        for content in self.inodes.values_mut() {
            content.power_fail(&mut keep);
        }
        let kept: Vec<bool> =
            self.pending.iter().map(|c| keep(&Unsynced::Name { path: &c.path }) == Keep::Whole).collect();
        self.make_durable(|index, _| kept[index]);
        let lost_names = self.pending.len() as u64;
        self.pending.clear();

        // What lies in a folder whose own name was lost cannot be reached any more.
        let durable = std::mem::take(&mut self.durable_names);
        for (path, entry) in durable {
            let parent = parent_of(&path);
            if parent.is_empty() || self.durable_names.get(parent) == Some(&Entry::Folder) {
                self.durable_names.insert(path, entry);
            }
        }
        self.names = self.durable_names.clone();
        self.drop_unused();
        lost_names
    }

    fn inode(&self, path: &str) -> Option<Inode> {
        match self.names.get(path) {
            Some(Entry::File(inode)) => Some(*inode),
            _ => None,
        }
    }

    fn content(&mut self, file: FileId) -> Result<&mut Content, DiskError> {
        let inode = self.open.get(&file).ok_or_else(|| not_open(file))?;
        Ok(self.inodes.get_mut(inode).expect("an open file's inode is kept"))
    }

    /// Counts an operation and fails it if that was asked for.
    fn begin(&mut self, what: &str) -> Result<(), DiskError> {
        let operation = self.operations;
        self.operations += 1;
        if self.fail_at.remove(&operation) {
            return Err(io(what, format!("injected failure of operation {operation}")));
        }
        Ok(())
    }

    /// How much more may be written; `None` if there is no limit.
    pub fn free_bytes(&self) -> Option<u64> {
        self.capacity_bytes.map(|capacity| capacity.saturating_sub(self.used_bytes()))
    }

    /// The sum of all files' lengths.
    pub fn used_bytes(&self) -> u64 {
        // A removed file frees its space at once, though a power failure could still bring it back.
        let named = self.names.values().filter_map(|entry| match entry {
            Entry::File(inode) => Some(inode),
            Entry::Folder => None,
        });
        let used: BTreeSet<&Inode> = named.chain(self.open.values()).collect();
        used.iter().map(|inode| self.inodes[inode].bytes.len() as u64).sum()
    }

    /// The part of `growth` that still fits.
    fn fitting(&self, growth: usize) -> usize {
        match self.capacity_bytes {
            None => growth,
            Some(capacity) => {
                let free = capacity.saturating_sub(self.used_bytes());
                growth.min(usize::try_from(free).unwrap_or(usize::MAX))
            }
        }
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    /// Moves changes of names from pending to durable: those selected, and the earlier ones that they build on. Returns
    /// whether a file lost its name by that, or gave it to another.
    fn make_durable(&mut self, selected: impl Fn(usize, &NameChange) -> bool) -> bool {
        let mut chosen = vec![false; self.pending.len()];
        let mut touched = BTreeSet::new();
        for (index, change) in self.pending.iter().enumerate().rev() {
            let paths = || change.from.iter().chain([&change.path]);
            // What happened before in a folder that went away or came anew goes along: its old files must not turn up
            // in a later namesake.
            let built_upon = paths().any(|path| {
                touched.iter().any(|t: &String| {
                    t == path || path.strip_prefix(t.as_str()).is_some_and(|rest| rest.starts_with('/'))
                })
            });
            if built_upon || selected(index, change) {
                chosen[index] = true;
                touched.extend(paths().cloned());
            }
        }
        let mut index = 0;
        let mut is_one_unnamed = false;
        let durable = &mut self.durable_names;
        self.pending.retain(|change| {
            let make = chosen[index];
            index += 1;
            if make {
                is_one_unnamed |= change.apply(durable);
            }
            !make
        });
        is_one_unnamed
    }

    /// Forgets files that neither a name nor an open file nor a power failure can bring back.
    fn drop_unused(&mut self) {
        let pending = self.pending.iter().filter_map(|c| c.entry.as_ref());
        let named = self.names.values().chain(self.durable_names.values()).chain(pending);
        let mut used: BTreeSet<Inode> = self.open.values().copied().collect();
        used.extend(named.filter_map(|entry| match entry {
            Entry::File(inode) => Some(*inode),
            Entry::Folder => None,
        }));
        self.inodes.retain(|inode, _| used.contains(inode));
    }
}

fn io(path: &str, message: impl Into<String>) -> DiskError {
    DiskError::Io { path: path.to_owned(), message: message.into() }
}

fn to_index(path: &str, offset: u64) -> Result<usize, DiskError> {
    usize::try_from(offset).map_err(|_| io(path, format!("offset {offset} is past what memory can hold")))
}

impl NameChange {
    /// Returns whether a name went away, or is another file's now.
    fn apply(&self, names: &mut Names) -> bool {
        let left = self.from.as_ref().and_then(|from| names.remove(from));
        let replaced = match self.entry {
            Some(entry) => names.insert(self.path.clone(), entry),
            None => names.remove(&self.path),
        };
        left.is_some() || replaced.is_some()
    }
}

impl Content {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let old_len = self.bytes.len();
        let end = offset + bytes.len();
        let overwritten = self.bytes[offset.min(old_len)..end.min(old_len)].to_vec();
        self.undo.push(Undo::Write { offset, len: bytes.len(), old_len, overwritten });
        if end > old_len {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
    }

    fn set_len(&mut self, len: usize) {
        let old_len = self.bytes.len();
        let cut = self.bytes[len.min(old_len)..].to_vec();
        self.undo.push(Undo::Truncate { len, old_len, cut });
        self.bytes.resize(len, 0);
    }

    /// Goes back to what was synced, then does again what survives.
    fn power_fail(&mut self, keep: &mut impl FnMut(&Unsynced<'_>) -> Keep) {
        let mut redo = Vec::new();
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Write { offset, len, old_len, overwritten } => {
                    redo.push(Redo::Write { offset, bytes: self.bytes[offset..offset + len].to_vec() });
                    self.bytes.truncate(old_len);
                    let start = offset.min(old_len);
                    self.bytes[start..start + overwritten.len()].copy_from_slice(&overwritten);
                }
                Undo::Truncate { len, old_len, cut } => {
                    redo.push(Redo::Truncate { len });
                    self.bytes.truncate(old_len);
                    self.bytes.extend_from_slice(&cut);
                }
            }
        }
        for piece in redo.into_iter().rev() {
            match piece {
                Redo::Write { offset, bytes } => {
                    let end = offset + bytes.len();
                    match keep(&Unsynced::Write { path: &self.path, offset: offset as u64, len: bytes.len() })
                    {
                        Keep::Lost => {}
                        Keep::Torn(first) => self.write(offset, &bytes[..first.min(bytes.len())]),
                        Keep::Zeros => self.bytes.resize(end.max(self.bytes.len()), 0),
                        Keep::Whole => self.write(offset, &bytes),
                    }
                }
                Redo::Truncate { len } => {
                    if keep(&Unsynced::Truncate { path: &self.path, len: len as u64 }) == Keep::Whole {
                        self.set_len(len);
                    }
                }
            }
        }
        self.undo.clear();
        self.sync_failed = false;
    }
}

enum Redo {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

impl Disk for MemDisk {
    fn open(&mut self, path: &str) -> Result<FileId, DiskError> {
        check_path(path)?;
        self.begin(path)?;
        for (slash, _) in path.match_indices('/') {
            let folder = &path[..slash];
            match self.names.get(folder) {
                Some(Entry::Folder) => {}
                Some(Entry::File(_)) => return Err(io(path, format!("`{folder}` is a file, not a folder"))),
                None => {
                    let entry = Some(Entry::Folder);
                    self.change_name(NameChange { path: folder.to_owned(), entry, from: None });
                }
            }
        }
        let inode = match self.names.get(path) {
            Some(Entry::File(inode)) => *inode,
            Some(Entry::Folder) => return Err(io(path, "is a folder, not a file")),
            None => {
                self.last_inode += 1;
                let inode = Inode(self.last_inode);
                self.inodes.insert(inode, Content::default());
                self.change_name(NameChange {
                    path: path.to_owned(),
                    entry: Some(Entry::File(inode)),
                    from: None,
                });
                inode
            }
        };
        path.clone_into(&mut self.inodes.get_mut(&inode).expect("a named inode exists").path);
        self.last_file += 1;
        self.open.insert(FileId(self.last_file), inode);
        Ok(FileId(self.last_file))
    }

    fn close(&mut self, file: FileId) {
        self.open.remove(&file);
    }

    fn len(&mut self, file: FileId) -> Result<u64, DiskError> {
        self.begin("length")?;
        Ok(self.content(file)?.bytes.len() as u64)
    }

    fn read_at(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> Result<(), DiskError> {
        self.begin("read")?;
        let content = self.content(file)?;
        if buf.is_empty() {
            return Ok(());
        }
        let found = usize::try_from(offset)
            .ok()
            .and_then(|start| Some(start..start.checked_add(buf.len())?))
            .and_then(|range| content.bytes.get(range));
        match found {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(DiskError::PastEnd {
                path: content.path.clone(),
                offset,
                len: buf.len(),
                size: content.bytes.len() as u64,
            }),
        }
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.begin("write")?;
        let content = self.content(file)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let path = content.path.clone();
        let len = content.bytes.len();
        let offset = to_index(&path, offset)?;
        let end = offset
            .checked_add(bytes.len())
            .ok_or_else(|| io(&path, "write ends past what memory can hold"))?;
        let growth = end.saturating_sub(len);
        let fits = self.fitting(growth);
        let content = self.content(file)?;
        if fits == growth {
            content.write(offset, bytes);
            return Ok(());
        }
        // As write(2) does: what fits is written before the disk says that it is full.
        let room = (len + fits).saturating_sub(offset).min(bytes.len());
        if room > 0 {
            content.write(offset, &bytes[..room]);
        }
        Err(DiskError::Full(path))
    }

    fn truncate(&mut self, file: FileId, len: u64) -> Result<(), DiskError> {
        self.begin("truncate")?;
        let content = self.content(file)?;
        let path = content.path.clone();
        let len = to_index(&path, len)?;
        let growth = len.saturating_sub(content.bytes.len());
        if self.fitting(growth) < growth {
            return Err(DiskError::Full(path));
        }
        self.content(file)?.set_len(len);
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        let begun = self.begin("sync");
        self.syncs += 1;
        let content = self.content(file)?;
        if begun.is_err() {
            content.sync_failed = true;
        }
        begun?;
        if !content.sync_failed {
            content.undo.clear();
        }
        Ok(())
    }

    fn sync_dir(&mut self, path: &str) -> Result<(), DiskError> {
        check_dir(path)?;
        self.begin(path)?;
        self.syncs += 1;
        if !path.is_empty() && self.names.get(path) != Some(&Entry::Folder) {
            return Err(DiskError::NotFound(path.to_owned()));
        }
        let is_one_unnamed = self.make_durable(|_, change| {
            parent_of(&change.path) == path
                || change.from.as_deref().is_some_and(|from| parent_of(from) == path)
        });
        // Not after every sync: a log in many segments makes many, and there are as many files to look through.
        if is_one_unnamed {
            self.drop_unused();
        }
        Ok(())
    }

    fn list(&mut self, path: &str) -> Result<Vec<String>, DiskError> {
        check_dir(path)?;
        self.begin(path)?;
        if self.inode(path).is_some() {
            return Err(io(path, "is a file, not a folder"));
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let below =
            self.names.range(prefix.clone()..).map_while(|(name, _)| name.strip_prefix(prefix.as_str()));
        Ok(below.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn exists(&mut self, path: &str) -> bool {
        path.is_empty() || self.names.contains_key(path)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        check_path(from)?;
        check_path(to)?;
        self.begin(from)?;
        let inode = match self.names.get(from) {
            Some(Entry::File(inode)) => *inode,
            Some(Entry::Folder) => return Err(io(from, "is a folder, and only files can be renamed")),
            None => return Err(DiskError::NotFound(from.to_owned())),
        };
        let folder = parent_of(to);
        if !folder.is_empty() && self.names.get(folder) != Some(&Entry::Folder) {
            return Err(DiskError::NotFound(from.to_owned()));
        }
        if self.names.get(to) == Some(&Entry::Folder) {
            return Err(io(to, "is a folder, not a file"));
        }
        if from != to {
            let entry = Some(Entry::File(inode));
            self.change_name(NameChange { path: to.to_owned(), entry, from: Some(from.to_owned()) });
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), DiskError> {
        check_path(path)?;
        self.begin(path)?;
        match self.names.get(path) {
            Some(Entry::File(_)) => {}
            Some(Entry::Folder) => return Err(io(path, "is a folder, not a file")),
            None => return Err(DiskError::NotFound(path.to_owned())),
        }
        self.change_name(NameChange { path: path.to_owned(), entry: None, from: None });
        Ok(())
    }

    fn remove_dir_all(&mut self, path: &str) -> Result<(), DiskError> {
        check_path(path)?;
        self.begin(path)?;
        match self.names.get(path) {
            Some(Entry::Folder) => {}
            Some(Entry::File(_)) => return Err(io(path, "is a file, not a folder")),
            None => return Ok(()),
        }
        let prefix = format!("{path}/");
        let below = self.names.range(prefix.clone()..).map(|(name, _)| name.clone());
        let mut gone: Vec<String> = below.take_while(|name| name.starts_with(&prefix)).collect();
        // Deepest first, as an implementation would: a power failure may leave any part of the work undone.
        gone.reverse();
        gone.push(path.to_owned());
        for path in gone {
            self.change_name(NameChange { path, entry: None, from: None });
        }
        Ok(())
    }
}
