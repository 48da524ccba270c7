//! Packets of a host that are to wait: what takes longer, comes no faster than so much, or is held.
//!
//! A host sees all that its node is sent and sends, so that its own [relay](super::relay) does to a node's links what the
//! sandbox's does: what comes late or is held waits where it arrives, and a limit of what the node sends, to whomever, is one
//! and not one for each. Only two limited nodes are told apart from the sandbox's: what one sends the other passes one limit
//! after the other, as on real lines, and is charged to the first though the second may refuse it.
//!
//! Other than in the sandbox the host's interfaces are left as they are. Large packets are cut up where they begin to wait.

use super::door::Door;
use super::error::SandboxError;
use super::filter::Pair;
use super::netlink::Refusal;
use super::relay::{self, Flow, Lag, Large, Limit, Relay};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// What is slow on a host's links, by the addresses at their other ends.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Slow {
    /// How much longer what comes from there takes.
    pub(crate) lags: BTreeMap<Ipv4Addr, Lag>,
    /// Whose links share a rate, what comes from all of them and what goes there.
    pub(crate) limited: BTreeSet<Ipv4Addr>,
    /// That rate.
    pub(crate) bytes_per_s: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Waits {
    /// It runs from when it is first needed.
    relay: Option<Relay>,
    slow: Slow,
    held: BTreeSet<Flow>,
}

impl Waits {
    /// Replaces what is slow, at a host whose own address is `own`. What is on its way arrives at once, unless nothing changes.
    pub(super) fn set_slow(
        &mut self,
        door: &mut Door,
        own: Ipv4Addr,
        slow: &Slow,
    ) -> Result<(), SandboxError> {
        if self.slow == *slow {
            return Ok(());
        }
        self.slow = slow.clone();
        self.apply(door, own)
    }

    /// Replaces the connections on which what is sent to the host waits, each by its other end and by its own.
    pub(super) fn set_held(
        &mut self,
        door: &mut Door,
        own: Ipv4Addr,
        held: BTreeSet<Flow>,
    ) -> Result<(), SandboxError> {
        self.held = held;
        self.apply(door, own)
    }

    /// Lets all go that waits, and has nothing wait any more.
    pub(super) fn end(&mut self, door: &mut Door, own: Ipv4Addr) -> Result<(), SandboxError> {
        (self.slow, self.held) = Default::default();
        self.apply(door, own)?;
        self.relay = None;
        Ok(())
    }

    fn apply(&mut self, door: &mut Door, own: Ipv4Addr) -> Result<(), SandboxError> {
        let is_idle = self.slow == Slow::default() && self.held.is_empty();
        // It knows what to do with packets before any comes, and until the last has come.
        if is_idle {
            self.lead(door).map_err(SandboxError::network("lead packets past the relay"))?;
            return self.shape(own);
        }
        if self.relay.is_none() {
            let queue = relay::queue(Large::CutUp).map_err(SandboxError::network("queue packets"))?;
            self.relay = Some(Relay::start(vec![queue]).map_err(SandboxError::setup("start a thread"))?);
        }
        self.shape(own)?;
        self.lead(door).map_err(SandboxError::network("lead packets to the relay"))
    }

    /// Tells the relay what is to wait.
    fn shape(&mut self, own: Ipv4Addr) -> Result<(), SandboxError> {
        let Some(relay) = &mut self.relay else { return Ok(()) };
        let Slow { lags, limited, bytes_per_s } = &self.slow;
        let delays = lags.iter().map(|(other, lag)| ((*other, own), *lag)).collect();
        let ways: [Vec<Pair>; 2] = [
            limited.iter().map(|other| (*other, own)).collect(),
            limited.iter().map(|other| (own, *other)).collect(),
        ];
        let ways = ways.into_iter().filter(|pairs| !pairs.is_empty());
        let limits = ways.map(|pairs| Limit { pairs, bytes_per_s: *bytes_per_s }).collect();
        relay.shape(&delays, limits, self.held.clone()).map_err(SandboxError::setup("relay packets"))
    }

    /// Has the door hand to the relay what is to wait, and nothing else.
    fn lead(&self, door: &mut Door) -> Result<(), Refusal> {
        let Slow { lags, limited, .. } = &self.slow;
        let from: BTreeSet<Ipv4Addr> = lags.keys().chain(limited).copied().collect();
        door.set_relayed(&from.into_iter().collect::<Vec<_>>())?;
        door.set_relayed_to(&limited.iter().copied().collect::<Vec<_>>())?;
        door.set_held(&self.held.iter().map(|(other, at)| (*other, at.port())).collect::<Vec<_>>())
    }
}
