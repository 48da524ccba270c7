//! An administrator of a cluster that others use too: whether it serves, and the end of what a run has made there.

use super::{ASK_TIMEOUT, COMMON, CREATE_TIMEOUT, code_name};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use riprap_core::client::block_on;
use std::time::Duration;

/// How long one question whether the cluster serves may take.
const SERVES_TIMEOUT: Duration = Duration::from_secs(2);
/// A group can be removed once it has no members: those that are being thrown away leave it within a moment, and who does not
/// is thrown out after its session. It is tried so often, with such a pause.
const GROUP_TRIES: u32 = 40;
const GROUP_PAUSE: Duration = Duration::from_millis(250);

/// See the module.
pub struct Admin {
    bootstrap: String,
    client: AdminClient<DefaultClientContext>,
}

impl Admin {
    /// An administrator that has not connected to anything yet; see [`crate::Reach`].
    pub fn new(bootstrap: &[String], properties: &[(String, String)]) -> Result<Admin, String> {
        let bootstrap = bootstrap.join(",");
        let mut config = rdkafka::ClientConfig::new();
        let common = COMMON.iter().map(|(name, value)| (*name, *value));
        let given = properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in common.chain(given) {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &bootstrap).set("client.id", "riprap-admin");
        config.set_log_level(RDKafkaLogLevel::Critical);
        let client = config
            .create()
            .map_err(|e: KafkaError| format!("failed to make a client of {bootstrap}: {e}"))?;
        Ok(Admin { bootstrap, client })
    }

    /// Whether the cluster has so many brokers, and a leader of every partition of the topics whose names begin so. What
    /// others' topics lack is theirs. Errors: what it still waits for.
    pub fn serves(&self, brokers: usize, namespace: &str) -> Result<(), String> {
        let bootstrap = &self.bootstrap;
        let metadata = self.client.inner().fetch_metadata(None, SERVES_TIMEOUT);
        let metadata = metadata.map_err(|e| format!("{bootstrap} does not answer: {e}"))?;
        let known = metadata.brokers().len();
        if known < brokers {
            return Err(format!(
                "{bootstrap} knows {known} of {brokers} brokers; --nodes says how many there are"
            ));
        }
        for topic in metadata.topics().iter().filter(|topic| topic.name().starts_with(namespace)) {
            let has_no_leader = |leader: i32| leader < 0;
            if let Some(partition) =
                topic.partitions().iter().find(|partition| has_no_leader(partition.leader()))
            {
                return Err(format!("{bootstrap} knows no leader of {}-{}", topic.name(), partition.id()));
            }
        }
        Ok(())
    }

    /// Removes a group, once its members are gone, and the topics whose names begin so. Errors: what is left, in a line.
    pub fn remove(&self, namespace: &str, group: &str) -> Result<(), String> {
        let group = self.remove_group(group);
        let topics = self.remove_topics(namespace);
        topics.and(group)
    }

    /// The topics whose names begin so. Errors: one line.
    pub fn topics(&self, namespace: &str) -> Result<Vec<String>, String> {
        let metadata = self.client.inner().fetch_metadata(None, ASK_TIMEOUT);
        let metadata = metadata.map_err(|e| format!("{} does not answer: {e}", self.bootstrap))?;
        let topics = metadata.topics().iter().map(|topic| topic.name());
        Ok(topics.filter(|name| name.starts_with(namespace)).map(str::to_owned).collect())
    }

    fn remove_topics(&self, namespace: &str) -> Result<(), String> {
        let topics = self.topics(namespace).map_err(|e| format!("topics {namespace}*: {e}"))?;
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        if topics.is_empty() {
            return Ok(());
        }
        let removed = block_on(self.client.delete_topics(&topics, &options()));
        for topic in removed.map_err(|e| format!("topics {namespace}*: {e}"))? {
            match topic {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((topic, code)) => return Err(format!("topic {topic}: {}", code_name(code))),
            }
        }
        Ok(())
    }

    fn remove_group(&self, group: &str) -> Result<(), String> {
        let mut left = String::new();
        for _ in 0..GROUP_TRIES {
            let removed = block_on(self.client.delete_groups(&[group], &options()));
            match removed.map_err(|e| format!("group {group}: {e}"))?.into_iter().next() {
                None | Some(Ok(_) | Err((_, RDKafkaErrorCode::GroupIdNotFound))) => return Ok(()),
                Some(Err((_, code))) => left = format!("group {group}: {}", code_name(code)),
            }
            std::thread::sleep(GROUP_PAUSE);
        }
        Err(left)
    }
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .operation_timeout(Some(CREATE_TIMEOUT))
        .request_timeout(Some(CREATE_TIMEOUT + ASK_TIMEOUT))
}
