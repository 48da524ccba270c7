//! A server's configuration: what riprap decides, and what was set.

use super::{CLIENT_PORT, CLUSTER_PORT, MONITOR_PORT};
use riprap_core::cluster::NodeId;
use riprap_core::system::Deployment;
use std::collections::BTreeMap;
use std::time::Duration;

/// Which block of the file a setting belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Block {
    Server,
    JetStream,
    /// Its settings are set as `cluster.NAME`: some are called as the server's are.
    Cluster,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Bool,
    Count,
    /// An amount of bytes: `64MB`.
    Size,
    /// `2m`, `1m30s`.
    Time,
    /// A time, or `always`.
    Sync,
    OneOf(&'static [&'static str]),
}

/// The settings of a server that a test may want to change, sorted by name within each block.
/// Source: nats-server 2.12.1, server/opts.go, parseJetStream, parseCluster, processConfigFileLine; an older server may
/// not know all of them, and then says so.
const SETTINGS: &[(Block, &str, Kind)] = &[
    (Block::Cluster, "compression", Kind::OneOf(&["off", "s2_auto", "s2_better", "s2_best", "s2_fast"])),
    (Block::Cluster, "ping_interval", Kind::Time),
    (Block::Cluster, "ping_max", Kind::Count),
    (Block::Cluster, "pool_size", Kind::Count),
    (Block::Cluster, "write_deadline", Kind::Time),
    (Block::JetStream, "max_buffered_msgs", Kind::Count),
    (Block::JetStream, "max_buffered_size", Kind::Size),
    (Block::JetStream, "max_file_store", Kind::Size),
    (Block::JetStream, "max_memory_store", Kind::Size),
    (Block::JetStream, "max_outstanding_catchup", Kind::Size),
    (Block::JetStream, "request_queue_limit", Kind::Count),
    (Block::JetStream, "strict", Kind::Bool),
    (Block::JetStream, "sync_interval", Kind::Sync),
    (Block::Server, "debug", Kind::Bool),
    (Block::Server, "disable_sublist_cache", Kind::Bool),
    (Block::Server, "max_connections", Kind::Count),
    (Block::Server, "max_payload", Kind::Size),
    (Block::Server, "max_pending", Kind::Size),
    (Block::Server, "no_fast_producer_stall", Kind::Bool),
    (Block::Server, "ping_interval", Kind::Time),
    (Block::Server, "ping_max", Kind::Count),
    (Block::Server, "trace", Kind::Bool),
    (Block::Server, "write_deadline", Kind::Time),
];

impl Kind {
    fn takes(self, value: &str) -> bool {
        match self {
            Kind::Bool => matches!(value, "true" | "false"),
            Kind::Count => value.parse::<u32>().is_ok(),
            Kind::Size => is_size(value),
            Kind::Time => parse_time(value).is_some(),
            Kind::Sync => value == "always" || parse_time(value).is_some(),
            Kind::OneOf(words) => words.contains(&value),
        }
    }

