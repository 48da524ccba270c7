//! A cluster that is there already and speaks Kafka's protocol: nothing of it is riprap's but the topics of a run.

use crate::librdkafka::{self, Admin, KafkaLog};
use crate::{Reach, Registered};
use riprap_core::client::{ClientConfig, Log, LogError};
use riprap_core::cluster::NodeId;
use riprap_core::system::{Deployment, NodeCommand, System, SystemInfo};
use serde_json::{Value as Json, json};

static INFO: SystemInfo = SystemInfo {
    name: "external",
    doc: "A cluster that is there already and speaks Kafka's protocol, reached by --bootstrap HOST:PORT,... from this machine's \
          own network. Workloads and checks are those of any other; its nodes are left alone, so that there are no faults, no \
          logs and no node-crash. --nodes says how many brokers it has. Topics, groups and transactional ids begin with the \
          name of the run, and topics and groups are removed at its end, unless --keep-topics is given.",
    defects: Vec::new(),
    errors: librdkafka::ERRORS,
    versions: None,
    controllers: false,
    storage: 0,
};

pub(crate) struct External;

/// What is about a node is asked of deployed systems only; see [`Registered::existing`].
fn nobody_asks() -> ! {
    unreachable!("the nodes of a cluster that is there already are nobody's to ask for")
}

impl System for External {
    fn info(&self) -> &'static SystemInfo {
        &INFO
    }

    fn validate(&self, deployment: &Deployment) -> Result<(), String> {
        if deployment.defect.is_some() {
            return Err("--defect: system `external` has no planted defects; leave it out".to_owned());
        }
        if deployment.program.is_some() {
            return Err("--bin: system `external` runs already; leave it out".to_owned());
        }
        match deployment.settings.keys().next() {
            Some(name) => Err(format!(
                "--set {name}: system `external` has its settings already; `client.{name}`, of the client library, may be meant"
            )),
            None => Ok(()),
        }
    }

    fn validate_client(&self, properties: &[(String, String)]) -> Result<(), String> {
        librdkafka::validate(properties)
    }

    fn command(&self, _: &Deployment, _: NodeId) -> NodeCommand {
        nobody_asks()
    }

    fn bootstrap(&self, _: &Deployment, _: NodeId) -> String {
        nobody_asks()
    }

    fn serves(&self, _: &Deployment, _: NodeId) -> Result<(), String> {
        nobody_asks()
    }

    fn client(&self, config: &ClientConfig) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(KafkaLog::new(config.clone(), librdkafka::ERRORS)))
    }

    fn versions(&self, _: &Deployment) -> Json {
        json!({"librdkafka": rdkafka::util::get_rdkafka_version().1})
    }
}

impl Registered for External {
    fn existing(&self) -> Option<Reach> {
        Some(Admin::new)
    }
}
