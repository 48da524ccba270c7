//! The backing folder against a model that knows what each file and the names were after each step.

use super::*;
use rand::seq::IndexedRandom as _;
use riprap_core::Seed;
use std::collections::BTreeSet;
use tempfile::TempDir;

/// What a file was since it was last synced, and what it may not be older than.
#[derive(Clone, Default)]
struct Known {
    /// The first is durable.
    states: Vec<Vec<u8>>,
    /// Between two states, a write: where it began, and what it wrote.
    writes: Vec<Option<(usize, Vec<u8>)>>,
}

impl Known {
    fn now(&self) -> &[u8] {
        self.states.last().expect("there is always one")
    }

    fn becomes(&mut self, state: Vec<u8>, write: Option<(usize, Vec<u8>)>) {
        self.states.push(state);
        self.writes.push(write);
    }

    fn synced(&mut self) {
        (self.states, self.writes) = (vec![self.now().to_vec()], Vec::new());
    }

    /// Whether it may be so after a power failure.
    fn may_be(&self, found: &[u8]) -> bool {
        self.states.iter().any(|state| state == found)
            || self.states.iter().zip(&self.writes).any(|(state, write)| {
                let Some((offset, bytes)) = write else { return false };
                (0..bytes.len()).any(|first| wrote(state, *offset, &bytes[..first]) == found)
            })
    }
}

