//! What a node has to find again after a power failure: its term and vote, its log, its snapshot.
//!
//! ```text
//! <dir>/state                 term and vote; replaced as a whole        (hard_state.rs)
//! <dir>/snapshot              the newest snapshot; replaced as a whole  (snapshot_file.rs)
//! <dir>/log-<number>          frames of entries; only ever appended to  (segment.rs)
//! <dir>/*.tmp                 a replacement in the making; removed on start
//! ```
//!
//! Why this survives a power failure at any point:
//!
//! - `state` and `snapshot` are written beside, synced, renamed, and the folder synced: the name leads to the old bytes
//!   or to the new ones. Two slots written in turn would save a sync, but a damaged newer slot would silently bring
//!   back an older vote; here damage is an error.
//! - Synced bytes of the log are never written again. A frame may begin below the log's end: it voids what was from
//!   there on, so a conflicting suffix is replaced by one append, and no cut can tear what others were promised. At
//!   most one frame is unsynced at any time; broken bytes with nothing whole after them are that frame, and are
//!   cut. Broken bytes with a whole frame or a file after them are damage, and an error.
//! - Order: term and vote, then snapshot, then log, then removal of files that the snapshot made superfluous, oldest
//!   first. A crash in between leaves a term without the entries (nobody was told yet), or a snapshot beside a log
//!   that it does not fit (the log is void then: thesis 5.3), or superfluous files, removed next time.
//! - What the last life wrote without syncing it, or failed to sync, reads back from the operating system's cache as if
//!   it were durable. So opening writes the newest log file anew before anything in it counts.
//!   Source: Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020.
//!
//! - A last frame that is whole but for one bit was durable and has rotted: that is damage too, for its entries may be
//!   committed because this node has them.
//!
//! What it cannot see: more bits than one that flipped in the last frame (taken for a torn write); lost files of the log's
//! end. Source: Alagappan et al., "Protocol-Aware Recovery for Consensus-Based Storage", FAST 2018, which tells them apart.

mod hard_state;
mod segment;
mod snapshot_file;

use crate::log::Log;
use crate::types::{Entry, Index, NodeId, Snapshot, Term};
use riprap_env::{Disk, DiskError, FileId};
use segment::Frame;
use thiserror::Error;

pub(crate) use hard_state::HardState;

/// How names of files end that may be half written.
const TMP: &str = ".tmp";

/// Most bytes of payload in one frame; more than that becomes several frames, each synced before the next.
const MAX_FRAME_BYTES: usize = 16 << 20;

/// Why a node cannot start from what it finds.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
pub enum OpenError {
    /// The configuration cannot work.
    #[error("raft configuration: {0}")]
    Config(String),
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The folder belongs to another node: going on would let one node vote twice.
    #[error("{path}: belongs to node {found}, this is node {expected}")]
    WrongNode {
        /// The file that says so.
        path: String,
        /// Whose it is.
        found: NodeId,
        /// Who opened it.
        expected: NodeId,
    },
    /// Bytes that were synced are not what they were. The node has forgotten promises and must not take part.
    #[error("{path}: corrupt at byte {offset}: {what}")]
    Corrupt {
        /// The file.
        path: String,
        /// Where.
        offset: u64,
        /// What is there, and what would have been right.
        what: String,
    },
}

impl OpenError {
    fn corrupt(path: &str, offset: usize, what: impl Into<String>) -> OpenError {
        OpenError::Corrupt { path: path.to_owned(), offset: offset as u64, what: what.into() }
    }
}

/// Proof that all of a node's state was durable at one moment. Only [`Storage::persist`] makes it, after its last sync.
#[derive(Debug)]
pub(crate) struct Persisted {
    hard: HardState,
    last_index: Index,
}

impl Persisted {
    /// The durable term and vote.
    pub(crate) fn hard_state(&self) -> HardState {
        self.hard
    }

    /// The durable log's last entry.
    pub(crate) fn last_index(&self) -> Index {
        self.last_index
    }
}

/// What was found on disk.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) hard: HardState,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) log: Log,
    /// Bytes of a torn write that were cut.
    pub(crate) cut_bytes: usize,
}

