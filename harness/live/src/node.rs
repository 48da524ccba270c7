//! One node of a real cluster, as whoever is on its machine sees it: its process, its disk, and what became of them.

use crate::clock::NodeClock;
use crate::disk::{Disk, DiskError};
use crate::files::{self, Snapshot};
use crate::sandbox::{NodeProcess, ProcessError, ProcessState};
use riprap_core::Seed;
use riprap_core::cluster::{ClusterError, CutFile, FlippedBit, Lost, NodeId, NodeState, Turn, draw_cut};
use riprap_core::system::NodeCommand;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a node gets to end in order when the run is over.
const STOP_WAIT: Duration = Duration::from_secs(3);
/// How long a node gets to end in order while the run goes on: time to hand over what it leads.
const RESTART_WAIT: Duration = Duration::from_secs(15);
/// Between a process' last sign of life and its status: a moment, on a machine with much else to do a longer one.
const BURY_WAIT: Duration = Duration::from_secs(2);
/// How long a process that could not write gets to end of it, before there is room again. A process that does not end of
/// that goes on.
const GIVE_UP_WAIT: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Node {
    id: NodeId,
    data_dir: PathBuf,
    process: Option<NodeProcess>,
    /// Its disk, where it has one of its own.
    disk: Option<Disk>,
    /// Its clock, where it has one of its own.
    pub(crate) clock: Option<NodeClock>,
    /// Whether it starts as another version than at first.
    pub(crate) is_upgraded: bool,
    /// How it was told to be down.
    killed: Option<&'static str>,
    /// Whether its disk has been full in its process' life: to end of that is no crash.
    was_full: bool,
    /// Whether its disk is not what it wrote: not to go on with that is no crash either.
    has_rotted: bool,
    /// What it needed before it was started for the first time, which is all that a new disk has.
    prepared: Snapshot,
    /// How a process ended that nobody had told to.
    ended_by_itself: Vec<String>,
}

impl Node {
    /// A node that keeps its data there, and was never started.
    pub(crate) fn new(id: NodeId, data_dir: PathBuf) -> Node {
        Node {
            id,
            data_dir,
            process: None,
            disk: None,
            clock: None,
            is_upgraded: false,
            killed: None,
            was_full: false,
            has_rotted: false,
            prepared: Snapshot::new(),
            ended_by_itself: Vec::new(),
        }
    }

    /// Takes note of what is in its folder before it starts for the first time, and gives it a disk that does as it is told if
    /// it is to have one; of what that loses, the run's seed decides.
    pub(crate) fn furnish(&mut self, has_disk: bool, seed: u64) -> Result<(), ClusterError> {
        self.prepared = files::snapshot(&self.data_dir).map_err(|e| unreadable(&self.data_dir, &e))?;
        if has_disk {
            let removed = self.data_dir.with_file_name("removed");
            let random = Seed(seed).stream(&self.id.to_string(), "power");
            self.disk = Some(Disk::mount(self.data_dir.clone(), removed, random).map_err(disk_error)?);
        }
        Ok(())
    }

    /// Starts its process, unless it has one.
    pub(crate) fn start(
        &mut self,
        spawn: impl FnOnce() -> Result<NodeProcess, ProcessError>,
    ) -> Result<(), ClusterError> {
        self.notice_end();
        if self.process.is_some() {
            return Ok(());
        }
        let process = spawn().map_err(process_error)?;
        self.let_disk_go(false);
        self.process = Some(process);
        self.killed = None;
        self.was_full = self.disk.as_ref().is_some_and(Disk::is_limited);
        Ok(())
    }

