//! What an operator can see of a running broker: counters and gauges in Prometheus' text format, and whether it is healthy.
//!
//! The shell serves them, outside of the state machine, which only counts. What only the shell knows (open connections, how
//! long syncs take) it adds itself.
//!
//! What it cannot see: how long a request took. It knows no time but that of whole turns.
//!
//! Source: Prometheus, "Exposition formats", text format 0.0.4.

use crate::node::{Broker, Life, Running};
use crate::replica::Role;
use riprap_env::Node;
use riprap_protocol::ApiKey;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// A text that names metrics and their values.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    name: &'static str,
}

/// What a metric's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// It only rises, until the process ends.
    Counter,
    /// It rises and falls.
    Gauge,
    /// How many observations were no greater than each of some bounds.
    Histogram,
}

impl Exposition {
    /// Begins a metric: its samples follow.
    pub fn metric(&mut self, name: &'static str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.name = name;
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// A value, told apart by labels.
    pub fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.sample_of("", labels, value);
    }

    /// As [`sample`](Exposition::sample), of a part of the metric that has a name of its own.
    pub fn sample_of(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let mut text = String::new();
        for (index, (name, value)) in labels.iter().enumerate() {
            let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let before = if index == 0 { "" } else { "," };
            write!(text, "{before}{name}=\"{value}\"").expect("a string takes all");
        }
        let text = if text.is_empty() { text } else { format!("{{{text}}}") };
        let name = self.name;
        self.line(format_args!("{name}{suffix}{text} {value}"));
    }

    /// A metric of one value.
    pub fn single(&mut self, name: &'static str, kind: MetricKind, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(&[], value);
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a string takes all");
    }
}

/// A node that can be looked at while it runs.
pub trait Observed: Node {
    /// Adds what there is to see.
    fn observe(&self, now_ns: u64, out: &mut Exposition) {
        let _nothing = (now_ns, out);
    }

    /// Whether it serves. Errors: why not.
    fn health(&self, now_ns: u64) -> Result<(), String> {
        let _always = now_ns;
        Ok(())
    }
}