/// A log file that is not written to any more, or the one that is.
#[derive(Debug)]
struct Segment {
    number: u64,
    /// The highest index of any of its frames, voided ones included.
    max_index: Index,
    /// Units: bytes.
    len: u64,
}

/// The files of one node.
#[derive(Debug)]
pub(crate) struct Storage {
    dir: String,
    id: NodeId,
    segment_bytes: u64,
    saved: HardState,
    /// Oldest first; the last one is written to.
    segments: Vec<Segment>,
    /// The last segment, once this life has written to it.
    active: Option<FileId>,
    /// Whether the names of `dir` and of the folders above it are known to be durable.
    dir_is_durable: bool,
}

impl Storage {
    /// Reads what the last life left, and makes sure that all of it is durable.
    pub(crate) fn open(
        disk: &mut dyn Disk,
        dir: &str,
        id: NodeId,
        segment_bytes: u64,
    ) -> Result<(Storage, Recovered), OpenError> {
        let mut storage = Storage {
            dir: dir.to_owned(),
            id,
            segment_bytes,
            saved: HardState::default(),
            segments: Vec::new(),
            active: None,
            dir_is_durable: false,
        };
        let names = disk.list(dir)?;
        for name in names.iter().filter(|name| name.ends_with(TMP)) {
            disk.remove(&storage.path(name))?;
        }
        if disk.exists(dir) {
            disk.sync_dir(dir)?;
            storage.make_dir_durable(disk)?;
        }
        let hard = hard_state::load(disk, &storage.path(hard_state::NAME), id)?.unwrap_or_default();
        storage.saved = hard;
        let snapshot = snapshot_file::load(disk, &storage.path(snapshot_file::NAME))?;
        let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_of(name)).collect();
        let (replayed, cut_bytes) = storage.replay(disk, &numbers)?;
        let log = storage.join(replayed, snapshot.as_ref())?;

