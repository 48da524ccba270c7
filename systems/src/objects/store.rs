//! Objects by their keys, in memory and in a journal.
//!
//! ```text
//! DIR/journal   one record behind the other: key length (u32), body length (u64, all ones: deleted), when (u64,
//!               milliseconds since 1970), tag (16 bytes), key, body
//! ```
//!
//! A record that is not whole ends the journal: nobody was told of it. A record's tag is a hash of its key and body, and
//! so tells that too. While a sync is under way, what comes is written behind it and waits for the next: many puts share one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a test's systems keep. More would not fit into memory beside them, and its journal not onto the disk.
const MAX_JOURNAL_BYTES: u64 = 4 << 30;
const HEAD_BYTES: usize = 4 + 8 + 8 + 16;
/// The length of a body that is no body: the object is gone.
const DELETED: u64 = u64::MAX;
/// Longer keys are refused. Source: S3's manual, "Naming Amazon S3 objects".
pub(super) const MAX_KEY_BYTES: usize = 1024;

/// An object.
#[derive(Clone)]
pub(super) struct Object {
    pub(super) body: Arc<[u8]>,
    /// What tells it from others of its key: of equal content, equal, as S3's are.
    pub(super) tag: u128,
    /// Units: milliseconds since 1970.
    pub(super) modified_ms: u64,
    /// The journal's end behind it.
    position: u64,
}

/// When a put is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Always,
    /// If there is no object of that key.
    Absent,
    /// If there is the one of this tag.
    Is(u128),
}

/// Why a put was not done.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    Condition,
    Failed(String),
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Object>,
    /// Where the journal ends, and up to where it is durable.
    end: u64,
    synced: u64,
}

/// See the module.
pub(super) struct Store {
    journal: File,
    state: Mutex<State>,
    written: Condvar,
    durable: Condvar,
}

impl Store {
    /// The store of a folder, which is made if it is not there; a thread syncs what is written. Errors: one line.
    pub(super) fn open(dir: &Path) -> Result<Arc<Store>, String> {
        let path = dir.join("journal");
        let failed = |e: std::io::Error| format!("failed to open {}: {e}", path.display());
        std::fs::create_dir_all(dir).map_err(failed)?;
        let mut journal = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let mut bytes = Vec::new();
        journal.read_to_end(&mut bytes).map_err(failed)?;
        let (objects, end) = replayed(&bytes);
        // What is left of a record would be taken for the beginning of the next.
        journal.set_len(end).map_err(failed)?;
        journal.seek(SeekFrom::Start(end)).map_err(failed)?;
        journal.sync_all().map_err(failed)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        let state = Mutex::new(State { objects, end, synced: end });
        let store = Arc::new(Store { journal, state, written: Condvar::new(), durable: Condvar::new() });
        let its = Arc::downgrade(&store);
        std::thread::spawn(move || {
            while let Some(store) = its.upgrade() {
                store.sync();
            }
        });
        Ok(store)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().objects.len()
    }

    /// Puts an object, and returns its tag when it is durable.
    pub(super) fn put(&self, key: &str, body: &[u8], condition: Condition) -> Result<u128, Refusal> {
        let mut state = self.lock();
        let there = state.objects.get(key);
        let is_met = match condition {
            Condition::Always => true,
            Condition::Absent => there.is_none(),
            Condition::Is(tag) => there.is_some_and(|there| there.tag == tag),
        };
        if !is_met {
            // Who is told of an object finds it from then on.
            let position = there.map_or(0, |there| there.position);
            self.wait(state, position);
            return Err(Refusal::Condition);
        }
        let (tag, modified_ms) = (hash(key, body), now_ms());
        let position = self.append(&mut state, key, Some(body), tag, modified_ms).map_err(Refusal::Failed)?;
        state.objects.insert(key.to_owned(), Object { body: body.into(), tag, modified_ms, position });
        self.wait(state, position);
        Ok(tag)
    }

    /// Deletes an object, if there is one. Errors: one line.
    pub(super) fn delete(&self, key: &str) -> Result<(), String> {
        let mut state = self.lock();
        if !state.objects.contains_key(key) {
            return Ok(());
        }
        let position = self.append(&mut state, key, None, hash(key, b""), now_ms())?;
        state.objects.remove(key);
        self.wait(state, position);
        Ok(())
    }

    /// An object.
    pub(super) fn get(&self, key: &str) -> Option<Object> {
        let state = self.lock();
        let found = state.objects.get(key).cloned();
        // That there is none may be news too: of a deletion that is not durable.
        let position = found.as_ref().map_or(state.end, |found| found.position);
        self.wait(state, position);
        found
    }

