//! Watches a simulated run from outside, for as long as it may be one whose story can be drawn.

use riprap_core::History;
use riprap_core::story::Seen;
use riprap_results::{MAX_STORY_OPS, story_ops};
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
        let watcher = self.0.borrow();
        (!watcher.is_over && story_ops(history) <= MAX_STORY_OPS).then(|| watcher.seen.clone())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::test::{Test, sim};
    use clap::Parser as _;
    use riprap_results::Progress;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    /// Nobody ends the run or writes it down.
    struct Idle;

    impl sim::Watch for Idle {
        fn op(&mut self, _: &riprap_core::Op) -> Result<(), String> {
            Ok(())
        }

        fn time(&mut self, _: u64) -> Result<(), String> {
            Ok(())
        }
    }

    /// The narrator reads lines that are the broker's to change: here a real one says them.
    #[test]
    fn what_brokers_log_of_partitions_is_understood() {
        let words = "riprap test --sim --seed 1 --keys 1 --rate 2 --nemesis kill:one --time-limit 12s --fault-time 6s \
                     --set replica.lag.time.max.ms=1000";
        let Command::Test(args) = Cli::try_parse_from(words.split_whitespace()).expect("it is right").command
        else {
            unreachable!("it asked for a test")
        };
        let test = Test::resolve(&args).expect("it is right");
        let story = Story::of(test.simulated.expect("it is simulated"));
        let (silent, never) = (RefCell::new(Progress::silent()), AtomicBool::new(false));
        let logs = Some(riprap_env::LogLevel::Info);
        let outcome = sim::simulate(&test, &mut Idle, &silent, &never, logs, |world| story.watch(world));
        let outcome = outcome.expect("the harness is whole");
        let seen = story.seen(&outcome.history).expect("it is a small run");
        let said: BTreeSet<String> = seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Partition { leads, what, .. } => {
                    Some(format!("{leads:?} {}", what.split_whitespace().next().unwrap_or_default()))
                }
                _ => None,
            })
            .collect();
        let all = ["None ISR", "Some(false) follows", "Some(true) leads,"];
        assert_eq!(said.iter().map(String::as_str).collect::<Vec<_>>(), all);
        // And of keys it says nothing else of that kind that is not understood.
        let narrator = test.simulated.expect("it is simulated").narrator(riprap_workloads::key_of);
        let is_of_key = |name: &str| {
            let (topic, partition) = name.rsplit_once('-').unwrap_or_default();
            partition.parse().is_ok_and(|partition| riprap_workloads::key_of(topic, partition).is_some())
        };
        let mut told = 0;
        for line in outcome.logs.iter().flat_map(|(_, log)| log.lines()) {
            let Some((_, line)) = line.trim_start().split_once(' ') else { continue };
            let Some((name, what)) = line.split_once(' ').and_then(|(_, said)| said.split_once(": ")) else {
                continue;
            };
            if is_of_key(name) && ["leads ", "follows ", "isr "].iter().any(|word| what.starts_with(word)) {
                assert!(narrator.logged(line).is_some(), "{line}");
                told += 1;
            }
        }
        assert!(told >= all.len());
    }
}
