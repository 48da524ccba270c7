//! Connections to brokers.
//!
//! One for each broker and kind of use, made when it is first needed: what waits for long on one (a fetch, a join) must not
//! hold up what is urgent, for a broker works on the requests of a connection one after the other. Java's clients do the same
//! with a producer and a consumer that each have their own, and one more for the group's coordinator.

mod link;

pub(crate) use link::{CallError, LATEST_VERSION, Link};

use crate::options::Options;
use riprap_env::task::Io;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Lane {
    /// Questions about the cluster, and topics to be made.
    Ask,
    /// What a producer does, its transactions included.
    Produce,
    /// What a consumer reads.
    Fetch,
    /// What a member tells its group's coordinator, which may keep it waiting for all others.
    Group,
    /// What a group has committed, and commits.
    Offsets,
}

/// By use and `host:port`.
type Links = BTreeMap<(Lane, Rc<str>), Rc<Link>>;

/// All connections of a client.
pub(crate) struct Net {
    pub(crate) io: Io,
    pub(crate) options: Rc<Options>,
    client_id: String,
    links: RefCell<Links>,
}

impl Net {
    pub(crate) fn new(io: Io, options: Rc<Options>, client_id: String) -> Net {
        Net { io, options, client_id, links: RefCell::default() }
    }

    /// The connection to `host:port` for this use. It need not stand.
    pub(crate) fn link(&self, lane: Lane, address: &Rc<str>) -> Rc<Link> {
        let mut links = self.links.borrow_mut();
        let entry = links.entry((lane, Rc::clone(address)));
        let make = || Rc::new(Link::new(&self.io, &self.options, Rc::clone(address), &self.client_id));
        Rc::clone(entry.or_insert_with(make))
    }

    /// Closes all at once.
    pub(crate) fn shut_down(&self) {
        let links = self.links.take();
        for link in links.values() {
            link.shut_down();
        }
    }
}
