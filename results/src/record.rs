//! `test.json`: every knob of a run, and what it ran with.

use riprap_core::plan::TestConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What `test.json` holds: the knobs, flat, and beside them what else is needed to run the same again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TestRecord {
    /// Every knob.
    #[serde(flatten)]
    pub config: TestConfig,
    /// riprap's own version.
    pub riprap: String,
    /// The commit that riprap was built from, if known.
    pub git_commit: Option<String>,
    /// When the run began, in UTC, for humans.
    pub began: String,
    /// The arguments after the program's name, as given.
    pub args: Vec<String>,
    /// What the system says of itself: versions of what really ran.
    pub versions: Json,
}

impl TestRecord {
    /// The command that runs the same again: the arguments as given, with the seed if they left it to chance.
    pub fn command(&self) -> String {
        let given = |arg: &String| arg == "--seed" || arg.starts_with("--seed=");
        let mut words = vec!["riprap".to_owned()];
        words.extend(self.args.iter().map(|arg| shell_word(arg)));
        if !self.args.iter().any(given) {
            words.extend(["--seed".to_owned(), self.config.seed.to_string()]);
        }
        words.join(" ")
    }
}

/// A word as a POSIX shell reads it back.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