    /// Ends its process in order and starts it again; one that does not run is left as it is.
    pub(crate) fn restart(
        &mut self,
        spawn: impl FnOnce() -> Result<NodeProcess, ProcessError>,
    ) -> Result<Turn, ClusterError> {
        self.notice_end();
        let passed_over = |was: &str| Ok(Turn::PassedOver { was: was.to_owned() });
        let mut process = match self.process.take() {
            None => return passed_over("down"),
            Some(process) if process.state() == ProcessState::Paused => {
                self.process = Some(process);
                return passed_over("paused");
            }
            Some(process) => process,
        };
        self.let_disk_go(true);
        let was_pid = process.pid();
        let ended = process.terminate(RESTART_WAIT).map_err(process_error)?;
        let how = if ended.forced { " (killed: it did not heed)" } else { "" };
        self.start(spawn)?;
        let pid = self.process.as_ref().expect("just started").pid();
        let ended = format!("{}{how}", ended.status);
        Ok(Turn::Restarted { was_pid, ended, pid, runs: None, serves_after_ms: None })
    }

    /// Adds to what a turn tells that the node runs as this version, if the operating system says that its process was started
    /// as that.
    pub(crate) fn tell_version(
        &self,
        mut turn: Turn,
        version: &str,
        command: &NodeCommand,
    ) -> Result<Turn, ClusterError> {
        if let (Turn::Restarted { runs, .. }, Some(process)) = (&mut turn, &self.process) {
            let words = process.words().map_err(process_error)?;
            let program = command.program.display().to_string();
            let is_new = [program].iter().chain(&command.args).all(|word| words.contains(word));
            *runs = is_new.then(|| version.to_owned());
        }
        Ok(turn)
    }

    /// Ends its process at once.
    pub(crate) fn kill(&mut self) -> Result<(), ClusterError> {
        self.end("killed")
    }

    fn end(&mut self, how: &'static str) -> Result<(), ClusterError> {
        self.notice_end();
        self.killed = Some(how);
        self.let_disk_go(true);
        let Some(process) = &mut self.process else { return Ok(()) };
        process.kill().map(drop).map_err(process_error)
    }

    /// Stops its process in its tracks.
    pub(crate) fn pause(&mut self) -> Result<(), ClusterError> {
        // A thread that waits for its disk does not stop.
        self.let_disk_go(true);
        let paused = self.with_process(NodeProcess::pause);
        self.let_disk_go(false);
        paused
    }

    /// Lets its paused process go on.
    pub(crate) fn resume(&mut self) -> Result<(), ClusterError> {
        self.with_process(NodeProcess::resume)
    }

    /// What its process is doing.
    pub(crate) fn state(&mut self) -> Result<NodeState, ClusterError> {
        let Some(process) = &mut self.process else {
            let how = self.killed.or_else(|| self.was_full.then_some("ended, its disk is full"));
            let how = how.or_else(|| self.has_rotted.then_some("ended, its disk has rotted"));
            let how = how.or_else(|| self.ended_by_itself.last().map(String::as_str));
            return Ok(NodeState::Down(how.unwrap_or("never started").to_owned()));
        };
        Ok(match process.state() {
            ProcessState::Alive => NodeState::Running,
            ProcessState::Paused => NodeState::Paused,
            ProcessState::Gone => {
                let status = process.wait(BURY_WAIT).map_err(process_error)?;
                // What cannot be seen is not proved to be gone: a kill would count as one that took effect.
                let status = status.ok_or_else(|| {
                    ClusterError(format!(
                        "{} cannot be seen in /proc, and has not ended either: too many open files?",
                        self.id
                    ))
                })?;
                self.notice_end();
                NodeState::Down(status.to_string())
            }
        })
    }

    /// How its processes ended that nobody had told to.
    pub(crate) fn ended_by_itself(&mut self) -> Vec<String> {
        self.notice_end();
        self.ended_by_itself.clone()
    }

    /// Ends it in order, by force where it does not heed, and takes its disk from it.
    pub(crate) fn stop(&mut self) -> Result<(), ClusterError> {
        self.notice_end();
        self.let_disk_go(true);
        if let Some(mut process) = self.process.take() {
            process.terminate(STOP_WAIT).map_err(process_error)?;
        }
        if let Some(mut its) = self.disk.take() {
            its.unmount().map_err(disk_error)?;
        }
        Ok(())
    }