fn wrote(state: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut state = state.to_vec();
    if !bytes.is_empty() {
        state.resize(state.len().max(offset + bytes.len()), 0);
        state[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    state
}

type Names = BTreeMap<&'static str, Ino>;

struct Model {
    folder: TempDir,
    backing: Backing,
    files: BTreeMap<Ino, Known>,
    /// What the names were since they were last synced.
    names: Vec<Names>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Model {
    fn new() -> Model {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["root", "removed"] {
            fs::create_dir(folder.path().join(name)).expect("ours");
        }
        let backing = Backing::new(folder.path().join("root"), folder.path().join("removed"));
        Model { folder, backing, files: BTreeMap::new(), names: vec![Names::new()] }
    }

    fn names_become(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names.last().expect("there is always one").clone();
        change(&mut names);
        self.names.push(names);
    }

    fn step(&mut self, random: &mut Stream) {
        let names = self.names.last().expect("there is always one").clone();
        let name = *NAMES.choose(random).expect("some");
        let Some(ino) = names.get(name).copied() else {
            let ino = self.backing.create(ROOT, name.as_ref(), 0o600, false).expect("it is not there");
            self.files.insert(ino, Known { states: vec![Vec::new()], writes: Vec::new() });
            return self.names_become(|names| {
                names.insert(name, ino);
            });
        };
        let known = self.files.get_mut(&ino).expect("it was made");
        let now = known.now().to_vec();
        match random.random_range(0..10) {
            0..5 => {
                let offset = random.random_range(0..=now.len() + 3);
                let bytes: Vec<u8> =
                    (0..random.random_range(1..9)).map(|_| random.random_range(b'a'..=b'z')).collect();
                let written = self.backing.write(ino, offset as u64, &bytes).expect("there is room");
                assert_eq!(written, bytes.len());
                known.becomes(wrote(&now, offset, &bytes), Some((offset, bytes)));
            }
            5 => {
                let len = random.random_range(0..=now.len() + 3);
                self.backing.set_len(ino, len as u64).expect("it can");
                let mut now = now;
                now.resize(len, 0);
                known.becomes(now, None);
            }
            6 => {
                self.backing.remove(ROOT, name.as_ref(), false).expect("it is there");
                self.names_become(|names| {
                    names.remove(name);
                });
            }
            7 => {
                let to = *NAMES.choose(random).expect("some");
                self.backing.rename((ROOT, name.as_ref()), (ROOT, to.as_ref())).expect("it is there");
                if name != to {
                    self.names_become(|names| {
                        names.remove(name);
                        names.insert(to, ino);
                    });
                }
            }
            _ => {
                let mark = self.backing.mark(ino).expect("it is there");
                self.backing.synced(ino, mark).expect("there is power");
                known.synced();
                self.names = vec![names];
            }
        }
        let shown = self.backing.read(ino, 0, 1 << 10).expect("it can be read");
        assert_eq!(shown, self.files[&ino].now());
    }

    /// The power fails. Returns how many names were lost.
    fn fail(&mut self, random: &mut Stream) -> u64 {
        let fallen = self.backing.power_fail(random).expect("it can");
        let root = self.folder.path().join("root");
        let found: BTreeSet<String> = fs::read_dir(&root)
            .expect("ours")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
            .collect();
        let lost = fallen.lost.names as usize;
        let left = self.names[self.names.len() - 1 - lost].clone();
        assert_eq!(found, left.keys().map(|name| (*name).to_owned()).collect(), "{lost} changes are lost");
        assert_eq!(fs::read_dir(self.folder.path().join("removed")).expect("ours").count(), 0);
        let mut files = BTreeMap::new();
        let mut names = Names::new();
        for (name, ino) in left {
            let content = fs::read(root.join(name)).expect("it is there");
            assert!(
                self.files[&ino].may_be(&content),
                "{name} has {content:?}: {:?}",
                self.files[&ino].states
            );
            let ino = self.backing.lookup(ROOT, name.as_ref()).expect("it is there").0;
            files.insert(ino, Known { states: vec![content], writes: Vec::new() });
            names.insert(name, ino);
        }
        (self.files, self.names) = (files, vec![names]);
        fallen.lost.names
    }
}

#[test]
fn what_is_left_was_there_at_some_moment_since_the_last_sync() {
    let mut lost = BTreeSet::new();
    for seed in 0..150 {
        let mut random = Seed(seed).stream("test", "backing");
        let mut model = Model::new();
        for _ in 0..3 {
            for _ in 0..random.random_range(0..25) {
                model.step(&mut random);
            }
            lost.insert(model.fail(&mut random));
        }
    }
    assert!(lost.len() > 3, "{lost:?}");
}

#[test]
fn what_replaces_another_file_is_written_before_it_does() {
    let mut replaced = 0;
    for seed in 0..40 {
        let mut random = Seed(seed).stream("test", "replace");
        let mut model = Model::new();
        let [old, new] =
            ["old", "new"].map(|name| model.backing.create(ROOT, name.as_ref(), 0o600, false).expect("new"));
        model.backing.write(old, 0, b"old").expect("room");
        let mark = model.backing.mark(old).expect("there");
        model.backing.synced(old, mark).expect("power");
        model.backing.write(new, 0, b"new").expect("room");
        model.backing.rename((ROOT, "new".as_ref()), (ROOT, "old".as_ref())).expect("there");
        model.backing.power_fail(&mut random).expect("it can");
        let left = fs::read(model.folder.path().join("root/old")).expect("there is one");
        assert!(left == b"old" || left == b"new", "{left:?}");
        replaced += u32::from(left == b"new");
    }
    assert!((1..40).contains(&replaced), "{replaced}");
}

#[test]
fn nothing_becomes_durable_without_power() {
    let mut model = Model::new();
    let ino = model.backing.create(ROOT, "a".as_ref(), 0o600, false).expect("new");
    let mark = model.backing.mark(ino).expect("there");
    model.backing.cut_power();
    assert_eq!(model.backing.synced(ino, mark).expect_err("none").raw_os_error(), Some(libc::EIO));
    model.backing.power_fail(&mut Seed(1).stream("test", "power")).expect("it can");
    let ino = model.backing.create(ROOT, "b".as_ref(), 0o600, false).expect("new");
    let mark = model.backing.mark(ino).expect("there");
    model.backing.synced(ino, mark).expect("it is back");
}
