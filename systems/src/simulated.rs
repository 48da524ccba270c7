//! What it takes to simulate a system: its nodes and its client as state machines.
//!
//! Hosts of the simulation are reached by the names of their nodes: `n1`, `n2`, ...

use riprap_core::Key;
use riprap_core::client::{ClientConfig, LocalFuture, Log, LogError};
use riprap_core::cluster::{MemberChange, NodeId};
use riprap_core::plan::TestConfig;
use riprap_core::story::About;
use riprap_core::system::Deployment;
use riprap_env::Node;
use riprap_env::task::Io;
use std::rc::Rc;

/// A setting that swarm testing draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knob {
    /// As in `--set NAME=VALUE`.
    pub name: &'static str,
    /// What it may be; `None` leaves it at its default.
    pub values: Vec<Option<String>>,
}

/// Makes sense of what nodes and clients of one run say, as far as it tells the run's story: records, transactions, who
/// leads. What goes on all the time does not.
pub trait Narrator {
    /// What is said by bytes that are sent on a connection, `asks` if by who opened it. Shape: one for each message.
    fn said(&mut self, connection: usize, asks: bool, bytes: &[u8]) -> Vec<Said>;

    /// What a line of a node's log says of a partition.
    fn logged(&self, line: &str) -> Option<Standing>;
}

/// A message that matters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// What kind of message it is.
    pub about: About,
    /// What it says, in a few words.
    pub what: String,
}

/// What a node is to a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Which.
    pub key: Key,
    /// Whether it leads from now on, if that is what it said.
    pub leads: Option<bool>,
    /// In words.
    pub what: String,
}

/// A system that runs in simulation.
pub trait Simulated: Sync {
    /// A node at the start of a life of its process. The deployment's places are not used.
    fn node(&self, deployment: &Deployment, nodes: u16, node: NodeId) -> Box<dyn Node>;

    /// `host:port` where clients reach a node.
    fn bootstrap(&self, node: NodeId) -> String;

    /// Checks the properties of the simulated client (`--set client.NAME=VALUE`, here without `client.`) before anything is
    /// started. Errors: one line.
    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String>;

    /// A client of it, on a host of its own.
    fn client(&self, io: &Io, config: &ClientConfig) -> Result<Box<dyn Log>, LogError>;

    /// Settings to draw for a run of swarm testing, with `--set`'s names: each with what it may be, drawn evenly. What a
    /// run is given is not among what is asked for. None of them, nor any mix, may break what the system promises under
    /// `config`'s faults.
    fn knobs(&self, _config: &TestConfig) -> Vec<Knob> {
        Vec::new()
    }

    /// Changes the members of a cluster of so many nodes, asked from a host of its own, however long it takes; `tell` is told
    /// how far it is; of a system whose members stay, that. The node that joins is made by [`Simulated::node`], and is not among the `nodes`.
    fn administer(
        &self,
        _io: Io,
        _nodes: u16,
        _change: MemberChange,
        tell: Rc<dyn Fn(String)>,
    ) -> LocalFuture<'static, ()> {
        Box::pin(async move { tell("its members cannot change".to_owned()) })
    }

    /// Bytes on a connection, in a few words: of who opened it (`asks`), or of who answers.
    fn describe(&self, asks: bool, bytes: &[u8]) -> String;

    /// Who makes sense of what is said in a run in which topic and partition stand for a key as `key` says.
    fn narrator(&self, key: fn(&str, i32) -> Option<Key>) -> Box<dyn Narrator>;

    /// Whether the node serves clients, asked from a host of its own; `Err` says what it still waits for.
    fn serves(&self, io: Io, nodes: u16, node: NodeId) -> LocalFuture<'static, Result<(), String>>;
}
