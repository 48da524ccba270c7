//! Pauses between attempts.

use riprap_env::task::Io;
use std::time::Duration;

/// Pauses that double from the first to the longest, each up to a fifth shorter or longer, so that clients that failed
/// together do not come again together. Source: KIP-580; Java's ExponentialBackoff.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    range: (Duration, Duration),
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(range: (Duration, Duration)) -> Backoff {
        Backoff { range, failures: 0 }
    }

    /// The next attempt comes after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait after one more failure. Units: nanoseconds.
    pub(crate) fn next_ns(&mut self, io: &Io) -> u64 {
        /// Beyond that the longest pause was reached long ago.
        const MAX_DOUBLINGS: u32 = 20;
        let (first_ns, longest_ns) = (ns(self.range.0), ns(self.range.1));
        let pause_ns = first_ns.saturating_mul(1 << self.failures.min(MAX_DOUBLINGS)).min(longest_ns);
        self.failures = self.failures.saturating_add(1);
        // Four fifths, and up to two fifths more.
        let spread_ns = pause_ns / 5 * 2;
        pause_ns - pause_ns / 5 + io.random_u64("backoff") % (spread_ns + 1)
    }

    /// Waits after one more failure, but not beyond that time.
    pub(crate) async fn pause(&mut self, io: &Io, by_ns: u64) {
        let until_ns = io.now_ns().saturating_add(self.next_ns(io));
        io.sleep_until(until_ns.min(by_ns)).await;
    }
}

/// A duration on the clock of [`Io::now_ns`].
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration as it is said on the wire.
pub(crate) fn wire_ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
