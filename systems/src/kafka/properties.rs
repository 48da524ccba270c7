//! A node's `server.properties`: what riprap decides, and what was set.

use super::{CLIENT_PORT, CONTROLLER_PORT};
use riprap_core::cluster::{NodeId, Role};
use riprap_core::system::Deployment;
use std::collections::BTreeMap;

/// What names a node and its place: nobody else's to set.
const OURS: &[&str] = &[
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
    "broker.id",
    "process.roles",
];

/// Partitions of the internal topics. Kafka's 50 each take longer to settle after each fault than they add.
const INTERNAL_PARTITIONS: &str = "4";

/// Whether a property may be set so. Errors: one line.
pub(super) fn check(name: &str, value: &str) -> Result<(), String> {
    if name.starts_with(FEATURE) && value.parse::<u16>().is_err() {
        return Err(format!("--set {name}={value}: a feature has a level; a whole number is right"));
    }
    if OURS.contains(&name) {
        return Err(format!("--set {name}: riprap sets it itself; leave it out"));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!(
            "--set {name}: no name of a property; letters, digits, `.`, `_` and `-` are right"
        ));
    }
    Ok(())
}

/// What begins the name of a feature, whose level is set when disks are formatted: `feature.transaction.version=1`.
const FEATURE: &str = "feature.";

/// The features with their levels that were set, as the formatter takes them: `transaction.version=1`.
pub(super) fn features(deployment: &Deployment) -> Vec<String> {
    let set = deployment.settings.iter();
    set.filter_map(|(name, level)| Some(format!("{}={level}", name.strip_prefix(FEATURE)?))).collect()
}

/// A node's file. What was set wins over what riprap would like.
pub(super) fn file(deployment: &Deployment, node: NodeId) -> String {
    let place = deployment.place(node);
    let copies = deployment.brokers().len().min(3);
    // Where no node is a controller alone, each is one besides.
    let apart = deployment.controllers > 0;
    let controllers = if apart { deployment.controllers() } else { &deployment.nodes };
    let voters: Vec<String> =
        controllers.iter().map(|peer| format!("{}@{}:{CONTROLLER_PORT}", peer.id.0, peer.address)).collect();
    let address = place.address;
    let for_clients = format!("CLIENT://{address}:{CLIENT_PORT}");
    let for_control = format!("CONTROLLER://{address}:{CONTROLLER_PORT}");
    let (roles, listeners) = match deployment.role(node) {
        Role::Controller | Role::Storage => ("controller", for_control),
        Role::Broker if apart || deployment.is_spare(node) => ("broker", for_clients),
        Role::Broker => ("broker,controller", format!("{for_clients},{for_control}")),
    };
    let mut properties: BTreeMap<String, String> = [
        ("auto.create.topics.enable", "false".to_owned()),
        ("default.replication.factor", copies.to_string()),
        // Members of a test come and go: the wait for others to join would be all that a short run sees.
        ("group.initial.rebalance.delay.ms", "0".to_owned()),
        ("min.insync.replicas", copies.min(2).to_string()),
        ("offsets.topic.num.partitions", INTERNAL_PARTITIONS.to_owned()),
        ("offsets.topic.replication.factor", copies.to_string()),
        ("transaction.state.log.min.isr", copies.min(2).to_string()),
        ("transaction.state.log.num.partitions", INTERNAL_PARTITIONS.to_owned()),
        ("transaction.state.log.replication.factor", copies.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let set = deployment.settings.iter().filter(|(name, _)| !name.starts_with(FEATURE));
    properties.extend(set.map(|(name, value)| (name.clone(), value.clone())));
    let mut ours = vec![
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("controller.quorum.voters", voters.join(",")),
        ("listener.security.protocol.map", "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned()),
        ("listeners", listeners),
        ("log.dirs", place.data_dir.join("log").display().to_string()),
        ("node.id", node.0.to_string()),
        ("process.roles", roles.to_owned()),
    ];
    if deployment.role(node) == Role::Broker {
        ours.push(("inter.broker.listener.name", "CLIENT".to_owned()));
    }
    properties.extend(ours.into_iter().map(|(name, value)| (name.to_owned(), value)));
    properties.iter().map(|(name, value)| format!("{name}={}\n", escaped(value))).collect()
}

/// A value as Java's properties have it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::deployment;

    #[test]
    fn what_is_set_wins_but_not_over_a_nodes_place() {
        let set = [("min.insync.replicas", "1"), ("log.flush.interval.messages", "1")];
        let file = file(&deployment(3, 0, &set), NodeId(2));
        let lines: Vec<&str> = file.lines().collect();
        for line in [
            "min.insync.replicas=1",
            "log.flush.interval.messages=1",
            "node.id=2",
            "controller.quorum.voters=1@10.0.0.1:9093,2@10.0.0.2:9093,3@10.0.0.3:9093",
            "listeners=CLIENT://10.0.0.2:9092,CONTROLLER://10.0.0.2:9093",
            "log.dirs=/run/n2/data/log",
            "offsets.topic.replication.factor=3",
        ] {
            assert!(lines.contains(&line), "{line} is not in\n{file}");
        }
        assert_eq!(
            check("node.id", "1").err().as_deref(),
            Some("--set node.id: riprap sets it itself; leave it out")
        );
        assert!(check("a b", "").is_err() && check("log.flush.interval.messages", "1").is_ok());
    }

    #[test]
    fn controllers_may_be_nodes_of_their_own() {
        let check = |node: u16, expect: &[&str]| {
            let file = file(&deployment(5, 2, &[]), NodeId(node));
            for line in expect {
                assert!(file.lines().any(|found| found == *line), "{line} is not in\n{file}");
            }
        };
        let voters = "controller.quorum.voters=4@10.0.0.4:9093,5@10.0.0.5:9093";
        let copies = "offsets.topic.replication.factor=3";
        check(1, &["process.roles=broker", "listeners=CLIENT://10.0.0.1:9092", voters, copies]);
        check(5, &["process.roles=controller", "listeners=CONTROLLER://10.0.0.5:9093", voters, copies]);
    }

    #[test]
    fn features_have_levels_and_are_no_properties() {
        let deployment = deployment(3, 0, &[("feature.transaction.version", "1"), ("log.dirs.x", "y")]);
        assert_eq!(features(&deployment), ["transaction.version=1"]);
        let file = file(&deployment, NodeId(1));
        assert!(!file.contains("feature") && file.contains("log.dirs.x=y"), "{file}");
        assert_eq!(
            check("feature.group.version", "on").err().as_deref(),
            Some("--set feature.group.version=on: a feature has a level; a whole number is right")
        );
    }
}