    fn right(self) -> String {
        match self {
            Kind::Bool => "true or false".to_owned(),
            Kind::Count => "a whole number".to_owned(),
            Kind::Size => "an amount of bytes such as 64MB".to_owned(),
            Kind::Time => "a time such as 500ms, 10s or 2m".to_owned(),
            Kind::Sync => "always, or a time such as 10s or 2m,".to_owned(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// A value as the file has it: numbers and truths bare, all else in quotes.
    fn written(self, value: &str) -> String {
        match self {
            Kind::Bool | Kind::Count | Kind::Size => value.to_owned(),
            Kind::Time | Kind::Sync | Kind::OneOf(_) => quoted(value),
        }
    }
}

/// Digits, and the name of a power of 1024.
fn is_size(value: &str) -> bool {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &value[..value.len() - unit.len()];
    number.parse::<u64>().is_ok() && matches!(unit, "" | "K" | "KB" | "M" | "MB" | "G" | "GB" | "T" | "TB")
}

/// A time as Go writes it, without fractions: `1m30s`.
pub(super) fn parse_time(value: &str) -> Option<Duration> {
    let (mut rest, mut total) = (value, Duration::ZERO);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let part = match &rest[..unit] {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        rest = &rest[unit..];
        total = total.checked_add(part)?;
    }
    Some(total)
}

/// The setting that is called so on the command line.
fn find(name: &str) -> Option<(Block, &'static str, Kind)> {
    SETTINGS.iter().copied().find(|setting| full_name(setting) == name)
}

fn full_name((block, name, _): &(Block, &'static str, Kind)) -> String {
    match block {
        Block::Cluster => format!("cluster.{name}"),
        Block::JetStream | Block::Server => (*name).to_owned(),
    }
}

/// Whether these may be set to these values. Errors: one line.
pub(super) fn check_settings(settings: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in settings {
        let Some((_, _, kind)) = find(name) else {
            let mut names: Vec<String> = SETTINGS.iter().map(full_name).collect();
            names.sort();
            return Err(format!("unknown setting `{name}`; one of: {}", names.join(", ")));
        };
        if !kind.takes(value) {
            return Err(format!("setting {name}=`{value}`: {} is right", kind.right()));
        }
    }
    Ok(())
}

/// A node's file. What was set wins over what riprap would like.
pub(super) fn file(deployment: &Deployment, node: NodeId) -> String {
    let place = deployment.place(node);
    let address = place.address;
    let at = |port: u16| quoted(&format!("{address}:{port}"));
    let block = |wanted: Block, ours: &[(&str, String)]| {
        let mut lines: BTreeMap<String, String> =
            ours.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        for (name, value) in &deployment.settings {
            let (block, name, kind) = find(name).expect("it was checked");
            if block == wanted {
                lines.insert(name.to_owned(), kind.written(value));
            }
        }
        lines
    };
    let mut file = String::new();
    let server = block(
        Block::Server,
        &[
            ("http", at(MONITOR_PORT)),
            ("listen", at(CLIENT_PORT)),
            ("server_name", quoted(&node.to_string())),
        ],
    );
    write_lines(&mut file, "", &server);
    let jetstream = block(
        Block::JetStream,
        &[
            // Tests are small, and a server that thinks it has more disk than there is fails in ways of its own.
            ("max_file_store", "1GB".to_owned()),
            ("max_memory_store", "64MB".to_owned()),
            ("store_dir", quoted(&place.data_dir.join("store").display().to_string())),
        ],
    );
    write_block(&mut file, "jetstream", &jetstream);
    // A server alone would wait for others if it were told that it belongs to a cluster.
    if deployment.nodes.len() > 1 {
        let others = deployment.nodes.iter().filter(|peer| peer.id != node);
        let routes = others.map(|peer| quoted(&format!("nats://{}:{CLUSTER_PORT}", peer.address)));
        let routes = format!("[{}]", routes.collect::<Vec<_>>().join(", "));
        let cluster = block(
            Block::Cluster,
            &[("listen", at(CLUSTER_PORT)), ("name", quoted("riprap")), ("routes", routes)],
        );
        write_block(&mut file, "cluster", &cluster);
    }
    file
}

fn write_block(file: &mut String, name: &str, lines: &BTreeMap<String, String>) {
    file.push_str(&format!("{name} {{\n"));
    write_lines(file, "    ", lines);
    file.push_str("}\n");
}

fn write_lines(file: &mut String, indent: &str, lines: &BTreeMap<String, String>) {
    lines.iter().for_each(|(name, value)| file.push_str(&format!("{indent}{name}: {value}\n")));
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::deployment;

    #[test]
    fn a_node_of_three() {
        let set = [
            ("sync_interval", "always"),
            ("max_memory_store", "8MB"),
            ("cluster.pool_size", "1"),
            ("debug", "true"),
        ];
        let expect = "\
debug: true
http: \"10.0.0.2:8222\"
listen: \"10.0.0.2:4222\"
server_name: \"n2\"
jetstream {
    max_file_store: 1GB
    max_memory_store: 8MB
    store_dir: \"/run/n2/data/store\"
    sync_interval: \"always\"
}
cluster {
    listen: \"10.0.0.2:6222\"
    name: \"riprap\"
    pool_size: 1
    routes: [\"nats://10.0.0.1:6222\", \"nats://10.0.0.3:6222\"]
}
";
        assert_eq!(file(&deployment(3, 0, &set), NodeId(2)), expect);
        assert!(!file(&deployment(1, 0, &[]), NodeId(1)).contains("cluster"));
    }

    #[test]
    fn settings_are_known_and_take_their_values() {
        let check = |name: &str, value: &str, expect: Result<(), &str>| {
            let settings = [(name.to_owned(), value.to_owned())].into();
            let told = check_settings(&settings);
            assert_eq!(told.as_ref().copied().map_err(String::as_str), expect, "{name}={value}");
        };
        check("sync_interval", "always", Ok(()));
        check("sync_interval", "1m30s", Ok(()));
        check(
            "sync_interval",
            "soon",
            Err("setting sync_interval=`soon`: always, or a time such as 10s or 2m, is right"),
        );
        check("ping_interval", "10s", Ok(()));
        check(
            "ping_interval",
            "10",
            Err("setting ping_interval=`10`: a time such as 500ms, 10s or 2m is right"),
        );
        check("max_payload", "8MB", Ok(()));
        check(
            "max_payload",
            "8 MB",
            Err("setting max_payload=`8 MB`: an amount of bytes such as 64MB is right"),
        );
        check("debug", "yes", Err("setting debug=`yes`: true or false is right"));
        check("ping_max", "-1", Err("setting ping_max=`-1`: a whole number is right"));
        check("cluster.compression", "s2_fast", Ok(()));
        let unknown = check_settings(&[("server_name".to_owned(), "x".to_owned())].into());
        let told = unknown.expect_err("riprap names servers itself");
        assert!(
            told.starts_with(
                "unknown setting `server_name`; one of: cluster.compression, cluster.ping_interval, "
            ),
            "{told}"
        );
    }

    #[test]
    fn times_are_as_go_writes_them() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(parse_time(text), expect.map(Duration::from_millis), "{text}");
        };
        check("500ms", Some(500));
        check("2m", Some(120_000));
        check("1m30s", Some(90_000));
        check("0s", Some(0));
        check("", None);
        check("5", None);
        check("s", None);
        check("5x", None);
        check("1.5s", None);
        check("99999999999999999999s", None);
    }

    #[test]
    fn the_table_is_sorted() {
        let key = |(block, name, _): &(Block, &'static str, Kind)| (format!("{block:?}"), *name);
        assert!(SETTINGS.iter().map(key).is_sorted());
    }
}
