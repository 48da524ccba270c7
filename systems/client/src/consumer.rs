//! The consumer: keys that it took by itself, or that its group gave it.
//!
//! ```text
//! assign      just these keys, and no group
//! subscribe   a member of the group, which gives keys and takes them: each is told by the poll in which it takes effect,
//!             before records that come after
//! poll        what lies ready; if there is nothing, it waits
//! ```
//!
//! Going from one way to the other, the consumer begins anew, and has left its group.
//!
//! Source: Java's KafkaConsumer; riprap's live client, whose calls mean the same.

use crate::admin;
use crate::backoff::ns;
use crate::coordinator::{Finder, Kind};
use crate::core::Core;
use crate::error::unanswered;
use crate::fetch::Fetcher;
use crate::group::{Change, Membership, offsets};
use crate::producer::Producer;
use crate::txn::Commit;
use riprap_core::client::{Committed, LogError, Polled, Progress};
use riprap_core::op::{Key, Offset, Rebalance};
use riprap_env::task::TaskHandle;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A client's consumer; see the module.
pub(crate) struct Consumer {
    core: Rc<Core>,
    fetcher: Rc<Fetcher>,
    group: Rc<Finder>,
    membership: Option<Rc<Membership>>,
    /// The consumer is saying farewell to a group.
    leaving: Option<TaskHandle<()>>,
    /// What no poll has told yet of what the group gave and took: when the consumer left it, or a poll failed.
    parting: Vec<Rebalance>,
}

impl Consumer {
    pub(crate) fn new(core: Rc<Core>) -> Consumer {
        let group = Finder::new(Rc::clone(&core), Kind::Group, core.config.group_id.clone());
        Consumer {
            fetcher: Rc::new(Fetcher::new(Rc::clone(&core))),
            core,
            group: Rc::new(group),
            membership: None,
            leaving: None,
            parting: Vec::new(),
        }
    }

    /// Begins anew, and lets the group know if there is one.
    fn begin_anew(&mut self) {
        self.fetcher.shut_down();
        if let Some(membership) = self.membership.take() {
            let held = self.fetcher.held();
            if !held.is_empty() {
                self.parting.push(Rebalance { kind: "revoked".to_owned(), keys: held });
            }
            membership.shut_down();
            self.leaving = Some(self.core.io.spawn(membership.leave()));
        }
        self.fetcher = Rc::new(Fetcher::new(Rc::clone(&self.core)));
    }

    /// See [`Log::assign`](riprap_core::client::Log::assign).
    pub(crate) fn assign(&mut self, keys: &[Key], from_beginning: bool) {
        if self.membership.is_some() {
            self.begin_anew();
        }
        self.fetcher.assign(keys, from_beginning);
    }

    /// See [`Log::subscribe`](riprap_core::client::Log::subscribe).
    pub(crate) fn subscribe(&mut self, keys: &[Key]) {
        let topics: BTreeSet<Rc<str>> = keys.iter().map(|key| self.core.partition(*key).topic).collect();
        match &self.membership {
            Some(membership) => membership.subscribe(topics),
            None => {
                self.begin_anew();
                let (group, fetcher) = (Rc::clone(&self.group), Rc::clone(&self.fetcher));
                self.membership = Some(Membership::start(Rc::clone(&self.core), group, fetcher, topics));
            }
        }
    }

    /// What the group gave and took takes effect here.
    fn take_in_changes(&mut self, told: &mut Vec<Rebalance>) {
        let Some(membership) = &self.membership else { return };
        membership.polled();
        while let Some(change) = membership.next_change() {
            let (kind, keys) = match change {
                Change::Given(keys) => {
                    self.fetcher.give(&keys);
                    (Rebalance::ASSIGNED, keys)
                }
                Change::Revoked(keys) => {
                    self.fetcher.take_away(&keys);
                    ("revoked", keys)
                }
                Change::Lost(keys) => {
                    self.fetcher.take_away(&keys);
                    ("lost", keys)
                }
            };
            told.push(Rebalance { kind: kind.to_owned(), keys });
            membership.took_in();
        }
    }

