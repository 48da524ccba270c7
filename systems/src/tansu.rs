//! Tansu: stateless agents that speak Kafka's protocol, all over one object store.
//!
//! Each node is an agent that has nothing of its own; one more node is the object store (`objects.rs`), in the role `storage`.
//! Agents do not know of each other: each tells clients that it alone is the cluster, by one and the same number, so that a
//! client that loses one finds another by the list that it began with. What they agree on they agree on by conditional puts.
//!
//! What it cannot see: Tansu over PostgreSQL, SQLite or SlateDB; schemas, and tables of a lake.

mod program;

use crate::librdkafka::{self, KafkaLog};
use crate::{Registered, objects, probe, version};
use riprap_core::client::{ClientConfig, Log, LogError};
use riprap_core::cluster::{NodeId, Role};
use riprap_core::plan::TestConfig;
use riprap_core::system::{Deployment, NodeCommand, System, SystemInfo};
use serde_json::{Value as Json, json};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where agents listen for clients, and the store for agents; each node has an address of its own.
const CLIENT_PORT: u16 = 9092;
const STORAGE_PORT: u16 = 9000;

/// The version that is tested if none is asked for.
const USUAL_VERSION: &str = "0.6.0";
/// The oldest that has been run here.
const MIN_VERSION: [u32; 3] = [0, 6, 0];

/// What all agents of a cluster are to be told alike.
const CLUSTER_ID: &str = "riprap";
/// Where in the store their objects are.
const BUCKET: &str = "riprap";
/// The version whose agents do not serve EndTxn: their answer to ApiVersions lacks it, so that no transaction ends.
const WITHOUT_TXN: &str = "0.6.0";

/// How many brokers an agent knows of: itself.
const KNOWN_BROKERS: usize = 1;

/// The one setting: what agents log, in the language of Rust's `RUST_LOG`.
const LOG_SETTING: &str = "log";
const USUAL_LOG: &str = "warn";

static INFO: SystemInfo = SystemInfo {
    name: "tansu",
    doc: "Tansu, by version (tansu@0.6.0): stateless agents that speak Kafka's protocol, all over one object store, which is a \
          node of its own more (kill:storage; the bundled `riprap objects`). cargo fetches and builds it once, which takes ten \
          minutes or more. --set log=debug says what agents log. Of 0.6.0 transactions (--txn) are refused, which it does not end.",
    defects: Vec::new(),
    errors: librdkafka::ERRORS,
    versions: Some("0.6.0 and newer"),
    controllers: false,
    storage: 1,
};

pub(crate) struct Tansu;

/// The version that a deployment asks for.
fn version(deployment: &Deployment) -> &str {
    deployment.version.as_deref().unwrap_or(USUAL_VERSION)
}

/// Whether it is a version that is run here. Errors: one line.
fn check_version(version: &str) -> Result<(), String> {
    version::check("tansu", version, MIN_VERSION, USUAL_VERSION, "older ones have not been tried")
}

/// Where the store is.
fn storage(deployment: &Deployment) -> SocketAddr {
    let place = deployment.storage().first().expect("there is one");
    SocketAddr::new(place.address, STORAGE_PORT)
}

/// How the store is started: this very program, even if its file has been replaced since.
fn storage_command(deployment: &Deployment, node: NodeId) -> NodeCommand {
    let dir = deployment.place(node).data_dir.display();
    let args =
        vec!["objects".to_owned(), format!("--listen={}", storage(deployment)), format!("--dir={dir}")];
    NodeCommand { program: "/proc/self/exe".into(), args, env: Vec::new() }
}

/// What an agent is told.
fn agent_args(deployment: &Deployment, node: NodeId) -> Vec<String> {
    let listener = format!("tcp://{}:{CLIENT_PORT}", deployment.place(node).address);
    let args = ["broker", "--cluster-id", CLUSTER_ID, "--listener-url", &listener];
    let storage = format!("s3://{BUCKET}/");
    let more = ["--advertised-listener-url", &listener, "--storage-engine", &storage];
    args.into_iter().chain(more).map(str::to_owned).collect()
}

