//! Settings by their names in Kafka: those of topics, and those of a broker.
//!
//! A topic's setting is what was asked for when it was made or since; otherwise the setting that its broker has under the
//! name that [`TopicSetting::broker_name`] gives; and that has Kafka's default unless the command line, or the file of
//! settings, says otherwise. Of a broker nothing can be changed while it runs.
//!
//! What is not in the tables is unknown and refused: an operator who believes that a setting works should be right.

mod broker;
mod describe;
mod topic;

pub use broker::{BROKER_SETTINGS, BrokerSetting, SettingError};
pub(crate) use describe::{Described, describe_broker, describe_topic};
pub use topic::{Cleanup, TopicSettings};
pub(crate) use topic::{TOPIC_SETTINGS, TopicSetting, UNTHROTTLED, topic_setting};

/// What a setting's value is, for clients that show it. Source: Kafka's `DescribeConfigsResponse.ConfigType`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Boolean = 1,
    /// A word.
    String = 2,
    /// A number of 32 bits.
    Int = 3,
    /// A number of 64 bits.
    Long = 5,
    /// A fraction.
    Double = 6,
    /// Words with commas between them.
    List = 7,
}

/// Takes over what was read.
fn put<T>(field: &mut T, read: Result<T, String>) -> Result<(), String> {
    *field = read?;
    Ok(())
}

/// Reads a number within bounds. Errors: what would have been right.
fn whole<T>(text: &str, least: T, most: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
{
    let number = text.trim().parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("a number from {least} to {most} is right"))
}

/// Reads a number of which -1 is none.
fn whole_or_none(text: &str) -> Result<Option<u64>, String> {
    let number: i64 = whole(text, -1, i64::MAX)?;
    Ok(u64::try_from(number).ok())
}

fn or_none(value: Option<u64>) -> String {
    value.map_or("-1".to_owned(), |value| value.to_string())
}

/// Reads `true` or `false`.
fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false is right".to_owned()),
    }
}

/// Takes only what the broker does anyway.
fn only(text: &str, known: &str) -> Result<(), String> {
    if text.trim() == known { Ok(()) } else { Err(format!("only `{known}` is supported")) }
}
