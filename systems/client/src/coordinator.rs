//! Who coordinates a group, or the transactions of a producer.

use crate::core::Core;
use crate::error::Trouble;
use crate::net::{LATEST_VERSION, Lane};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use std::cell::RefCell;
use std::rc::Rc;

/// What is coordinated, by its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Group = 0,
    Transaction = 1,
}

/// From this version on several may be asked for at once. Source: KIP-699.
const MANY_SINCE: i16 = 4;

/// Finds one coordinator, and remembers where it was.
pub(crate) struct Finder {
    core: Rc<Core>,
    kind: Kind,
    key: String,
    known: RefCell<Option<Rc<str>>>,
}

impl Finder {
    pub(crate) fn new(core: Rc<Core>, kind: Kind, key: String) -> Finder {
        Finder { core, kind, key, known: RefCell::default() }
    }

    /// It is not there any more, or cannot be reached.
    pub(crate) fn forget(&self) {
        *self.known.borrow_mut() = None;
    }

    /// Its address. Errors: what went wrong last before the time was over.
    pub(crate) async fn find(&self, by_ns: u64) -> Result<Rc<str>, Trouble> {
        let core = &self.core;
        let mut backoff = core.backoff();
        loop {
            if let Some(known) = &*self.known.borrow() {
                return Ok(Rc::clone(known));
            }
            let anybody = core.metadata.anybody(Lane::Ask);
            let asked =
                core.call((Lane::Ask, &anybody), LATEST_VERSION, by_ns, |version| self.request(version));
            let trouble = match asked.await {
                Err(trouble) => trouble,
                Ok(answer) => match address(answer) {
                    Ok(address) => {
                        *self.known.borrow_mut() = Some(address);
                        continue;
                    }
                    Err(code) => Trouble::Code(code),
                },
            };
            backoff.pause(&core.io, by_ns).await;
            if core.io.now_ns() >= by_ns {
                return Err(trouble);
            }
        }
    }

    fn request(&self, version: i16) -> FindCoordinatorRequest {
        let key_type = self.kind as i8;
        if version >= MANY_SINCE {
            let coordinator_keys = vec![self.key.clone()];
            FindCoordinatorRequest { key_type, coordinator_keys, ..Default::default() }
        } else {
            FindCoordinatorRequest { key_type, key: self.key.clone(), ..Default::default() }
        }
    }
}

fn address(answer: FindCoordinatorResponse) -> Result<Rc<str>, ErrorCode> {
    let (code, host, port) = match answer.coordinators.into_iter().next() {
        Some(found) => (found.error_code, found.host, found.port),
        None => (answer.error_code, answer.host, answer.port),
    };
    if code.is_none() { Ok(format!("{host}:{port}").into()) } else { Err(code) }
}