/// What an agent finds in its environment: most of it is where the store is. It asks nobody for a name and a secret, and
/// clients of S3 do not go without.
fn agent_env(deployment: &Deployment) -> Vec<(String, String)> {
    let log = deployment.settings.get(LOG_SETTING).map_or(USUAL_LOG, String::as_str);
    let env = [
        ("AWS_ACCESS_KEY_ID", "riprap"),
        ("AWS_SECRET_ACCESS_KEY", "riprap"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ENDPOINT", &format!("http://{}", storage(deployment))),
        ("RUST_LOG", log),
        ("RUST_BACKTRACE", "1"),
    ];
    env.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

impl System for Tansu {
    fn info(&self) -> &'static SystemInfo {
        &INFO
    }

    fn validate(&self, deployment: &Deployment) -> Result<(), String> {
        check_version(version(deployment))?;
        if deployment.defect.is_some() {
            return Err("--defect: system `tansu` has no planted defects; leave it out".to_owned());
        }
        match deployment.settings.keys().find(|name| *name != LOG_SETTING) {
            Some(name) => Err(format!("unknown setting `{name}`; one of: {LOG_SETTING}")),
            None => Ok(()),
        }
    }

    fn validate_run(&self, run: &TestConfig) -> Result<(), String> {
        let version = run.system.split_once('@').map_or(USUAL_VERSION, |(_, version)| version);
        if run.txn && version == WITHOUT_TXN {
            return Err(format!(
                "tansu@{version} does not end transactions (it serves no EndTxn); workload queue without --txn is right"
            ));
        }
        Ok(())
    }

    fn install(&self, deployment: &Deployment, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        if deployment.program.is_some() {
            return Ok(());
        }
        program::fetch(version(deployment), tell)
    }

    fn installed(&self, deployment: &Deployment) -> Result<Option<PathBuf>, String> {
        program::path(version(deployment)).map(Some)
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        librdkafka::validate(properties)
    }

    fn command(&self, deployment: &Deployment, node: NodeId) -> NodeCommand {
        if deployment.role(node) == Role::Storage {
            return storage_command(deployment, node);
        }
        let installed = || program::path(version(deployment)).expect("it was installed");
        let program = deployment.program.clone().unwrap_or_else(installed);
        NodeCommand { program, args: agent_args(deployment, node), env: agent_env(deployment) }
    }

    fn bootstrap(&self, deployment: &Deployment, node: NodeId) -> String {
        format!("{}:{CLIENT_PORT}", deployment.place(node).address)
    }

    fn serves(&self, deployment: &Deployment, node: NodeId) -> Result<(), String> {
        match deployment.role(node) {
            Role::Storage => {
                objects::serves(storage(deployment)).map_err(|why| format!("{node} is not ready: {why}"))
            }
            _ => probe::knows(deployment, node, CLIENT_PORT, KNOWN_BROKERS),
        }
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(KafkaLog::new(config.clone(), librdkafka::ERRORS)))
    }

    fn versions(&self, deployment: &Deployment) -> Json {
        let tansu = match &deployment.program {
            Some(program) => json!(program),
            None => json!(version(deployment)),
        };
        json!({"tansu": tansu, "librdkafka": rdkafka::util::get_rdkafka_version().1})
    }
}

impl Registered for Tansu {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::deployment;

    fn with_storage(settings: &[(&str, &str)]) -> Deployment {
        Deployment { storage: 1, ..deployment(4, 0, settings) }
    }

    #[test]
    fn versions() {
        let check = |version: &str, expect: Option<&str>| {
            assert_eq!(check_version(version).err().as_deref(), expect, "{version}");
        };
        check("0.6.0", None);
        check("0.10.0", None);
        check("0.5.9", Some("tansu@0.5.9: 0.6.0 or newer is right: older ones have not been tried"));
        check("latest", Some("tansu@latest: no version; one like 0.6.0 is right"));
    }

    #[test]
    fn nodes_have_their_roles() {
        let deployment = Deployment { program: Some("/opt/tansu".into()), ..with_storage(&[]) };
        let command = |n: u16| {
            let NodeCommand { program, args, .. } = Tansu.command(&deployment, NodeId(n));
            format!("{} {}", program.display(), args.join(" "))
        };
        let agent = |n: u16| {
            format!(
                "/opt/tansu broker --cluster-id riprap --listener-url tcp://10.0.0.{n}:9092 --advertised-listener-url \
                 tcp://10.0.0.{n}:9092 --storage-engine s3://riprap/"
            )
        };
        assert_eq!([command(1), command(3)], [agent(1), agent(3)]);
        assert_eq!(command(4), "/proc/self/exe objects --listen=10.0.0.4:9000 --dir=/run/n4/data");
        assert_eq!(Tansu.bootstrap(&deployment, NodeId(2)), "10.0.0.2:9092");
    }

    #[test]
    fn agents_find_their_store() {
        let check = |settings: &[(&str, &str)], expect: [&str; 2]| {
            let env = agent_env(&with_storage(settings));
            let value =
                |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
            assert_eq!([value("AWS_ENDPOINT"), value("RUST_LOG")], expect.map(Some));
        };
        check(&[], ["http://10.0.0.4:9000", "warn"]);
        check(&[("log", "tansu_storage=debug")], ["http://10.0.0.4:9000", "tansu_storage=debug"]);
        let unknown = Tansu.validate(&with_storage(&[("storage", "sqlite")]));
        assert_eq!(unknown.err().as_deref(), Some("unknown setting `storage`; one of: log"));
    }
}
