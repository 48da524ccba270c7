//! Requests that wait for something to happen: produces and deletions for replicas, fetches for records, topics for the controller.

use super::delete_records::WaitingDelete;
use super::fetch::{Wait, WaitingFetch};
use super::forward::WaitingForward;
use super::produce::WaitingProduce;
use crate::ids::PartitionKey;
use riprap_env::ConnId;
use std::collections::{BTreeMap, BTreeSet};

/// What waits. At most one request of a connection does, and connections are limited.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) produces: BTreeMap<ConnId, WaitingProduce>,
    pub(crate) deletes: BTreeMap<ConnId, WaitingDelete>,
    pub(crate) fetches: WaitingFetches,
    pub(crate) forwards: BTreeMap<u64, WaitingForward>,
    pub(crate) forwarded: u64,
}

impl Waiting {
    /// The connection is gone: nobody wants the answer.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.produces.remove(&conn);
        self.deletes.remove(&conn);
        self.fetches.remove(conn);
        self.forwards.retain(|_, waiting| waiting.to.conn != conn);
    }

    /// When the first of them has waited long enough.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        let produces = self.produces.values().map(|waiting| waiting.deadline_ns);
        let deletes = self.deletes.values().map(|waiting| waiting.deadline_ns);
        let forwards = self.forwards.values().map(|waiting| waiting.wake_at_ns());
        produces.chain(deletes).chain(self.fetches.wake_at_ns()).chain(forwards).min()
    }
}

/// Fetches that wait. There may be ten thousand, of which a turn concerns a few.
#[derive(Debug, Default)]
pub(crate) struct WaitingFetches {
    by_conn: BTreeMap<ConnId, WaitingFetch>,
    /// In order. One without anybody stays: there are no more than there were partitions.
    by_partition: BTreeMap<PartitionKey, Vec<ConnId>>,
    deadlines: BTreeSet<(u64, ConnId)>,
    /// Not looked at yet.
    new: Vec<ConnId>,
    /// To be looked at in the next turn.
    put_off: BTreeSet<ConnId>,
    /// Due, but what their connections were given before is not taken.
    clogged: BTreeSet<ConnId>,
    /// Due, but all room for answers is taken.
    starved: BTreeSet<ConnId>,
    /// Whose was answered last: the next is first when there is too much to do for one turn.
    last: Option<ConnId>,
}

/// How long fetches that have no room may go without a look at how much there is now.
const LOOK_AGAIN_NS: u64 = 50_000_000;

impl WaitingFetches {
    /// Adds one; its connection has no other.
    pub(crate) fn insert(&mut self, conn: ConnId, fetch: WaitingFetch) {
        for key in &fetch.partitions {
            let conns = self.by_partition.entry(*key).or_default();
            if let Err(at) = conns.binary_search(&conn) {
                conns.insert(at, conn);
            }
        }
        self.deadlines.insert((fetch.deadline_ns, conn));
        self.new.push(conn);
        self.by_conn.insert(conn, fetch);
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<&WaitingFetch> {
        self.by_conn.get(&conn)
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<WaitingFetch> {
        let fetch = self.by_conn.remove(&conn)?;
        self.deadlines.remove(&(fetch.deadline_ns, conn));
        self.new.retain(|new| *new != conn);
        for held in [&mut self.put_off, &mut self.clogged, &mut self.starved] {
            held.remove(&conn);
        }
        for key in &fetch.partitions {
            if let Some(conns) = self.by_partition.get_mut(key)
                && let Ok(at) = conns.binary_search(&conn)
            {
                conns.remove(at);
            }
        }
        Some(fetch)
    }

    /// The connections whose fetches are new, have waited long enough, or wait for one of these partitions.
    pub(crate) fn take_due(&mut self, changed: &BTreeSet<PartitionKey>, now_ns: u64) -> Vec<ConnId> {
        let is_late = self.wake_at_ns().is_some_and(|at_ns| at_ns <= now_ns);
        if !is_late && changed.is_empty() && self.new.is_empty() {
            return Vec::new();
        }
        let late = self.deadlines.range(..=(now_ns, ConnId(u64::MAX))).map(|(_, conn)| *conn);
        let awaited = changed.iter().filter_map(|key| self.by_partition.get(key)).flatten().copied();
        let mut due: Vec<ConnId> = late.chain(awaited).collect();
        due.append(&mut self.new);
        due
    }

    /// Takes out one that is answered.
    pub(crate) fn take(&mut self, conn: ConnId) -> Option<WaitingFetch> {
        self.last = Some(conn);
        self.remove(conn)
    }

    /// These in the order in which they are to be looked at, but those that wait for room.
    pub(crate) fn in_turn(&self, mut conns: Vec<ConnId>) -> Vec<ConnId> {
        conns.retain(|conn| !self.clogged.contains(conn) && !self.starved.contains(conn));
        conns.sort_unstable();
        conns.dedup();
        let first = self.last.map_or(ConnId(0), |last| ConnId(last.0.saturating_add(1)));
        let before = conns.partition_point(|conn| *conn < first);
        conns.rotate_left(before);
        conns
    }

    /// Has a fetch looked at again in the next turn.
    pub(crate) fn put_off(&mut self, conn: ConnId) {
        self.hold_back(conn, Wait::Turn);
    }

    /// Has one that is due looked at again when there may be room.
    pub(crate) fn hold_back(&mut self, conn: ConnId, wait: Wait) {
        let Some(fetch) = self.by_conn.get(&conn) else { return };
        // It is over its time perhaps, and would wake the broker for that again and again.
        self.deadlines.remove(&(fetch.deadline_ns, conn));
        let held = match wait {
            Wait::Turn => &mut self.put_off,
            Wait::Drain => &mut self.clogged,
            Wait::Room => &mut self.starved,
        };
        held.insert(conn);
    }

    /// The connection has taken what it was given.
    pub(crate) fn drained(&mut self, conn: ConnId) {
        if self.clogged.remove(&conn) {
            self.look_again(conn);
        }
    }

    pub(crate) fn begin_turn(&mut self, has_room: bool) {
        let mut again = std::mem::take(&mut self.put_off);
        if has_room {
            again.append(&mut self.starved);
        }
        for conn in again {
            self.look_again(conn);
        }
    }

    fn look_again(&mut self, conn: ConnId) {
        if let Some(fetch) = self.by_conn.get(&conn) {
            self.deadlines.insert((fetch.deadline_ns, conn));
            self.new.push(conn);
        }
    }

    /// Whether the next turn should come at once.
    pub(crate) fn has_put_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    /// When to look whether there is room.
    pub(crate) fn look_again_ns(&self, now_ns: u64) -> Option<u64> {
        (!self.starved.is_empty()).then_some(now_ns + LOOK_AGAIN_NS)
    }

    /// Whether one was not looked at yet.
    pub(crate) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ns, _)| *deadline_ns)
    }
}
