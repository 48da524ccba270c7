//! An agent, as the harness sees it: questions and answers over a connection of SSH.

use super::protocol::Ask;
use super::ssh::Connection;
use riprap_core::cluster::ClusterError;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use ssh2::Channel;
use std::fmt::Display;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What of an agent's last words is told.
const MAX_LAST_WORDS: u64 = 4096;

/// See the module.
pub(super) struct Remote {
    connection: Connection,
    /// One question at a time.
    talk: Mutex<Talk>,
    /// Why nobody answers any more.
    lost: OnceLock<ClusterError>,
}

struct Talk {
    channel: BufReader<Channel>,
}

impl Remote {
    /// Starts an agent by this command.
    pub(super) fn start(connection: Connection, command: &str) -> Result<Remote, ClusterError> {
        let channel = connection.start(command)?;
        let talk = Talk { channel: BufReader::new(channel) };
        Ok(Remote { connection, talk: talk.into(), lost: OnceLock::new() })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Why nobody answers there any more, if that is known by now. Never waits.
    pub(super) fn lost(&self) -> Option<&ClusterError> {
        self.lost.get()
    }

    /// Asks, and waits for the answer. Errors: the agent's, or the connection is lost.
    pub(super) fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, ClusterError> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lost) = self.lost() {
            return Err(lost.clone());
        }
        let answer = talk.exchange(ask).map_err(|why| self.lose(&mut talk, &why))?;
        let answer = answer.map_err(|why| ClusterError(format!("{}: {why}", self.connection.name())))?;
        serde_json::from_value(answer).map_err(|e| self.lose(&mut talk, &e))
    }

    fn lose(&self, talk: &mut Talk, why: &dyn Display) -> ClusterError {
        let mut words = String::new();
        // What it said before it ended, if it did; a connection that is gone has nothing to say.
        if talk.channel.get_ref().eof() {
            let stderr = talk.channel.get_ref().stderr();
            stderr.take(MAX_LAST_WORDS).read_to_string(&mut words).ok();
        }
        let last = words.lines().rfind(|line| !line.trim().is_empty()).map(|line| format!(" ({line})"));
        let last = last.unwrap_or_default();
        let lost = ClusterError(format!("the connection to {} is lost: {why}{last}", self.connection.name()));
        self.lost.get_or_init(|| lost).clone()
    }
}

impl Talk {
    fn exchange(&mut self, ask: &Ask) -> io::Result<Result<Json, String>> {
        let text = serde_json::to_string(ask).expect("questions are JSON");
        let channel = self.channel.get_mut();
        channel.write_all(text.as_bytes())?;
        channel.write_all(b"\n")?;
        channel.flush()?;
        let mut line = String::new();
        if self.channel.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its agent has ended"));
        }
        serde_json::from_str(&line)
            .map_err(|e| io::Error::other(format!("it answers `{}`: {e}", line.trim())))
    }
}