    /// See [`Log::poll`](riprap_core::client::Log::poll).
    pub(crate) async fn poll(&mut self) -> Result<Polled, LogError> {
        let by_ns = self.core.io.now_ns() + ns(self.core.config.poll_timeout);
        let mut polled = Polled { rebalance: std::mem::take(&mut self.parting), ..Polled::default() };
        let fetcher = Rc::clone(&self.fetcher);
        loop {
            let arrived = fetcher.arrived.told();
            self.take_in_changes(&mut polled.rebalance);
            match fetcher.take(self.core.config.max_poll_records) {
                Ok(reads) => polled.reads = reads,
                Err(error) => {
                    // What the group gave and took is told all the same, by the next poll that ends well.
                    self.parting = polled.rebalance;
                    return Err(error);
                }
            }
            if !polled.reads.is_empty() || self.core.io.by(by_ns, arrived).await.is_none() {
                return Ok(polled);
            }
        }
    }

    /// See [`Log::commit_offsets`](riprap_core::client::Log::commit_offsets).
    pub(crate) async fn commit_offsets(
        &mut self,
        producer: &mut Producer,
    ) -> Result<Vec<(Key, Offset)>, LogError> {
        let Some(membership) = &self.membership else { return Ok(Vec::new()) };
        let delivered = self.fetcher.delivered();
        if delivered.is_empty() {
            return Ok(Vec::new());
        }
        let commits: Vec<Commit> = delivered
            .iter()
            .map(|(_, tp, at)| Commit { tp: tp.clone(), offset: at.offset, leader_epoch: at.epoch })
            .collect();
        if producer.is_in_txn() {
            producer.send_offsets(&self.group, membership.member(), &commits).await?;
        } else {
            offsets::commit(&self.core, &self.group, membership, &commits).await?;
        }
        Ok(delivered.into_iter().map(|(key, _, at)| (key, Offset(at.offset))).collect())
    }

    /// See [`Log::committed`](riprap_core::client::Log::committed).
    pub(crate) async fn committed(&self, keys: &[Key]) -> Result<Committed, LogError> {
        let by_ns = self.core.ask_deadline_ns();
        let tps: Vec<_> = keys.iter().map(|key| self.core.partition(*key)).collect();
        let mut backoff = self.core.backoff();
        loop {
            let asked = offsets::fetch(&self.core, &self.group, None, &tps, by_ns).await;
            let trouble = match asked {
                Ok(found) => match offsets::first_error(&found) {
                    None => {
                        let of = |tp| found.get(tp).and_then(|found| found.as_ref().ok().copied().flatten());
                        let found = keys.iter().zip(&tps);
                        let found = found.map(|(key, tp)| (*key, of(tp).map(|at| Offset(at.offset))));
                        return Ok(found.collect());
                    }
                    Some(code) => crate::error::Trouble::Code(code),
                },
                Err(trouble) => trouble,
            };
            let is_final = matches!(trouble, crate::error::Trouble::Code(code) if !code.is_retriable());
            if !is_final {
                backoff.pause(&self.core.io, by_ns).await;
            }
            if is_final || self.core.io.now_ns() >= by_ns {
                return Err(unanswered("the question for what the group has committed", trouble));
            }
        }
    }

    /// See [`Log::progress`](riprap_core::client::Log::progress).
    pub(crate) async fn progress(&self) -> Result<Vec<Progress>, LogError> {
        let by_ns = self.core.ask_deadline_ns();
        let mut progress = Vec::new();
        for (key, tp, position) in self.fetcher.positions() {
            let end = admin::end(&self.core, &tp, by_ns).await?;
            progress.push(Progress { key, position: Offset(position), end: Offset(end) });
        }
        Ok(progress)
    }

    pub(crate) fn shut_down(&mut self) {
        self.fetcher.shut_down();
        if let Some(membership) = self.membership.take() {
            membership.shut_down();
        }
        self.leaving = None;
    }
}
