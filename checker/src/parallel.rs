//! Work on all cores with one outcome: pieces are computed in any order and come back in theirs.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than this wait for memory rather than compute.
const MAX_THREADS: usize = 16;
/// Pieces for each thread, so that one heavy piece does not leave the others idle.
const PIECES_PER_THREAD: usize = 16;
/// Less than this is done sooner than a thread is started.
const MIN_WORK: usize = 1024;

/// Computes `each` for pieces that together cover `0..len`; the results are in the pieces' order.
pub(crate) fn pieces<T: Send>(len: usize, each: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let threads = threads();
    // How the work is cut must not be seen in the outcome, and costs nothing where there is little.
    let size = len.div_ceil(threads * PIECES_PER_THREAD).max(MIN_WORK);
    let count = len.div_ceil(size);
    all(count, len, |piece| each(piece * size..((piece + 1) * size).min(len)))
}

/// How many threads work at once. Asked once: the answer is read from several files, which takes longer than to judge a
/// small history.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS))
}

/// Computes `each` for every number below `count`; the results are in their order. A panic of one goes on in the caller.
/// `work` is how many things all of them together look at.
pub(crate) fn all<T: Send>(count: usize, work: usize, each: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads().min(count);
    if threads <= 1 || work <= MIN_WORK {
        return (0..count).map(each).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return done;
            }
            done.push((n, each(n)));
        }
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, t)| t).collect()
}
