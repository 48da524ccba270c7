//! Requests that wait for something to happen: produces and deletions for replicas, fetches for records, topics for the controller.

use super::delete_records::WaitingDelete;
use super::fetch::WaitingFetch;
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
    by_partition: BTreeMap<PartitionKey, BTreeSet<ConnId>>,
    deadlines: BTreeSet<(u64, ConnId)>,
    /// Not looked at yet.
    new: BTreeSet<ConnId>,
}

impl WaitingFetches {
    /// Adds one; its connection has no other.
    pub(crate) fn insert(&mut self, conn: ConnId, fetch: WaitingFetch) {
        for key in &fetch.partitions {
            self.by_partition.entry(*key).or_default().insert(conn);
        }
        self.deadlines.insert((fetch.deadline_ns, conn));
        self.new.insert(conn);
        self.by_conn.insert(conn, fetch);
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<&WaitingFetch> {
        self.by_conn.get(&conn)
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<WaitingFetch> {
        let fetch = self.by_conn.remove(&conn)?;
        self.deadlines.remove(&(fetch.deadline_ns, conn));
        self.new.remove(&conn);
        for key in &fetch.partitions {
            if let Some(conns) = self.by_partition.get_mut(key) {
                conns.remove(&conn);
                if conns.is_empty() {
                    self.by_partition.remove(key);
                }
            }
        }
        Some(fetch)
    }

    /// The connections whose fetches are new, have waited long enough, or wait for one of these partitions.
    pub(crate) fn take_due(&mut self, changed: &BTreeSet<PartitionKey>, now_ns: u64) -> BTreeSet<ConnId> {
        let late = self.deadlines.range(..=(now_ns, ConnId(u64::MAX))).map(|(_, conn)| *conn);
        let awaited = changed.iter().filter_map(|key| self.by_partition.get(key)).flatten().copied();
        late.chain(awaited).chain(std::mem::take(&mut self.new)).collect()
    }

    /// Has a fetch looked at again in the next turn.
    pub(crate) fn put_off(&mut self, conn: ConnId) {
        if self.by_conn.contains_key(&conn) {
            self.new.insert(conn);
        }
    }

    /// Whether one was not looked at yet.
    pub(crate) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ns, _)| *deadline_ns)
    }
}
