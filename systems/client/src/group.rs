//! A consumer as a member of its group.
//!
//! A task of its own joins, says that it lives, and is told what the member is to read. What that changes takes effect in
//! [`Log::poll`], one change after the other: only there the workload learns of it, and only after it was taken in does the
//! task go on, as with Java's consumer, whose callbacks run in its poll. Until then the member keeps what it has, and the group
//! waits for it; a member that does not poll at all leaves after a while ([`max_poll_interval`]).
//!
//! A second task finds out where to go on in partitions that were given.
//!
//! [`Log::poll`]: riprap_core::client::Log::poll
//! [`max_poll_interval`]: crate::Options::max_poll_interval

mod assignor;
mod classic;
mod kip848;
pub(crate) mod offsets;
mod opaque;

use crate::backoff::ns;
use crate::coordinator::Finder;
use crate::core::Core;
use crate::fetch::{Fetcher, Position};
use crate::metadata::Tp;
use crate::options::GroupProtocol;
use crate::txn::Member;
use riprap_core::op::Key;
use riprap_env::task::{Signal, TaskHandle, first};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// A change of what a member reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// These too.
    Given(Vec<Key>),
    /// These no more: the group waits until they are given up.
    Revoked(Vec<Key>),
    /// These no more, and not for some time: others may read them already.
    Lost(Vec<Key>),
}

struct State {
    topics: BTreeSet<Rc<str>>,
    /// How often the topics changed.
    subscriptions: u64,
    /// As whom it commits: the last that it was while it had something to read.
    member: Member,
    /// What the group gave it.
    owned: BTreeSet<Tp>,
    /// What no poll has taken in yet.
    changes: VecDeque<Change>,
    /// When it polled last.
    polled_ns: u64,
    /// The task waits for a poll.
    awaits_poll: bool,
}

/// A member of a group; see the module.
pub(crate) struct Membership {
    core: Rc<Core>,
    group: Rc<Finder>,
    fetcher: Rc<Fetcher>,
    state: RefCell<State>,
    /// Tells the task that something changed on the consumer's side.
    wake: Signal,
    tasks: RefCell<Vec<TaskHandle<()>>>,
}

impl Membership {
    /// Joins the group for these topics.
    pub(crate) fn start(
        core: Rc<Core>,
        group: Rc<Finder>,
        fetcher: Rc<Fetcher>,
        topics: BTreeSet<Rc<str>>,
    ) -> Rc<Membership> {
        let io = core.io.clone();
        let protocol = core.options.group_protocol;
        let state = State {
            topics,
            subscriptions: 0,
            member: Member { id: String::new(), generation: -1 },
            owned: BTreeSet::new(),
            changes: VecDeque::new(),
            polled_ns: io.now_ns(),
            awaits_poll: false,
        };
        let membership = Rc::new(Membership {
            core,
            group,
            fetcher,
            state: RefCell::new(state),
            wake: Signal::default(),
            tasks: RefCell::default(),
        });
        let one = Rc::clone(&membership);
        let member = match protocol {
            GroupProtocol::Eager => io.spawn(classic::run(one, classic::Style::Eager)),
            GroupProtocol::Cooperative => io.spawn(classic::run(one, classic::Style::Cooperative)),
            GroupProtocol::Consumer => io.spawn(kip848::run(one)),
        };
        let finder = io.spawn(find_committed(Rc::clone(&membership)));
        *membership.tasks.borrow_mut() = vec![member, finder];
        membership
    }

    /// Wants other topics.
    pub(crate) fn subscribe(&self, topics: BTreeSet<Rc<str>>) {
        let mut state = self.state.borrow_mut();
        if state.topics != topics {
            state.topics = topics;
            state.subscriptions += 1;
            drop(state);
            self.wake.tell();
        }
    }

    /// The consumer polls.
    pub(crate) fn polled(&self) {
        let mut state = self.state.borrow_mut();
        state.polled_ns = self.core.io.now_ns();
        if std::mem::take(&mut state.awaits_poll) {
            drop(state);
            self.wake.tell();
        }
    }

    /// The oldest change that no poll has taken in; say so with [`Membership::took_in`].
    pub(crate) fn next_change(&self) -> Option<Change> {
        self.state.borrow().changes.front().cloned()
    }