    /// Ends its process in order, by force where it does not heed: it is to run no more.
    pub(crate) fn retire(&mut self) -> Result<(), ClusterError> {
        self.notice_end();
        self.killed = Some("ended in order");
        self.let_disk_go(true);
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.terminate(RESTART_WAIT).map(drop).map_err(process_error)
    }

    /// Flips a bit of what its disk holds; what is drawn says which. `None`: it holds nothing.
    pub(crate) fn flip_bit(&mut self, draw: u64) -> Result<Option<FlippedBit>, ClusterError> {
        let runs = self.state()? == NodeState::Running;
        if runs {
            // What it writes meanwhile could be taken back by the byte that is written.
            self.pause()?;
        }
        let flipped = self.flip_bit_of_files(draw).map_err(|e| unreadable(&self.data_dir, &e));
        if runs {
            self.resume()?;
        }
        flipped
    }

    fn flip_bit_of_files(&mut self, draw: u64) -> io::Result<Option<FlippedBit>> {
        let held = files::holding(&self.data_dir, &self.prepared)?;
        let count = held.len() as u64;
        let Some((path, len)) = draw.checked_rem(count).and_then(|n| held.into_iter().nth(n as usize)) else {
            return Ok(None);
        };
        let bit = (draw / count) % (len * 8);
        let (offset, mask) = (bit / 8, 1 << (bit % 8));
        let flip = || files::flip(&self.data_dir.join(&path), offset, mask);
        let (was, is) = self.disk.as_ref().map_or_else(flip, |disk| disk.durably(flip))?;
        self.has_rotted = true;
        Ok(Some(FlippedBit { path: path.display().to_string(), offset, was, is }))
    }

    /// Cuts off the tail of a file that its disk holds; what is drawn says which file and how much. `None`: it holds nothing.
    pub(crate) fn cut_tail(&mut self, draw: u64) -> Result<Option<CutFile>, ClusterError> {
        self.cut_tail_of_files(draw).map_err(|e| unreadable(&self.data_dir, &e))
    }

    fn cut_tail_of_files(&mut self, draw: u64) -> io::Result<Option<CutFile>> {
        let held = files::holding(&self.data_dir, &self.prepared)?;
        let lengths: Vec<u64> = held.iter().map(|(_, len)| *len).collect();
        let Some((number, len)) = draw_cut(&lengths, draw) else { return Ok(None) };
        let (path, was_bytes) = &held[number];
        let cut = || files::cut(&self.data_dir.join(path), len);
        let is_bytes = self.disk.as_ref().map_or_else(cut, |disk| disk.durably(cut))?;
        self.has_rotted = true;
        Ok(Some(CutFile { path: path.display().to_string(), was_bytes: *was_bytes, is_bytes }))
    }

    /// How far its clock is off for its process, or for the next. Units: milliseconds.
    pub(crate) fn clock_offset_ms(&mut self) -> Result<i64, ClusterError> {
        self.notice_end();
        self.clock.as_ref().ok_or_else(|| no_clock(self.id))?.read(self.process.as_ref())
    }

    /// Sets its clock. Units: milliseconds.
    pub(crate) fn set_clock_offset_ms(&mut self, offset_ms: i64) -> Result<(), ClusterError> {
        self.clock.as_mut().ok_or_else(|| no_clock(self.id))?.set(offset_ms)
    }

    /// Has its clock go off and back in turn. Units: milliseconds.
    pub(crate) fn strobe_clock(&mut self, offset_ms: i64, every_ms: u64) -> Result<(), ClusterError> {
        self.clock
            .as_mut()
            .ok_or_else(|| no_clock(self.id))?
            .strobe(offset_ms, Duration::from_millis(every_ms))
    }

    /// How far off its clock is in turn for its process, or for the next. Units: milliseconds.
    pub(crate) fn clock_offsets_seen_ms(&mut self) -> Result<BTreeSet<i64>, ClusterError> {
        self.notice_end();
        self.clock.as_ref().ok_or_else(|| no_clock(self.id))?.seen_in_turn(self.process.as_ref())
    }