    /// Objects whose keys begin so and stand behind one, in order.
    pub(super) fn list(&self, prefix: &str, after: &str) -> Vec<(String, Object)> {
        let state = self.lock();
        let from = prefix.max(after).to_owned();
        let of_prefix = state.objects.range(from..).take_while(|(key, _)| key.starts_with(prefix));
        let listed = of_prefix.filter(|(key, _)| key.as_str() > after || after.is_empty());
        let listed = listed.map(|(key, object)| (key.clone(), object.clone())).collect();
        let end = state.end;
        self.wait(state, end);
        listed
    }

    /// Writes a record, and returns where it ends. Errors: one line; then it is as if nothing had been written.
    fn append(
        &self,
        state: &mut State,
        key: &str,
        body: Option<&[u8]>,
        tag: u128,
        modified_ms: u64,
    ) -> Result<u64, String> {
        let mut record = Vec::with_capacity(HEAD_BYTES + key.len() + body.map_or(0, <[u8]>::len));
        record.extend_from_slice(&(key.len() as u32).to_be_bytes());
        record.extend_from_slice(&body.map_or(DELETED, |body| body.len() as u64).to_be_bytes());
        record.extend_from_slice(&modified_ms.to_be_bytes());
        record.extend_from_slice(&tag.to_be_bytes());
        record.extend_from_slice(key.as_bytes());
        record.extend_from_slice(body.unwrap_or_default());
        let end = state.end + record.len() as u64;
        if end > MAX_JOURNAL_BYTES {
            return Err(format!("the journal is full: {MAX_JOURNAL_BYTES} bytes at most are right"));
        }
        let mut journal = &self.journal;
        if let Err(e) = journal.write_all(&record) {
            let undone = journal.set_len(state.end).and_then(|()| journal.seek(SeekFrom::Start(state.end)));
            if let Err(e) = undone {
                die(&format!("failed to take back half a record: {e}"));
            }
            return Err(format!("failed to write: {e}"));
        }
        state.end = end;
        self.written.notify_one();
        Ok(end)
    }

    /// Syncs what is written, if anything is within a moment.
    fn sync(&self) {
        let state = self.lock();
        let moment = std::time::Duration::from_millis(100);
        let waited = self.written.wait_timeout_while(state, moment, |state| state.end == state.synced);
        let (state, _) = waited.expect("no holder panics");
        let end = state.end;
        if end == state.synced {
            return;
        }
        drop(state);
        // What a failed sync has lost no later one brings back, and the kernel tells of it once.
        if let Err(e) = self.journal.sync_data() {
            die(&format!("failed to sync: {e}"));
        }
        self.lock().synced = end;
        self.durable.notify_all();
    }

    fn wait(&self, state: MutexGuard<'_, State>, position: u64) {
        let waited = self.durable.wait_while(state, |state| state.synced < position);
        drop(waited.expect("no holder panics"));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

/// Ends the process: what is on the disk is not known any more, and is read again when it starts.
fn die(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1)
}

/// What a journal comes to, and where it ends.
fn replayed(bytes: &[u8]) -> (BTreeMap<String, Object>, u64) {
    let (mut objects, mut position) = (BTreeMap::new(), 0);
    while let Some((record, len)) = record(&bytes[position..]) {
        position += len;
        let Record { key, body, tag, modified_ms } = record;
        match body {
            Some(body) => {
                let object = Object { body: body.into(), tag, modified_ms, position: position as u64 };
                objects.insert(key.to_owned(), object)
            }
            None => objects.remove(key),
        };
    }
    (objects, position as u64)
}

struct Record<'a> {
    key: &'a str,
    body: Option<&'a [u8]>,
    tag: u128,
    modified_ms: u64,
}

/// The record that these bytes begin with, and its length, if it is whole.
fn record(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let number = |from: usize, to: usize| {
        head[from..to].iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
    };
    let (key_len, body_len) = (number(0, 4) as usize, number(4, 12) as u64);
    let (modified_ms, tag) = (number(12, 20) as u64, number(20, HEAD_BYTES));
    let (key, rest) = rest.split_at_checked(key_len)?;
    let key = std::str::from_utf8(key).ok()?;
    let is_there = body_len != DELETED;
    let body = rest.get(..if is_there { usize::try_from(body_len).ok()? } else { 0 })?;
    let len = HEAD_BYTES + key_len + body.len();
    (hash(key, body) == tag)
        .then_some((Record { key, body: is_there.then_some(body), tag, modified_ms }, len))
}

