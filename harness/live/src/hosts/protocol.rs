//! What the harness asks of an agent: a line of JSON each, answered by a line before the next is asked.
//!
//! Both sides are the same program, by its checksum, so that nothing here has to last.

use super::probes::Round;
use crate::sandbox::{ProbeKind, Rules};
use riprap_core::cluster::NodeId;
use riprap_core::system::Deployment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// An agent ends by itself when nothing was asked of it for so long: a connection may be lost without a word.
pub(super) const SILENCE: Duration = Duration::from_secs(60);
/// The harness asks something at least this often.
pub(super) const PING_EVERY: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Serialize, Deserialize)]
pub(super) enum Ask {
    /// First of all.
    Begin(Box<Begin>),
    /// Whether it is there.
    Ping,
    /// As another version from now on, if that is so.
    Restart {
        is_upgrade: bool,
    },
    Start,
    Kill,
    Pause,
    Resume,
    State,
    EndedByItself,
    Stop,
    FlipBit {
        draw: u64,
    },
    CutTail {
        draw: u64,
    },
    ClockOffset,
    SetClockOffset {
        offset_ms: i64,
    },
    StrobeClock {
        offset_ms: i64,
        every_ms: u64,
    },
    ClockOffsetsSeen,
    Retire,
    HasRotted,
    ReplaceDisk,
    PowerFail,
    Slowness,
    SlowDown {
        factor: u64,
    },
    Room,
    SetRoom {
        room: Option<u64>,
    },
    /// Replaces all that is wrong with its links.
    Rule(Rules),
    /// How many packets its cuts have dropped.
    Dropped,
    /// How long the quickest and the slowest probe take to get to these places, of each place in order; none where none comes
    /// in so long.
    Took {
        round: Round,
        to: Vec<SocketAddrV4>,
        wait_ms: u64,
    },
    /// Somebody to connect to by what is to be held; the answer is the port.
    ListenForHolds,
    /// Replaces the connections of its own that others are to hold.
    ConnectToHold {
        to: Vec<SocketAddrV4>,
    },
    /// Holds what these send on the connections that stand, those of their own that were just made among them. The answer is
    /// whose all others are.
    Hold {
        others: BTreeSet<Ipv4Addr>,
    },
    /// Sends something on the connections of its own that others hold.
    SendHeld,
    /// Who sent what has arrived on connections that are held.
    Leaks,
    /// Lets go what is held. The answer is of whom nothing arrives.
    LetGo,
    /// Breaks its connections with these.
    Reset {
        others: BTreeSet<Ipv4Addr>,
    },
    /// Sends probes.
    Send(Send),
    /// Which probes of a round have come, once there are so many of each of these, or after so long.
    Arrived {
        round: Round,
        from: BTreeSet<u16>,
        count: u32,
        wait_ms: u64,
    },
    /// Somebody to connect to; the answer is the port.
    Listen,
    /// Whether a connection is refused; none if it is neither refused nor made.
    IsRefused {
        to: SocketAddrV4,
        wait_ms: u64,
    },
    /// The files of its node's logs, by their paths below the folder of logs.
    Logs,
}

/// What an agent has to know.
#[derive(Serialize, Deserialize)]
pub(super) struct Begin {
    /// As in `--system NAME[@VERSION]`, without the version.
    pub(super) system: String,
    /// The file that describes it, if one does.
    pub(super) description: Option<String>,
    pub(super) deployment: Deployment,
    /// The same of another version, if nodes may go to one, with what that is called.
    pub(super) upgraded: Option<(String, Deployment)>,
    pub(super) node: NodeId,
    /// Whether it gets a disk that does as it is told.
    pub(super) has_disk: bool,
    /// Whether it gets a clock that can be set.
    pub(super) has_clock: bool,
    /// The port of this host that SSH listens at.
    pub(super) spared: u16,
}

/// What an agent says of itself then.
#[derive(Serialize, Deserialize)]
pub(super) struct Begun {
    /// The harness's address, as the host sees it.
    pub(super) harness: Ipv4Addr,
    /// Where it takes probes.
    pub(super) probe_port: u16,
}

/// Probes to send.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Send {
    pub(super) kind: ProbeKind,
    pub(super) round: Round,
    /// Whose they are.
    pub(super) source: u16,
    pub(super) to: Vec<SocketAddrV4>,
    /// How many to each.
    pub(super) count: u32,
}
