//! A cluster whose members change while the run goes on.
//!
//! An administrator takes as long as the system does: partitions are copied, and other faults are at work. So a thread sees to
//! a change, until it is done, or another is asked for; whoever asks need not wait.

use riprap_core::cluster::{ClusterError, MemberChange, NodeId};
use riprap_core::system::Overseer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long it is waited for a node to join and take over what it is to.
const JOIN_WAIT: Duration = Duration::from_secs(5);
/// Between two looks whether a change is done.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A cluster that an administrator can work at.
pub(crate) trait Administered: Send + Sync {
    /// Carries out a change, until it is done or over.
    fn administer(&self, change: MemberChange, overseer: &mut dyn Overseer);

    /// Ends a node's process in order.
    fn end_node(&self, node: NodeId) -> Result<(), ClusterError>;
}

/// The changes of a cluster's members, of which one is under way at most.
#[derive(Default)]
pub(crate) struct Members {
    last: Mutex<Option<Change>>,
}

struct Change {
    is_over: Arc<AtomicBool>,
    told: Arc<Mutex<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Members {
    /// Begins a change; the one before goes no further. Waits for a node to have joined, for whoever asked to see what came of it,
    /// but not for long: with other faults at work that may take any time.
    pub(crate) fn change(
        &self,
        change: MemberChange,
        cluster: Arc<dyn Administered>,
    ) -> Result<(), ClusterError> {
        self.end()?;
        let (is_over, told) = (Arc::<AtomicBool>::default(), Arc::<Mutex<String>>::default());
        let mut watch =
            Watch { cluster: Arc::clone(&cluster), is_over: Arc::clone(&is_over), told: Arc::clone(&told) };
        let thread = std::thread::Builder::new()
            .name("members".to_owned())
            .spawn(move || cluster.administer(change, &mut watch))
            .map_err(|e| ClusterError(format!("failed to start a thread that changes members: {e}")))?;
        *self.lock() = Some(Change { is_over, told, thread: Some(thread) });
        if let MemberChange::Join { .. } = change {
            let began = Instant::now();
            while began.elapsed() < JOIN_WAIT && self.settled().is_err() {
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// Goes no further with the change that is under way; how far it came is still told. Waits for the question that its
    /// administrator has just asked.
    pub(crate) fn end(&self) -> Result<(), ClusterError> {
        let mut last = self.lock();
        let Some(change) = last.as_mut() else { return Ok(()) };
        change.is_over.store(true, Ordering::Relaxed);
        let ended = change.thread.take().map_or(Ok(()), JoinHandle::join);
        ended.map_err(|_| ClusterError("the thread that changes members panicked".to_owned()))
    }

    /// How far the last change is, in words; empty if there was none.
    pub(crate) fn told(&self) -> String {
        self.lock().as_ref().map(Change::told).unwrap_or_default()
    }

    /// Whether nothing is left to do. Errors: how far the change is.
    pub(crate) fn settled(&self) -> Result<(), String> {
        let last = self.lock();
        let under_way = |change: &&Change| change.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        last.as_ref().filter(under_way).map_or(Ok(()), |change| Err(change.told()))
    }

    /// Waits until nothing is left to do. Errors: how far the change is, when time is over or `stop` says so.
    pub(crate) fn await_settled(
        &self,
        limit: Duration,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(), String> {
        let began = Instant::now();
        while let Err(how_far) = self.settled() {
            if began.elapsed() >= limit {
                return Err(format!("not within {limit:?}: of a change of its members, {how_far}"));
            }
            if stop() {
                return Err(format!("interrupted: of a change of its members, {how_far}"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Change>> {
        self.last.lock().expect("no holder panics")
    }
}

impl Change {
    fn told(&self) -> String {
        self.told.lock().expect("no holder panics").clone()
    }
}

/// What the administrator's thread has of the cluster.
struct Watch {
    cluster: Arc<dyn Administered>,
    is_over: Arc<AtomicBool>,
    told: Arc<Mutex<String>>,
}

impl Overseer for Watch {
    fn tell(&mut self, how_far: String) {
        *self.told.lock().expect("no holder panics") = how_far;
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn end_node(&mut self, node: NodeId) -> Result<(), ClusterError> {
        self.cluster.end_node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An administrator who is done at once, but for n9, which is on its way out until that is over.
    #[derive(Default)]
    struct Office {
        ended: Mutex<Vec<NodeId>>,
    }

    impl Administered for Office {
        fn administer(&self, change: MemberChange, overseer: &mut dyn Overseer) {
            match change {
                MemberChange::Join { node, .. } => overseer.tell(format!("{node} has joined")),
                MemberChange::Leave { node: NodeId(9) } => {
                    overseer.tell("n9 is to leave".to_owned());
                    while !overseer.is_over() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                MemberChange::Leave { node } => {
                    overseer.end_node(node).expect("it can");
                    overseer.tell(format!("{node} has left"));
                }
            }
        }

        fn end_node(&self, node: NodeId) -> Result<(), ClusterError> {
            self.ended.lock().expect("no holder panics").push(node);
            Ok(())
        }
    }

    #[test]
    fn one_change_ends_where_the_next_begins() {
        let (office, members) = (Arc::new(Office::default()), Members::default());
        assert_eq!((members.told(), members.settled()), (String::new(), Ok(())));
        let change = |change| members.change(change, Arc::clone(&office) as _).expect("a thread");
        let patient = Duration::from_secs(60);
        change(MemberChange::Join { node: NodeId(4), draw: 7 });
        assert_eq!(members.told(), "n4 has joined");
        change(MemberChange::Leave { node: NodeId(9) });
        while members.told().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(members.settled(), Err("n9 is to leave".to_owned()));
        let late = members.await_settled(Duration::ZERO, &mut || false);
        assert_eq!(late, Err("not within 0ns: of a change of its members, n9 is to leave".to_owned()));
        let stopped = members.await_settled(patient, &mut || true);
        assert_eq!(stopped, Err("interrupted: of a change of its members, n9 is to leave".to_owned()));
        change(MemberChange::Leave { node: NodeId(4) });
        assert_eq!(members.await_settled(patient, &mut || false), Ok(()));
        assert_eq!(members.told(), "n4 has left");
        assert_eq!(*office.ended.lock().expect("no holder panics"), [NodeId(4)]);
        // What was told is still known.
        members.end().expect("nothing panics");
        assert_eq!((members.told().as_str(), members.settled()), ("n4 has left", Ok(())));
    }
}