    /// The oldest change has taken effect.
    pub(crate) fn took_in(&self) {
        let mut state = self.state.borrow_mut();
        state.changes.pop_front();
        if state.changes.is_empty() {
            drop(state);
            self.wake.tell();
        }
    }

    /// As whom the consumer commits.
    pub(crate) fn member(&self) -> Member {
        self.state.borrow().member.clone()
    }

    /// Ends the tasks.
    pub(crate) fn shut_down(&self) {
        let tasks = self.tasks.take();
        drop(tasks);
    }

    /// Tells the group that the member leaves; if that does not arrive, the group finds out by itself.
    pub(crate) async fn leave(self: Rc<Membership>) {
        match self.core.options.group_protocol {
            GroupProtocol::Eager | GroupProtocol::Cooperative => classic::leave(&self).await,
            GroupProtocol::Consumer => kip848::leave(&self).await,
        }
    }

    fn topics(&self) -> (BTreeSet<Rc<str>>, u64) {
        let state = self.state.borrow();
        (state.topics.clone(), state.subscriptions)
    }

    fn owned(&self) -> BTreeSet<Tp> {
        self.state.borrow().owned.clone()
    }

    fn is_member(&self, id: &str, generation: i32) {
        self.state.borrow_mut().member = Member { id: id.to_owned(), generation };
    }

    fn keys(&self, tps: &BTreeSet<Tp>) -> Vec<Key> {
        tps.iter().filter_map(|tp| self.core.config.key(&tp.topic, tp.partition)).collect()
    }

    /// The member is to read these too.
    fn give(&self, tps: BTreeSet<Tp>) {
        if tps.is_empty() {
            return;
        }
        let change = Change::Given(self.keys(&tps));
        let mut state = self.state.borrow_mut();
        state.owned.extend(tps);
        state.changes.push_back(change);
        drop(state);
        self.fetcher.arrived.tell();
    }

    /// The member is to read these no more.
    fn take_away(&self, tps: &BTreeSet<Tp>, change: fn(Vec<Key>) -> Change) {
        if tps.is_empty() {
            return;
        }
        let change = change(self.keys(tps));
        let mut state = self.state.borrow_mut();
        state.owned.retain(|tp| !tps.contains(tp));
        state.changes.push_back(change);
        drop(state);
        self.fetcher.arrived.tell();
    }

    /// Whether every change was taken in.
    fn is_settled(&self) -> bool {
        self.state.borrow().changes.is_empty()
    }

    /// When a member that does not poll has to leave.
    fn must_poll_by_ns(&self) -> u64 {
        self.state.borrow().polled_ns.saturating_add(ns(self.core.options.max_poll_interval))
    }

    /// Waits until the consumer polls, and has taken in all there is.
    async fn next_poll(&self) {
        self.state.borrow_mut().awaits_poll = true;
        loop {
            let told = self.wake.told();
            let is_over = {
                let state = self.state.borrow();
                !state.awaits_poll && state.changes.is_empty()
            };
            if is_over {
                return;
            }
            told.await;
        }
    }
}

/// Finds out where to go on.
async fn find_committed(membership: Rc<Membership>) {
    let (core, fetcher) = (&membership.core, &membership.fetcher);
    loop {
        let told = fetcher.wake.told();
        let waiting = fetcher.uncommitted();
        if waiting.is_empty() {
            let again_ns = fetcher.next_uncommitted_ns().unwrap_or(u64::MAX);
            first(told, core.io.sleep_until(again_ns)).await;
            continue;
        }
        drop(told);
        let tps: Vec<Tp> = waiting.iter().map(|(tp, _)| tp.clone()).collect();
        let member = membership.member();
        // A coordinator of a classic group does not ask who wants to know.
        let member = Some(&member).filter(|_| core.options.group_protocol == GroupProtocol::Consumer);
        let by_ns = core.io.now_ns() + core.request_timeout_ns();
        let found = offsets::fetch(core, &membership.group, member, &tps, by_ns).await.unwrap_or_default();
        for (tp, generation) in waiting {
            let position = match found.get(&tp) {
                Some(Ok(committed)) => Some(committed.unwrap_or(Position::BEGINNING)),
                Some(Err(_)) | None => None,
            };
            fetcher.committed(&tp, generation, position);
        }
    }
}
