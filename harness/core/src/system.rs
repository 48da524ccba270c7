//! What a system under test is: how it is put on nodes, started, reached, and what its errors mean.

use crate::client::{ClientConfig, Log, LogError};
use crate::cluster::{ClusterError, MemberChange, NodeId, Role};
use crate::plan::TestConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a setting of the clients, rather than of the system, begins with: `--set client.linger.ms=5`.
pub const CLIENT_SETTING: &str = "client.";

/// A planted defect of a bundled system, re-creating a documented bug.
#[derive(Debug)]
pub struct DefectInfo {
    /// As in `--defect NAME`.
    pub name: &'static str,
    /// The bug that it re-creates: report, issue or KIP.
    pub source: &'static str,
    /// What goes wrong inside.
    pub mechanism: &'static str,
    /// What brings it out: flags of `riprap test`.
    pub trigger: &'static str,
    /// The anomalies that a checker then finds, the most telling first.
    pub anomalies: &'static [&'static str],
}

/// What an error proves. An error that no rule names is indefinite.
#[derive(Debug)]
pub struct ErrorRule {
    /// The system's name of the error.
    pub code: &'static str,
    /// Whether it proves that nothing happened and nothing will.
    pub definite: bool,
    /// Why, with a source.
    pub reason: &'static str,
}

/// What the registry knows of a system.
#[derive(Debug)]
pub struct SystemInfo {
    /// As in `--system NAME`.
    pub name: &'static str,
    /// One paragraph.
    pub doc: &'static str,
    /// Its planted defects, sorted by name.
    pub defects: Vec<DefectInfo>,
    /// What its errors prove, sorted by code.
    pub errors: &'static [ErrorRule],
    /// Which versions there are to choose from, in words; none if it is part of this program, or the user's.
    pub versions: Option<&'static str>,
    /// Whether it can be deployed with nodes that are controllers and no more.
    pub controllers: bool,
    /// How many more nodes it has that keep what the others have no place for.
    pub storage: u16,
}

/// Where one node lives.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodePlace {
    /// Which node.
    pub id: NodeId,
    /// The address that other nodes and clients reach it by.
    pub address: std::net::IpAddr,
    /// A folder of its own that outlives its process, with its data.
    pub data_dir: PathBuf,
    /// Where its logs are kept, its output among them.
    pub log_dir: PathBuf,
}

/// A system as one run asks for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Deployment {
    /// Its nodes, in order: brokers, then those that are controllers and no more, then those that keep what others have no
    /// place for.
    pub nodes: Vec<NodePlace>,
    /// How many of them are controllers and no more; with none, brokers do what there is to do.
    pub controllers: u16,
    /// How many of them keep what others have no place for.
    pub storage: u16,
    /// A node that is none of these, and can join them as a broker.
    pub spare: Option<NodePlace>,
    /// The version of the system, if one is asked for.
    pub version: Option<String>,
    /// The planted defect, if any.
    pub defect: Option<String>,
    /// `--set NAME=VALUE`, without the clients' own.
    pub settings: BTreeMap<String, String>,
    /// The run's seed, for systems whose nodes take one.
    pub seed: u64,
    /// The program to run as the system, where it is not the bundled one.
    pub program: Option<PathBuf>,
}

impl Deployment {
    /// Where a node lives. Panics: not a node of this deployment.
    pub fn place(&self, node: NodeId) -> &NodePlace {
        let mut places = self.nodes.iter().chain(&self.spare);
        places.find(|place| place.id == node).expect("a node of this deployment")
    }

    /// Whether it is the node that can join the others.
    pub fn is_spare(&self, node: NodeId) -> bool {
        self.spare.as_ref().is_some_and(|place| place.id == node)
    }

    /// The nodes that clients reach.
    pub fn brokers(&self) -> &[NodePlace] {
        &self.nodes[..self.nodes.len() - usize::from(self.controllers + self.storage)]
    }

    /// The nodes that are controllers and no more.
    pub fn controllers(&self) -> &[NodePlace] {
        &self.nodes[self.brokers().len()..self.nodes.len() - usize::from(self.storage)]
    }

