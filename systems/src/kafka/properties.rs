//! A node's `server.properties`: what riprap decides, and what was set.

use super::{CLIENT_PORT, CONTROLLER_PORT};
use riprap_core::cluster::NodeId;
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

/// Whether a property may be set. Errors: one line.
pub(super) fn check(name: &str) -> Result<(), String> {
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

/// A node's file. What was set wins over what riprap would like.
pub(super) fn file(deployment: &Deployment, node: NodeId) -> String {
    let place = deployment.place(node);
    let copies = deployment.nodes.len().min(3);
    let voters: Vec<String> = deployment
        .nodes
        .iter()
        .map(|peer| format!("{}@{}:{CONTROLLER_PORT}", peer.id.0, peer.address))
        .collect();
    let address = place.address;
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
    properties.extend(deployment.settings.clone());
    let ours = [
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("controller.quorum.voters", voters.join(",")),
        ("listener.security.protocol.map", "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned()),
        ("inter.broker.listener.name", "CLIENT".to_owned()),
        ("listeners", format!("CLIENT://{address}:{CLIENT_PORT},CONTROLLER://{address}:{CONTROLLER_PORT}")),
        ("log.dirs", place.data_dir.join("log").display().to_string()),
        ("node.id", node.0.to_string()),
        ("process.roles", "broker,controller".to_owned()),
    ];
    properties.extend(ours.map(|(name, value)| (name.to_owned(), value)));
    properties.iter().map(|(name, value)| format!("{name}={}\n", escaped(value))).collect()
}

/// A value as Java's properties have it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::system::NodePlace;

    fn deployment(settings: &[(&str, &str)]) -> Deployment {
        let place = |n: u16| NodePlace {
            id: NodeId(n),
            address: std::net::Ipv4Addr::new(10, 0, 0, n as u8).into(),
            data_dir: format!("/run/n{n}/data").into(),
        };
        Deployment {
            nodes: (1..=3).map(place).collect(),
            version: None,
            defect: None,
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            seed: 1,
            program: None,
        }
    }

    #[test]
    fn what_is_set_wins_but_not_over_a_nodes_place() {
        let set = [("min.insync.replicas", "1"), ("log.flush.interval.messages", "1")];
        let file = file(&deployment(&set), NodeId(2));
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
            check("node.id").err().as_deref(),
            Some("--set node.id: riprap sets it itself; leave it out")
        );
        assert!(check("a b").is_err() && check("log.flush.interval.messages").is_ok());
    }
}
