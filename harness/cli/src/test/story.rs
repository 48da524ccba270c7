//! Watches a simulated run from outside, for as long as it may be one whose story can be drawn.

use riprap_core::op::Process;
use riprap_core::story::Seen;
use riprap_core::{History, Kind};
use riprap_results::MAX_STORY_OPS;
use riprap_sim::{HostId, TraceEvent, World};
use riprap_systems::simulated::{Narrator, Said, Simulated};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A run in which more is to be seen than this is none that anybody would look at as a whole, and no longer watched.
const MAX_SEEN: usize = 5_000;

/// What is to be seen of a run.
#[derive(Clone)]
pub(super) struct Story(Rc<RefCell<Watcher>>);

struct Watcher {
    narrator: Box<dyn Narrator>,
    names: Vec<String>,
    /// What is on its way, by connection and sender: the messages of each piece of bytes, by their places in `seen`.
    on_the_way: BTreeMap<(usize, HostId), VecDeque<Vec<usize>>>,
    seen: Vec<Seen>,
    is_over: bool,
}

impl Story {
    pub(super) fn of(simulated: &dyn Simulated) -> Story {
        let narrator = simulated.narrator(riprap_workloads::key_of);
        Story(Rc::new(RefCell::new(Watcher {
            narrator,
            names: Vec::new(),
            on_the_way: BTreeMap::new(),
            seen: Vec::new(),
            is_over: false,
        })))
    }

    /// Has it watch a world in which there is nothing yet.
    pub(super) fn watch(&self, world: &mut World) {
        let watcher = Rc::clone(&self.0);
        world.follow(move |now_ns, event| watcher.borrow_mut().event(now_ns, event));
    }

    /// What was seen, in the order of time; `None` if the run is too large for its story to be drawn.
    pub(super) fn seen(&self, history: &History) -> Option<Vec<Seen>> {
        let clients =
            history.ops().filter(|op| op.process() != Process::Nemesis && op.kind() == Kind::Invoke);
        let watcher = self.0.borrow();
        (!watcher.is_over && clients.count() <= MAX_STORY_OPS).then(|| watcher.seen.clone())
    }
}

impl Watcher {
    fn event(&mut self, now_ns: u64, event: &TraceEvent<'_>) {
        if self.is_over {
            return;
        }
        match event {
            TraceEvent::Added { name, .. } => self.names.push((*name).to_owned()),
            TraceEvent::Send { from, to, pipe, asks, bytes } => {
                let said = self.narrator.said(*pipe, *asks, bytes);
                self.sent(now_ns, *from, *to, *pipe, said);
            }
            TraceEvent::Arrive { from, pipe, .. } => {
                let piece = self.on_the_way.get_mut(&(*pipe, *from)).and_then(VecDeque::pop_front);
                for place in piece.into_iter().flatten() {
                    if let Seen::Message { arrived_ns, .. } = &mut self.seen[place] {
                        *arrived_ns = Some(now_ns);
                    }
                }
            }
            TraceEvent::Host { host, life, what } if self.is_told(*host) => {
                let (host, what) = (self.names[host.0].clone(), (*what).to_owned());
                self.seen.push(Seen::Host { time_ns: now_ns, host, life: *life, what });
            }
            TraceEvent::Log { host, line } if self.is_told(*host) => {
                if let Some(told) = self.narrator.logged(line) {
                    let (host, key) = (self.names[host.0].clone(), told.key.0);
                    let (leads, what) = (told.leads, told.what);
                    self.seen.push(Seen::Partition { time_ns: now_ns, host, key, leads, what });
                }
            }
            _ => {}
        }
        if self.seen.len() > MAX_SEEN {
            self.is_over = true;
            self.seen = Vec::new();
        }
    }

    fn sent(&mut self, now_ns: u64, from: HostId, to: HostId, pipe: usize, said: Vec<Said>) {
        let mut piece = Vec::new();
        if self.is_told(from) && self.is_told(to) {
            for told in said {
                piece.push(self.seen.len());
                self.seen.push(Seen::Message {
                    sent_ns: now_ns,
                    arrived_ns: None,
                    from: self.names[from.0].clone(),
                    to: self.names[to.0].clone(),
                    about: told.about,
                    what: told.what,
                });
            }
        }
        self.on_the_way.entry((pipe, from)).or_default().push_back(piece);
    }

    /// Nodes and clients; not who only asks whether nodes serve.
    fn is_told(&self, host: HostId) -> bool {
        let name = &self.names[host.0];
        name.starts_with(['n', 'c']) && name[1..].bytes().all(|b| b.is_ascii_digit())
    }
}