    /// The nodes that keep what others have no place for.
    pub fn storage(&self) -> &[NodePlace] {
        &self.nodes[self.nodes.len() - usize::from(self.storage)..]
    }

    /// What a node is. Panics: not a node of this deployment.
    pub fn role(&self, node: NodeId) -> Role {
        let _ = self.place(node);
        let is_in = |places: &[NodePlace]| places.iter().any(|place| place.id == node);
        if is_in(self.controllers()) {
            Role::Controller
        } else if is_in(self.storage()) {
            Role::Storage
        } else {
            Role::Broker
        }
    }
}

/// How a node's process is started.
#[derive(Clone, Debug)]
pub struct NodeCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
}

/// How a node is told another time than the machine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockVia {
    /// By a file that this option names, with how many milliseconds its clock is off; it writes to a file of the same name and
    /// `.seen` what it goes by.
    Option(&'static str),
    /// It asks the C library, in whose place another can answer.
    Preloaded,
    /// Not at all, and why.
    Machine(&'static str),
}

/// Whoever has a change of a live cluster's members carried out.
pub trait Overseer {
    /// Hears how far it is, in words; what is told last is how it ended.
    fn tell(&mut self, how_far: String);

    /// Whether it is to be left where it is.
    fn is_over(&self) -> bool;

    /// Ends a node's process in order; it does not come back.
    fn end_node(&mut self, node: NodeId) -> Result<(), ClusterError>;
}

/// A system under test. It never sees an op.
pub trait System: Sync {
    /// What the registry knows of it.
    fn info(&self) -> &'static SystemInfo;

    /// Checks what only this system can check (`--set` names, versions) before anything is started.
    /// Errors: one line with what would have been right.
    fn validate(&self, deployment: &Deployment) -> Result<(), String>;

    /// Checks whether clients can do what the run asks of them (transactions, groups, acknowledgements, replicas) before
    /// anything is started. Errors: one line with what would have been right.
    fn validate_run(&self, _run: &TestConfig) -> Result<(), String> {
        Ok(())
    }

    /// Fetches what the system is made of, if that is not there yet. Called before there is a sandbox, which reaches no
    /// network; `tell` is told how far it is. Errors: one line.
    fn install(&self, _deployment: &Deployment, _tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        Ok(())
    }

    /// What [`install`](System::install) has fetched and nodes need: a file or a folder of the cache. `None` if that is nothing,
    /// or what every machine must have by itself. Errors: one line.
    fn installed(&self, _deployment: &Deployment) -> Result<Option<PathBuf>, String> {
        Ok(None)
    }

    /// Writes what these nodes, which live on this machine, need in their folders before they start for the first time. Errors:
    /// one line.
    fn prepare(&self, _deployment: &Deployment, _nodes: &[NodeId]) -> Result<(), String> {
        Ok(())
    }

    /// Checks the properties of the client library (`--set client.NAME=VALUE`, here without `client.`) before anything is
    /// started. Errors: one line.
    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String>;

    /// The command that runs a node.
    fn command(&self, deployment: &Deployment, node: NodeId) -> NodeCommand;

    /// How a node is told another time.
    fn clock(&self) -> ClockVia {
        ClockVia::Preloaded
    }

    /// `host:port` where clients reach a node.
    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String;

    /// Whether the node serves clients now. Blocks for a second at most; `Err` says what it still waits for.
    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String>;

    /// Whether a node can join it while it runs, and leave it again.
    fn can_be_joined(&self) -> bool {
        false
    }

    /// Changes its members as an administrator would, however long that takes, until it is done or over; never called unless it
    /// can be joined. Blocks.
    fn administer(&self, _deployment: &Deployment, _change: MemberChange, _overseer: &mut dyn Overseer) {}

    /// A client of it.
    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError>;

    /// Texts that a node's logs have when it is broken, though its process may go on.
    fn broken(&self) -> &[String] {
        &[]
    }

    /// The file that describes it, as it was read; `None` if it is built in.
    fn description(&self) -> Option<&str> {
        None
    }

    /// What this system adds to `test.json`: versions of what really ran.
    fn versions(&self, deployment: &Deployment) -> Json;
}
