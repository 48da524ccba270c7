//! Final reads: fresh clients read every key from its beginning until they have caught up with its end.
//!
//! The keys are shared out among the client threads. Each thread throws its client away, assigns its keys from the
//! beginning, and polls; when a poll brings nothing it asks how far it is (`debug`), and is done when it stands at the
//! end of every key. What goes wrong is tried again, from the beginning if the client was lost, until the caller's time
//! is over.

use riprap_core::generator::{Ask, BoxedGenerator, Context, Draft, Generator, Offer, Thread, clients};
use riprap_core::op::{F, Key, Kind, Mop, Op, OpValue};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// How far the final reads are.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Mutex<BTreeSet<Key>>>);

impl Drain {
    /// The keys whose end has not been reached yet.
    pub fn pending(&self) -> Vec<Key> {
        self.0.lock().expect("no holder panics").iter().copied().collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Crash,
    Assign,
    Poll,
    Progress,
    Done,
}

struct Reader {
    keys: Vec<Key>,
    stage: Stage,
    /// An op of this reader is under way.
    waiting: bool,
    /// When it may try again what went wrong. Units: nanoseconds of the context's clock.
    not_before_ns: u64,
}

/// How long a reader waits before it tries again what went wrong.
const RETRY_NS: u64 = 200_000_000;

struct Readers {
    readers: BTreeMap<Thread, Reader>,
    pending: Drain,
}

/// Reads these keys to their ends, on the first `concurrency` client threads.
pub(crate) fn drain(keys: BTreeSet<Key>, concurrency: u32) -> (BoxedGenerator, Drain) {
    let pending = Drain(Arc::new(Mutex::new(keys.clone())));
    let mut readers: BTreeMap<Thread, Reader> = BTreeMap::new();
    for (i, key) in keys.into_iter().enumerate() {
        let thread = Thread::Client((i as u32) % concurrency.max(1));
        let fresh = || Reader { keys: Vec::new(), stage: Stage::Crash, waiting: false, not_before_ns: 0 };
        readers.entry(thread).or_insert_with(fresh).keys.push(key);
    }
    (clients(Box::new(Readers { readers, pending: pending.clone() })), pending)
}

impl Generator for Readers {
    fn ask(&self, context: &Context) -> Ask {
        let mut soonest: Option<Offer> = None;
        for (thread, _) in &context.free {
            let Some(reader) = self.readers.get(thread).filter(|reader| !reader.waiting) else { continue };
            let draft = match reader.stage {
                Stage::Done => continue,
                Stage::Crash => Draft::new(F::Crash, OpValue::None),
                Stage::Assign => Draft {
                    from_beginning: true,
                    ..Draft::new(F::Assign, OpValue::Keys(reader.keys.clone()))
                },
                Stage::Poll => Draft::new(F::Poll, OpValue::Mops(vec![Mop::Poll(None)])),
                Stage::Progress => Draft::new(F::Debug, OpValue::None),
            };
            let time_ns = reader.not_before_ns.max(context.time_ns);
            if soonest.as_ref().is_none_or(|soonest| time_ns < soonest.time_ns) {
                soonest = Some(Offer { draft, thread: *thread, time_ns, route: Vec::new() });
            }
        }
        match soonest {
            Some(offer) => Ask::Offer(offer),
            None if self.readers.values().all(|reader| reader.stage == Stage::Done) => Ask::Exhausted,
            None => Ask::Pending(None),
        }
    }

    fn take(&mut self, _: &Context, offer: &mut Offer) {
        self.readers.get_mut(&offer.thread).expect("offered to a reader").waiting = true;
    }

    fn update(&mut self, context: &Context, op: &Op) {
        let Some(thread) = context.thread_of(op.process) else { return };
        let Some(reader) = self.readers.get_mut(&thread) else { return };
        if op.kind == Kind::Invoke || !reader.waiting {
            return;
        }
        reader.waiting = false;
        let at_end = op.kind == Kind::Ok && caught_up(op, &reader.keys);
        let next = match (reader.stage, op.kind) {
            (Stage::Crash, _) => Stage::Assign,
            // The client is gone, and with it all that it had assigned.
            (_, Kind::Info) => Stage::Assign,
            (Stage::Assign, Kind::Ok) => Stage::Poll,
            (Stage::Poll, Kind::Ok) if brought_nothing(op) => Stage::Progress,
            (Stage::Progress, Kind::Ok) if at_end => Stage::Done,
            (Stage::Progress, _) => Stage::Poll,
            (stage, _) => stage,
        };
        if matches!(op.kind, Kind::Fail) || (op.kind == Kind::Info && reader.stage != Stage::Crash) {
            reader.not_before_ns = context.time_ns + RETRY_NS;
        }
        reader.stage = next;
        if next == Stage::Done {
            let mut pending = self.pending.0.lock().expect("no holder panics");
            reader.keys.iter().for_each(|key| {
                pending.remove(key);
            });
        }
    }
}

fn brought_nothing(op: &Op) -> bool {
    let OpValue::Mops(mops) = &op.value else { return true };
    mops.iter().all(|mop| match mop {
        Mop::Poll(Some(reads)) => reads.iter().all(|(_, records)| records.is_empty()),
        Mop::Poll(None) | Mop::Send { .. } => true,
    })
}

/// Whether a `debug` op says `{"5": {"position": 12, "end": 12}, ...}` with nothing left to read of any key.
fn caught_up(op: &Op, keys: &[Key]) -> bool {
    let OpValue::Json(progress) = &op.value else { return false };
    keys.iter().all(|key| {
        let number = |field| progress.get(key.to_string())?.get(field).and_then(Json::as_i64);
        number("position").zip(number("end")).is_some_and(|(position, end)| position >= end)
    })
}