/// What a broker counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters {
    /// Requests of clients and brokers, by kind.
    requests: BTreeMap<ApiKey, u64>,
    /// Connections that were closed for what came on them.
    refused: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Counters {
    pub(crate) fn requested(&mut self, api_key: ApiKey) {
        *self.requests.entry(api_key).or_default() += 1;
    }

    pub(crate) fn refused(&mut self) {
        self.refused += 1;
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    fn observe(&self, out: &mut Exposition) {
        let counter = MetricKind::Counter;
        out.metric("riprap_requests_total", counter, "Requests that were taken in, by API.");
        for (api_key, count) in &self.requests {
            out.sample(&[("api", api_key)], count);
        }
        let help = "Connections that were closed for what came on them.";
        out.single("riprap_refused_connections_total", counter, help, self.refused);
        out.single(
            "riprap_received_bytes_total",
            counter,
            "Bytes that clients and brokers sent.",
            self.received_bytes,
        );
        out.single("riprap_sent_bytes_total", counter, "Bytes of answers.", self.sent_bytes);
    }
}

impl Observed for Broker {
    fn observe(&self, now_ns: u64, out: &mut Exposition) {
        if let Life::Running(running) = &self.life {
            running.observe(now_ns, out);
        }
    }

    fn health(&self, now_ns: u64) -> Result<(), String> {
        match &self.life {
            Life::Running(running) => running.health(now_ns),
            Life::Unborn | Life::Over => Err("the broker does not run".to_owned()),
        }
    }
}

impl Running {
    fn health(&self, now_ns: u64) -> Result<(), String> {
        if !self.is_registered() {
            return Err("the broker is not registered with the controller".to_owned());
        }
        if !self.membership.is_in_touch(now_ns) {
            return Err("the broker is out of touch with the controller".to_owned());
        }
        Ok(())
    }

    fn observe(&self, now_ns: u64, out: &mut Exposition) {
        let gauge = MetricKind::Gauge;
        let is_registered = u8::from(self.is_registered());
        let is_in_touch = u8::from(self.membership.is_in_touch(now_ns));
        let is_controller = u8::from(self.controller.is_some());
        out.single(
            "riprap_is_registered",
            gauge,
            "Whether the cluster knows this life of the broker.",
            is_registered,
        );
        out.single(
            "riprap_is_in_touch",
            gauge,
            "Whether the controller heard the broker in time.",
            is_in_touch,
        );
        out.single("riprap_is_controller", gauge, "Whether this broker is the controller.", is_controller);
        let applied = self.quorum.applied();
        out.single(
            "riprap_metadata_offset",
            gauge,
            "The last entry of the metadata log that counts here.",
            applied,
        );
        self.observe_partitions(out);
        let groups: usize = self.coordinators.iter().map(|coordinator| coordinator.group_count()).sum();
        out.single("riprap_groups", gauge, "Consumer groups that this broker coordinates.", groups);
        let ids: usize = self.transactions.coordinators().map(|coordinator| coordinator.id_count()).sum();
        out.single("riprap_transactional_ids", gauge, "Transactional ids that this broker coordinates.", ids);
        self.counters.observe(out);
    }

    fn observe_partitions(&self, out: &mut Exposition) {
        let gauge = MetricKind::Gauge;
        let mut roles = [("follower", 0), ("idle", 0), ("leader", 0)];
        for replica in self.replicas.iter() {
            roles[match replica.role {
                Role::Follower(_) => 0,
                Role::Idle => 1,
                Role::Leader(_) => 2,
            }]
            .1 += 1;
        }
        out.metric("riprap_partitions", gauge, "Partitions that this broker has a copy of, by its role.");
        for (role, count) in roles {
            out.sample(&[("role", &role)], count);
        }
        let led = || {
            self.replicas.iter().filter_map(|replica| {
                let partition = self.quorum.image().partition(replica.key)?;
                Some((replica, replica.leader()?, partition))
            })
        };
        let under_replicated = led()
            .filter(|(_, leader, partition)| leader.isr.members().len() < partition.state.replicas.len())
            .count();
        let help = "Partitions that this broker leads and of which not all replicas are in sync.";
        out.single("riprap_under_replicated_partitions", gauge, help, under_replicated);
        let under_min = led().filter(|(_, leader, _)| leader.isr.members().len() < leader.min_insync).count();
        let help = "Partitions that this broker leads and that take no acks=all records.";
        out.single("riprap_under_min_isr_partitions", gauge, help, under_min);
        out.metric(
            "riprap_in_sync_replicas",
            gauge,
            "Replicas in sync, by partition that this broker leads.",
        );
        for (replica, leader, _) in led() {
            let labels: [(&str, &dyn Display); 2] =
                [("topic", &replica.topic_name), ("partition", &replica.key.index)];
            out.sample(&labels, leader.isr.members().len());
        }
        let help = "Records that are in the log and not committed, by partition that this broker leads.";
        out.metric("riprap_high_watermark_lag", gauge, help);
        for (replica, ..) in led() {
            let labels: [(&str, &dyn Display); 2] =
                [("topic", &replica.topic_name), ("partition", &replica.key.index)];
            out.sample(&labels, replica.log.log_end_offset() - replica.high_watermark);
        }
        let size: u64 = self.replicas.iter().map(|replica| replica.log.size_bytes()).sum();
        out.single("riprap_log_bytes", gauge, "What all logs take on the disk.", size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_as_it_is_read() {
        let mut out = Exposition::default();
        out.single("a", MetricKind::Gauge, "One.", 1.5);
        out.metric("b_total", MetricKind::Counter, "More.");
        out.sample(&[("x", &"a\"b\\c\nd"), ("y", &2)], 3);
        let expect = "# HELP a One.\n# TYPE a gauge\na 1.5\n# HELP b_total More.\n# TYPE b_total counter\n\
                      b_total{x=\"a\\\"b\\\\c\\nd\",y=\"2\"} 3\n";
        assert_eq!(out.into_text(), expect);
    }
}
