//! Requests that wait for something to happen: produces and deletions for replicas, fetches for records, topics for the controller.

use super::delete_records::WaitingDelete;
use super::fetch::WaitingFetch;
use super::forward::WaitingForward;
use super::produce::WaitingProduce;
use riprap_env::ConnId;
use std::collections::BTreeMap;

/// What waits. At most one request of a connection does, and connections are limited.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) produces: BTreeMap<ConnId, WaitingProduce>,
    pub(crate) deletes: BTreeMap<ConnId, WaitingDelete>,
    pub(crate) fetches: BTreeMap<ConnId, WaitingFetch>,
    pub(crate) forwards: BTreeMap<u64, WaitingForward>,
    pub(crate) forwarded: u64,
}

impl Waiting {
    /// The connection is gone: nobody wants the answer.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.produces.remove(&conn);
        self.deletes.remove(&conn);
        self.fetches.remove(&conn);
        self.forwards.retain(|_, waiting| waiting.to.conn != conn);
    }

    /// When the first of them has waited long enough.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        let produces = self.produces.values().map(|waiting| waiting.deadline_ns);
        let deletes = self.deletes.values().map(|waiting| waiting.deadline_ns);
        let fetches = self.fetches.values().map(|waiting| waiting.deadline_ns);
        let forwards = self.forwards.values().map(|waiting| waiting.wake_at_ns());
        produces.chain(deletes).chain(fetches).chain(forwards).min()
    }
}
