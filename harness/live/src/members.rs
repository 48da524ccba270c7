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
    /// Waits for a while for what is under way to be done.
    pub(crate) fn wait(&self, limit: Duration) {
        let began = Instant::now();
        while began.elapsed() < limit && self.settled().is_err() {
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Begins a change; the one before goes no further.
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

    /// An administrator who lets a node join only once it is over, and has one leave at once.
    #[derive(Default)]
    struct Office {
        ended: Mutex<Vec<NodeId>>,
    }

    impl Administered for Office {
        fn administer(&self, change: MemberChange, overseer: &mut dyn Overseer) {
            match change {
                MemberChange::Join { node, draw } => {
                    overseer.tell(format!("{node} is to join, drawn {draw}"));
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
        let (office, members, node) = (Arc::new(Office::default()), Members::default(), NodeId(4));
        assert_eq!((members.told(), members.settled()), (String::new(), Ok(())));
        let change = |change| members.change(change, Arc::clone(&office) as _).expect("a thread");
        change(MemberChange::Join { node, draw: 7 });
        while members.told().is_empty() {
            std::thread::yield_now();
        }
        // It is not done, however long one waits.
        members.wait(Duration::from_millis(1));
        let joining = "n4 is to join, drawn 7";
        assert_eq!((members.told().as_str(), members.settled()), (joining, Err(joining.to_owned())));
        change(MemberChange::Leave { node });
        members.wait(Duration::from_secs(60));
        assert_eq!(members.told(), "n4 has left");
        assert_eq!(*office.ended.lock().expect("no holder panics"), [node]);
        // What was told is still known.
        members.end().expect("nothing panics");
        assert_eq!((members.told().as_str(), members.settled()), ("n4 has left", Ok(())));
    }
}
