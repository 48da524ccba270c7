//! What went on between the hosts of a small simulated run, as far as it tells the run's story: what nodes and clients said
//! to each other about records and transactions, when processes began and ended, and who led.
//!
//! A line of `messages.jsonl` each, in the order of time; times are nanoseconds since the run began, as those of ops:
//!
//! ```text
//! {"type":"message","time":1476580000,"arrived":1476823000,"from":"c10","to":"n3","about":"send","what":"Produce 5=54"}
//! {"type":"host","time":1504181150,"host":"n1","life":"down","what":"is killed"}
//! {"type":"partition","time":1432036000,"host":"n3","key":5,"leads":true,"what":"leads, epoch 0, ISR 3 1 2"}
//! ```
//!
//! What it leaves out: everything that goes on all the time (heartbeats, empty fetches, votes), metadata, and what was said
//! to who asked whether nodes serve.

use serde::{Deserialize, Serialize};

/// One thing that somebody could have seen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Seen {
    /// A message.
    Message {
        /// When it was sent.
        #[serde(rename = "time")]
        sent_ns: u64,
        /// When it arrived, if it ever did.
        #[serde(rename = "arrived", skip_serializing_if = "Option::is_none", default)]
        arrived_ns: Option<u64>,
        /// Who sent it: `n1`, a node, or `c10`, the client of process 10.
        from: String,
        /// To whom.
        to: String,
        /// What kind of message it is.
        about: About,
        /// What it says, in a few words.
        what: String,
    },
    /// Something befell a host.
    Host {
        /// When.
        #[serde(rename = "time")]
        time_ns: u64,
        /// Whom.
        host: String,
        /// What its process is from now on, if that changed.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        life: Option<Life>,
        /// In words.
        what: String,
    },
    /// A node said what it is to a partition.
    Partition {
        /// When.
        #[serde(rename = "time")]
        time_ns: u64,
        /// Which node.
        host: String,
        /// Which key.
        key: i64,
        /// Whether it leads from now on, if that is what it said.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        leads: Option<bool>,
        /// In words.
        what: String,
    },
}

impl Seen {
    /// When it began.
    pub fn time_ns(&self) -> u64 {
        match self {
            Seen::Message { sent_ns: time_ns, .. }
            | Seen::Host { time_ns, .. }
            | Seen::Partition { time_ns, .. } => *time_ns,
        }
    }
}

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// A client's records, and what came of them.
    Send,
    /// Records for a client.
    Poll,
    /// A transaction.
    Txn,
    /// A consumer group.
    Group,
    /// Records from one node to another.
    Copy,
}

/// What a host's process is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// It runs.
    Up,
    /// It stands still.
    Paused,
    /// There is none.
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_documented() {
        let lines = include_str!("story.rs").lines().filter_map(|line| line.strip_prefix("//! {"));
        let lines: Vec<String> = lines.map(|line| format!("{{{line}")).collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            let seen: Seen = serde_json::from_str(&line).expect("it is read");
            assert_eq!(serde_json::to_string(&seen).expect("it is JSON"), line);
        }
    }
}