    /// Whether bits have flipped on its disk, or are gone.
    pub(crate) fn has_rotted(&self) -> bool {
        self.has_rotted
    }

    /// Gives it an empty disk; its process ends at once.
    pub(crate) fn replace_disk(&mut self) -> Result<(), ClusterError> {
        self.kill()?;
        let replace = || files::restore(&self.data_dir, &self.prepared);
        let replaced = match &mut self.disk {
            Some(disk) => disk.change_beneath(replace).map_err(disk_error)?,
            None => replace(),
        };
        replaced.map_err(|e| unreadable(&self.data_dir, &e))?;
        self.has_rotted = false;
        Ok(())
    }

    /// Its machine loses its power.
    pub(crate) fn power_fail(&mut self) -> Result<Lost, ClusterError> {
        self.notice_end();
        self.killed = Some("without power");
        self.disk()?.cut_power();
        self.end("without power")?;
        let id = self.id;
        self.disk.as_mut().ok_or_else(|| no_disk(id))?.power_fail().map_err(disk_error)
    }

    /// How many times as long as a whole disk's its syncs take.
    pub(crate) fn slowness(&self) -> Result<u64, ClusterError> {
        Ok(self.disk()?.slowness())
    }

    /// Makes its syncs take so many times as long.
    pub(crate) fn slow_down(&self, factor: u64) -> Result<(), ClusterError> {
        self.disk()?.set_slowness(factor);
        Ok(())
    }

    /// How much more its disk takes; `None` if nobody has limited it. Units: bytes.
    pub(crate) fn room(&self) -> Result<Option<u64>, ClusterError> {
        self.disk.as_ref().map_or(Ok(None), Disk::room).map_err(disk_error)
    }

    /// Leaves so much room on its disk, or lifts the limit. Units: bytes.
    pub(crate) fn set_room(&mut self, room: Option<u64>) -> Result<(), ClusterError> {
        let Some(disk) = &self.disk else {
            return if room.is_none() { Ok(()) } else { Err(no_disk(self.id)) };
        };
        if let (None, true, Some(process)) = (room, disk.has_refused(), &mut self.process) {
            // Were it to end after it is seen to run, nobody would start it again.
            process.wait(GIVE_UP_WAIT).map_err(process_error)?;
        }
        disk.set_room(room);
        self.was_full |= room.is_some();
        Ok(())
    }

    fn disk(&self) -> Result<&Disk, ClusterError> {
        self.disk.as_ref().ok_or_else(|| no_disk(self.id))
    }

    /// Whether syncs of its disk go on without waiting.
    fn let_disk_go(&self, yes: bool) {
        if let Some(disk) = &self.disk {
            disk.let_go(yes);
        }
    }

    fn with_process<T>(
        &mut self,
        act: impl FnOnce(&mut NodeProcess) -> Result<T, ProcessError>,
    ) -> Result<T, ClusterError> {
        let process =
            self.process.as_mut().ok_or_else(|| ClusterError(format!("{} has no process", self.id)))?;
        act(process).map_err(process_error)
    }

    /// Takes note of a process that has ended without being told to.
    fn notice_end(&mut self) {
        let Some(process) = &mut self.process else { return };
        if let Ok(Some(status)) = process.has_exited() {
            if self.killed.is_none() && !self.was_full && !self.has_rotted {
                self.ended_by_itself.push(status.to_string());
            }
            self.process = None;
        }
    }
}

fn process_error(error: ProcessError) -> ClusterError {
    ClusterError(error.to_string())
}

fn disk_error(error: DiskError) -> ClusterError {
    ClusterError(error.to_string())
}

fn no_clock(id: NodeId) -> ClusterError {
    ClusterError(format!("{id} has no clock of its own"))
}

fn no_disk(id: NodeId) -> ClusterError {
    ClusterError(format!("{id} has no disk of its own"))
}

fn unreadable(folder: &Path, error: &io::Error) -> ClusterError {
    ClusterError(format!("failed to read or change {}: {error}", folder.display()))
}
