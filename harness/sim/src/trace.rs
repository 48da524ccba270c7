//! What happened, as a hash and, on demand, event by event.

use crate::host::HostId;
use riprap_core::story::Life;
use std::fmt;

/// A rolling hash of a run: everything that a node was told and everything that it did.
///
/// It is made to be quick and to tell runs apart, not to withstand anybody who wants two runs to look the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace(u64);

impl Trace {
    /// The trace of a run in which nothing has happened yet.
    pub fn new(seed: u64) -> Trace {
        Trace(seed ^ 0x6a09_e667_f3bc_c908)
    }

    /// Its hash so far.
    pub fn hash(self) -> u64 {
        self.0
    }

    pub(crate) fn absorb(&mut self, word: u64) {
        // One round of multiply and fold, as wyhash has it: each bit of a word reaches each bit of the hash.
        let product = u128::from(self.0 ^ word) * 0xa076_1d64_78bd_642f;
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ 0x9e37_79b9_7f4a_7c15;
    }

    /// Takes bytes in.
    pub fn absorb_bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.absorb(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        let rest = words.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.absorb(u64::from_le_bytes(last));
        self.absorb(bytes.len() as u64);
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One thing that happened, for who follows a run event by event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent<'a> {
    /// There is a new host.
    Added {
        /// Which host.
        host: HostId,
        /// What it is called.
        name: &'a str,
    },
    /// A host's process began, ended, stood still, or its disk or clock was tampered with.
    Host {
        /// Which host.
        host: HostId,
        /// What its process is from now on, if that changes.
        life: Option<Life>,
        /// In words.
        what: &'a str,
    },
    /// A connection was asked for.
    Connect {
        /// By this host.
        from: HostId,
        /// To that one.
        to: HostId,
        /// The connection's number in the world.
        pipe: usize,
    },
    /// Bytes were sent.
    Send {
        /// By this host.
        from: HostId,
        /// To that one.
        to: HostId,
        /// The connection's number in the world.
        pipe: usize,
        /// Whether by who asked for the connection.
        asks: bool,
        /// What was sent.
        bytes: &'a [u8],
    },
    /// Bytes arrived.
    Arrive {
        /// From this host.
        from: HostId,
        /// At that one.
        to: HostId,
        /// The connection's number in the world.
        pipe: usize,
        /// Whether by who asked for the connection.
        asks: bool,
        /// What arrived.
        bytes: &'a [u8],
    },
    /// A host heard that a connection is gone.
    Closed {
        /// Which host.
        host: HostId,
        /// The connection's number in the world.
        pipe: usize,
    },
    /// A host was woken by its own timer.
    Wake {
        /// Which host.
        host: HostId,
    },
    /// A node wrote a line into its log.
    Log {
        /// Which host.
        host: HostId,
        /// The line.
        line: &'a str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace_of(parts: &[&[u8]]) -> u64 {
        let mut trace = Trace::new(1);
        for part in parts {
            trace.absorb_bytes(part);
        }
        trace.hash()
    }

    #[test]
    fn what_differs_hashes_differently() {
        let runs: [&[&[u8]]; 10] = [
            &[],
            &[b""],
            &[b"", b""],
            &[b"a"],
            &[b"a\0"],
            &[b"ab", b"c"],
            &[b"a", b"bc"],
            &[b"12345678"],
            &[b"12345678\0"],
            &[b"1234567", b"8"],
        ];
        let all = runs.map(trace_of);
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }
}