        let newest = log.last_term().max(log.base_term());
        if newest > hard.term {
            // The term is made durable before any entry of it: the file was lost, or is an old one.
            let what = format!("term {}, but the log has entries of term {newest}", hard.term);
            return Err(OpenError::corrupt(&storage.path(hard_state::NAME), 0, what));
        }
        Ok((storage, Recovered { hard, snapshot, log, cut_bytes }))
    }

    /// Makes everything durable, in the order that the module's doc explains. After an error nothing is known about
    /// what is durable: the node must end.
    pub(crate) fn persist(
        &mut self,
        disk: &mut dyn Disk,
        hard: HardState,
        new_snapshot: Option<&Snapshot>,
        log: &mut Log,
    ) -> Result<Persisted, DiskError> {
        if hard != self.saved {
            let bytes = hard_state::encode(hard, self.id);
            self.replace(disk, hard_state::NAME, &bytes)?;
            self.saved = hard;
        }
        if let Some(snapshot) = new_snapshot {
            self.replace(disk, snapshot_file::NAME, &snapshot_file::encode(snapshot))?;
        }
        if log.is_unstable() {
            self.append(disk, log)?;
        }
        if let Some(snapshot) = new_snapshot {
            self.remove_superfluous(disk, snapshot.index)?;
        }
        Ok(Persisted { hard, last_index: log.last_index() })
    }

    /// The term and vote on disk.
    pub(crate) fn saved(&self) -> HardState {
        self.saved
    }

    /// The size of the log's files. Units: bytes.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.len).sum()
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// Replaces a file as a whole.
    fn replace(&mut self, disk: &mut dyn Disk, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let (path, tmp) = (self.path(name), self.path(&format!("{name}{TMP}")));
        // It is not there: a start removes what the last life left, and a life ends with its first error.
        let file = disk.open(&tmp)?;
        disk.write_at(file, 0, bytes)?;
        disk.sync(file)?;
        disk.close(file);
        disk.rename(&tmp, &path)?;
        disk.sync_dir(&self.dir)?;
        self.make_dir_durable(disk)
    }

    /// Syncs the folders above `dir`, once in a life: it may have been created by this life or by the last one.
    fn make_dir_durable(&mut self, disk: &mut dyn Disk) -> Result<(), DiskError> {
        if self.dir_is_durable {
            return Ok(());
        }
        let mut path = self.dir.as_str();
        while let Some((parent, _)) = path.rsplit_once('/') {
            disk.sync_dir(parent)?;
            path = parent;
        }
        disk.sync_dir("")?;
        self.dir_is_durable = true;
        Ok(())
    }

    fn append(&mut self, disk: &mut dyn Disk, log: &mut Log) -> Result<(), DiskError> {
        let mut new_segment = false;
        if log.needs_reset() {
            new_segment = true;
            for segment in &mut self.segments {
                segment.max_index = Index(0);
            }
        }
        loop {
            let (prev_index, prev_term) = log.before_unstable();
            let entries = log.message_range(prev_index.next(), usize::MAX, MAX_FRAME_BYTES);
            let upto = Index(prev_index.0 + entries.len() as u64);
            let full = self.segments.last().is_none_or(|s| s.len >= self.segment_bytes);
            if new_segment || full {
                self.start_segment(disk);
            }
            self.write_frame(disk, prev_index, prev_term, log.needs_reset(), entries)?;
            log.mark_stable(upto);
            new_segment = false;
            if upto == log.last_index() {
                return Ok(());
            }
        }
    }

    fn start_segment(&mut self, disk: &mut dyn Disk) {
        if let Some(file) = self.active.take() {
            disk.close(file);
        }
        let number = self.segments.last().map_or(1, |s| s.number + 1);
        self.segments.push(Segment { number, max_index: Index(0), len: 0 });
    }

    /// Appends one frame and syncs it.
    fn write_frame(
        &mut self,
        disk: &mut dyn Disk,
        prev_index: Index,
        prev_term: Term,
        reset: bool,
        entries: &[Entry],
    ) -> Result<(), DiskError> {
        let segment = self.segments.last_mut().expect("a segment was started");
        let is_new = segment.len == 0;
        let file = match self.active {
            Some(file) => file,
            None => disk.open(&format!("{}/{}", self.dir, segment::name_of(segment.number)))?,
        };
        self.active = Some(file);
        let frame = Frame { prev_index, prev_term, reset, entries };
        let bytes = frame.encode(segment.number, segment.len);
        disk.write_at(file, segment.len, &bytes)?;
        disk.sync(file)?;
        segment.len += bytes.len() as u64;
        segment.max_index = segment.max_index.max(Index(prev_index.0 + entries.len() as u64));
        if is_new {
            disk.sync_dir(&self.dir)?;
            self.make_dir_durable(disk)?;
        }
        Ok(())
    }

    /// Removes the log files that hold nothing above `index`: oldest first, each removal made durable before the
    /// next, so that the files that are there never have a gap.
    fn remove_superfluous(&mut self, disk: &mut dyn Disk, index: Index) -> Result<(), DiskError> {
        while self.segments.len() > 1 && self.segments[0].max_index <= index {
            let segment = self.segments.remove(0);
            disk.remove(&self.path(&segment::name_of(segment.number)))?;
            disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// Reads all log files; writes the newest one anew. Returns the log and how many bytes were cut.
    fn replay(
        &mut self,
        disk: &mut dyn Disk,
        numbers: &[u64],
    ) -> Result<(Option<Replayed>, usize), OpenError> {
        let mut log: Option<Replayed> = None;
        let mut cut_bytes = 0;
        for (at, &number) in numbers.iter().enumerate() {
            let name = segment::name_of(number);
            let path = self.path(&name);
            if at > 0 && numbers[at - 1] + 1 != number {
                let what = format!("the file before it is {}", segment::name_of(numbers[at - 1]));
                return Err(OpenError::corrupt(&path, 0, what));
            }
            let bytes = read_file(disk, &path)?;
            let mut max_index = Index(0);
            let mut offset = 0;
            while let Some((frame, end)) = segment::parse(&bytes, offset, number) {
                max_index = max_index.max(Index(frame.prev_index.0 + frame.entries.len() as u64));
                match &mut log {
                    None => log = Some(Replayed::starting_with(frame)),
                    Some(log) => log.apply(frame).map_err(|what| OpenError::corrupt(&path, offset, what))?,
                }
                offset = end;
            }
            let is_newest = at + 1 == numbers.len();
            if offset < bytes.len() && (!is_newest || segment::has_frame_after(&bytes, offset, number)) {
                let what = "no whole frame, though the log goes on after it";
                return Err(OpenError::corrupt(&path, offset, what));
            }
            if segment::has_rotted(&bytes, offset) {
                return Err(OpenError::corrupt(&path, offset, "a whole frame but for one bit"));
            }
            if is_newest {
                cut_bytes = bytes.len() - offset;
                self.replace(disk, &name, &bytes[..offset])?;
            }
            self.segments.push(Segment { number, max_index, len: offset as u64 });
        }
        Ok((log, cut_bytes))
    }

    /// The log after the snapshot.
    fn join(&self, replayed: Option<Replayed>, snapshot: Option<&Snapshot>) -> Result<Log, OpenError> {
        let (index, term) = snapshot.map_or((Index(0), Term(0)), |s| (s.index, s.term));
        let Some(mut replayed) = replayed else { return Ok(Log::stable(index, term, Vec::new())) };
        if replayed.base_index > index {
            let what =
                format!("log begins after entry {}, the snapshot ends at {index}", replayed.base_index);
            let first = self.segments.first().map_or(1, |s| s.number);
            return Err(OpenError::corrupt(&self.path(&segment::name_of(first)), 0, what));
        }
        if replayed.term_at(index) == Some(term) {
            replayed.entries.drain(..(index.0 - replayed.base_index.0) as usize);
            return Ok(Log::stable(index, term, replayed.entries));
        }
        // A snapshot from the leader was saved, and then the power failed before the log started anew after it.
        let mut log = Log::stable(index, term, Vec::new());
        log.reset(index, term);
        Ok(log)
    }
}

/// The log as its frames tell it.
#[derive(Debug)]
struct Replayed {
    base_index: Index,
    base_term: Term,
    entries: Vec<Entry>,
}

impl Replayed {
    fn starting_with(frame: Frame<Vec<Entry>>) -> Replayed {
        Replayed { base_index: frame.prev_index, base_term: frame.prev_term, entries: frame.entries }
    }

    fn term_at(&self, index: Index) -> Option<Term> {
        match index.0.checked_sub(self.base_index.0)? {
            0 => Some(self.base_term),
            n => self.entries.get(usize::try_from(n).ok()? - 1).map(|e| e.term),
        }
    }

    /// Takes in the next frame; or says why it cannot follow.
    fn apply(&mut self, frame: Frame<Vec<Entry>>) -> Result<(), String> {
        // A frame below the base voids entries whose beginning was in files that are gone by now: what is before it is
        // in the snapshot, or else the gap will show.
        if frame.reset || frame.prev_index < self.base_index {
            *self = Replayed::starting_with(frame);
            return Ok(());
        }
        match self.term_at(frame.prev_index) {
            Some(term) if term == frame.prev_term => {
                self.entries.truncate((frame.prev_index.0 - self.base_index.0) as usize);
                self.entries.extend(frame.entries);
                Ok(())
            }
            Some(term) => Err(format!(
                "frame follows entry {} of term {}, which has term {term}",
                frame.prev_index, frame.prev_term
            )),
            None => Err(format!("frame follows entry {}, which is not there", frame.prev_index)),
        }
    }
}

/// All of a file. Errors: [`DiskError::NotFound`].
fn read_file(disk: &mut dyn Disk, path: &str) -> Result<Vec<u8>, DiskError> {
    if !disk.exists(path) {
        return Err(DiskError::NotFound(path.to_owned()));
    }
    let file = disk.open(path)?;
    let len = disk.len(file)?;
    let mut bytes = vec![0; usize::try_from(len).expect("files that this module wrote fit memory")];
    disk.read_at(file, 0, &mut bytes)?;
    disk.close(file);
    Ok(bytes)
}