/// FNV-1a with 128 bits: no secret, and the same everywhere.
fn hash(key: &str, body: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    const BASIS: u128 = 0x6c62272e07bb014262b821756295c58d;
    let bytes = key.as_bytes().iter().chain(&[0]).chain(body);
    bytes.fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

fn now_ms() -> u64 {
    // A clock that stands before 1970 tells nothing.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(store: &Store, key: &str) -> Option<String> {
        store.get(key).map(|object| String::from_utf8_lossy(&object.body).into_owned())
    }

    #[test]
    fn conditions() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::open(dir.path()).expect("it opens");
        assert_eq!(store.put("k", b"0", Condition::Is(7)), Err(Refusal::Condition));
        let one = store.put("k", b"1", Condition::Absent).expect("there is none");
        assert_eq!(store.put("k", b"2", Condition::Absent), Err(Refusal::Condition));
        let two = store.put("k", b"2", Condition::Is(one)).expect("it is that one");
        assert_eq!(store.put("k", b"3", Condition::Is(one)), Err(Refusal::Condition));
        assert_eq!(told(&store, "k").as_deref(), Some("2"));
        assert_eq!(store.put("k", b"1", Condition::Always), Ok(one));
        assert_ne!(one, two);
        assert_eq!((store.delete("k"), store.delete("k")), (Ok(()), Ok(())));
        assert!(store.get("k").is_none());
    }

    /// Of clients that add to a number at the same time each adds to what another left.
    #[test]
    fn a_condition_and_its_put_are_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::open(dir.path()).expect("it opens");
        store.put("n", b"0", Condition::Absent).expect("there is none");
        let add = || {
            for _ in 0..25 {
                loop {
                    let object = store.get("n").expect("it is there");
                    let n: u32 = String::from_utf8_lossy(&object.body).parse().expect("a number");
                    if store.put("n", (n + 1).to_string().as_bytes(), Condition::Is(object.tag)).is_ok() {
                        break;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(add);
            }
        });
        assert_eq!(told(&store, "n").as_deref(), Some("100"));
    }

    #[test]
    fn lists() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::open(dir.path()).expect("it opens");
        for key in ["b/2", "a/1", "a/2", "a", "c"] {
            store.put(key, b"", Condition::Always).expect("it is put");
        }
        let check = |prefix: &str, after: &str, expect: &[&str]| {
            let keys: Vec<String> = store.list(prefix, after).into_iter().map(|(key, _)| key).collect();
            assert_eq!(keys, expect, "{prefix} {after}");
        };
        check("", "", &["a", "a/1", "a/2", "b/2", "c"]);
        check("a/", "", &["a/1", "a/2"]);
        check("a/", "a/1", &["a/2"]);
        check("b", "a/1", &["b/2"]);
        check("x", "", &[]);
    }

    /// A journal that ends anywhere comes to what its whole records say, and is gone on with.
    #[test]
    fn a_journal_that_is_cut_short() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::open(dir.path()).expect("it opens");
        for (key, body) in [("a", "1"), ("b", "2"), ("a", "3")] {
            store.put(key, body.as_bytes(), Condition::Always).expect("it is put");
        }
        store.delete("b").expect("it is deleted");
        drop(store);
        let path = dir.path().join("journal");
        let whole = std::fs::read(&path).expect("it is there");
        let record_bytes = HEAD_BYTES + 2;
        let states = [
            [None, None],
            [Some("1"), None],
            [Some("1"), Some("2")],
            [Some("3"), Some("2")],
            [Some("3"), None],
        ];
        for cut in 0..=whole.len() {
            let (objects, end) = replayed(&whole[..cut]);
            let records = if cut == whole.len() { 4 } else { (cut / record_bytes).min(3) };
            let body = |key: &str| {
                let object: Option<&Object> = objects.get(key);
                object.map(|object| std::str::from_utf8(&object.body).expect("text"))
            };
            assert_eq!([body("a"), body("b")], states[records], "cut at {cut}");
            assert_eq!(end as usize, if cut == whole.len() { cut } else { records * record_bytes });
        }
        std::fs::write(&path, &whole[..record_bytes + 7]).expect("it is cut");
        let store = Store::open(dir.path()).expect("it opens");
        store.put("c", b"4", Condition::Absent).expect("it is put");
        drop(store);
        let store = Store::open(dir.path()).expect("it opens");
        let bodies = ["a", "b", "c"].map(|key| told(&store, key));
        assert_eq!(bodies.each_ref().map(Option::as_deref), [Some("1"), None, Some("4")]);
    }
}
