//! One node whose peers are what the test says.

use crate::node::{DIR, MS, NodeEnv};
use bytes::Bytes;
use riprap_coord::{Body, Config, Entry, Index, Life, Message, NodeId, Raft, Ready, Term};

pub(crate) const A: NodeId = NodeId(1);
pub(crate) const B: NodeId = NodeId(2);
pub(crate) const C: NodeId = NodeId(3);

/// Node 1 of three; the test speaks for the others.
pub(crate) struct One {
    pub(crate) raft: Raft,
    pub(crate) env: NodeEnv,
    pub(crate) now_ns: u64,
}

pub(crate) fn config() -> Config {
    let mut config = Config::new(A, vec![A, B, C]);
    config.election_timeout_ns = 100 * MS;
    config.heartbeat_interval_ns = 20 * MS;
    config
}

pub(crate) fn entry(index: u64, term: u64) -> Entry {
    Entry { index: Index(index), term: Term(term), payload: Bytes::from(format!("{index}.{term}")) }
}

pub(crate) fn append(prev: (u64, u64), commit: u64, entries: Vec<Entry>) -> Body {
    Body::Append { prev_index: Index(prev.0), prev_term: Term(prev.1), commit: Index(commit), entries }
}

pub(crate) fn accepted(match_index: u64) -> Body {
    Body::AppendAccepted { match_index: Index(match_index) }
}

impl One {
    /// A node that counts, as if its disk had never been empty.
    pub(crate) fn new(config: Config) -> One {
        let mut one = One::newcomer(config.clone());
        if config.voters.contains(&B) {
            one.hear(B, 0, append((0, 0), 0, vec![]));
            let life = one.settle().messages.remove(0).1.newcomer.expect("its disk was empty");
            one.hear(B, 0, Body::Admit { life });
            one.settle();
            one.raft = Raft::open(config, &mut one.env, DIR, 0).expect("what it left opens");
        }
        one
    }

    /// A node whose disk is empty.
    pub(crate) fn newcomer(config: Config) -> One {
        let mut env = NodeEnv::new(0, A);
        let raft = Raft::open(config, &mut env, DIR, 0).expect("an empty disk opens");
        One { raft, env, now_ns: 0 }
    }

    pub(crate) fn hear(&mut self, from: NodeId, term: u64, body: Body) {
        self.hear_late(from, term, self.now_ns, body);
    }

    /// Hears what was asked at `asked_ns`, or answers what was.
    pub(crate) fn hear_late(&mut self, from: NodeId, term: u64, asked_ns: u64, body: Body) {
        self.hear_as(from, term, asked_ns, None, body);
    }

    /// Hears what a life of a newcomer says.
    pub(crate) fn hear_as(
        &mut self,
        from: NodeId,
        term: u64,
        asked_ns: u64,
        newcomer: Option<Life>,
        body: Body,
    ) {
        let message = Message { term: Term(term), asked_ns, newcomer, body };
        self.raft.step(self.now_ns, from, message, &mut self.env);
    }

    pub(crate) fn settle(&mut self) -> Ready {
        self.raft.settle(self.now_ns, &mut self.env).expect("the disk works")
    }

    /// What it sends to B when settling.
    pub(crate) fn answers(&mut self) -> Vec<Body> {
        let messages = self.settle().messages.into_iter();
        messages.filter(|(to, _)| *to == B).map(|(_, message)| message.body).collect()
    }

    pub(crate) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
        self.raft.tick(self.now_ns, &mut self.env);
    }

    /// Makes it the leader of the term after its own, by the votes of `voter`.
    pub(crate) fn win(&mut self, voter: NodeId) -> Ready {
        self.wait(200 * MS);
        let (term, next) = (self.raft.term().0, self.raft.term().0 + 1);
        self.hear(voter, term, Body::PreVoteResponse { for_term: Term(next), granted: true });
        self.settle();
        self.hear(voter, next, Body::VoteResponse { granted: true });
        assert!(self.raft.is_leader());
        self.settle()
    }
}
