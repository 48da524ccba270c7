//! The file for `riprap broker --config`: TOML, the flags by their long names, and settings in the table `set`.
//!
//! ```toml
//! dir = "/var/lib/b1"
//! peers = ["1@10.0.0.1:9092", "2@10.0.0.2:9092"]
//! [set]
//! "min.insync.replicas" = 2     # quoted or
//! log.retention.ms = -1         # with dots: the same
//! ```
//! What is wrong is told with the file, the line and the key.

use crate::args::{BrokerArgs, parse_address, parse_listen, parse_log_level};
use riprap_broker::settings::BROKER_SETTINGS;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The keys of the file, as they are told to whoever used another.
const KEYS: &str = "advertise, clock-offset, defect, dir, id, listen, log-level, metrics, peers, seed, set";

/// A file larger than this is not one of settings.
const MAX_BYTES: u64 = 1 << 20;

/// Takes over from the file what no flag says.
///
/// Errors: `FILE:LINE: KEY: what is wrong`.
pub(super) fn merge(args: &mut BrokerArgs, path: &Path) -> Result<(), String> {
    let failed = |what: &dyn std::fmt::Display| format!("failed to read {}: {what}", path.display());
    let len = std::fs::metadata(path).map_err(|e| failed(&e))?.len();
    if len > MAX_BYTES {
        return Err(failed(&format_args!("{len} bytes are too many for a file of settings")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
    read(args, &text).map_err(|(at, what)| format!("{}:{}: {what}", path.display(), line_of(&text, at)))
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// Where something is wrong, and what.
type Wrong = (usize, String);

fn read(args: &mut BrokerArgs, text: &str) -> Result<(), Wrong> {
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        (at, e.message().lines().next().unwrap_or("no TOML").to_owned())
    })?;
    let mut settings = Vec::new();
    for (key, value) in table.get_ref() {
        let (name, at) = (key.get_ref().as_ref(), key.span());
        let value = value.get_ref();
        let wrong = |what: String| (at.start, format!("{name}: {what}"));
        match name {
            "id" => set(&mut args.id, number(value), "a number from 0", &wrong)?,
            "advertise" => {
                let address = value.as_str().and_then(|text| parse_address(text).ok());
                set(&mut args.advertise, address, "HOST:PORT", &wrong)?;
            }
            "seed" => set(&mut args.seed, number(value), "a number from 0", &wrong)?,
            "clock-offset" => {
                set(&mut args.clock_offset, value.as_str().map(PathBuf::from), "a text", &wrong)?;
            }
            "dir" => set(&mut args.dir, value.as_str().map(PathBuf::from), "a text", &wrong)?,
            "defect" => set(&mut args.defect, value.as_str().map(str::to_owned), "a text", &wrong)?,
            "listen" | "metrics" => {
                let address = value.as_str().and_then(|text| parse_listen(text).ok());
                let place = if name == "listen" { &mut args.listen } else { &mut args.metrics };
                set(place, address, "HOST:PORT with an IP address", &wrong)?;
            }
            "log-level" => {
                let level = value.as_str().and_then(|text| parse_log_level(text).ok());
                set(&mut args.log_level, level, "one of error, warn, info, debug", &wrong)?;
            }
            "peers" => {
                let peers = value.as_array().and_then(|peers| {
                    peers.iter().map(|peer| peer.get_ref().as_str().map(str::to_owned)).collect()
                });
                let peers: Vec<String> =
                    peers.ok_or_else(|| wrong("a list of ID@HOST:PORT is right".to_owned()))?;
                if args.peers.is_empty() {
                    args.peers = peers;
                }
            }
            "set" => match value.as_table() {
                Some(table) => flatten("", table, &mut settings)?,
                None => return Err(wrong("a table is right".to_owned())),
            },
            _ => return Err(wrong(format!("unknown key; one of: {KEYS}"))),
        }
    }
    for (name, _, at) in &settings {
        if BROKER_SETTINGS.iter().all(|known| known.name != name) {
            let names: Vec<&str> = BROKER_SETTINGS.iter().map(|setting| setting.name).collect();
            return Err((at.start, format!("{name}: unknown setting; one of: {}", names.join(", "))));
        }
    }
    // Flags come last, and so win.
    let mut all = Vec::new();
    for (name, value, at) in settings {
        let mut probe = riprap_broker::BrokerConfig::new(riprap_broker::BrokerId(0), Default::default());
        probe.set(&name, &value).map_err(|e| (at.start, e.to_string()))?;
        all.push((name, value));
    }
    all.append(&mut args.settings);
    args.settings = all;
    Ok(())
}

/// Fills in what no flag said.
fn set<T>(
    place: &mut Option<T>,
    read: Option<T>,
    right: &str,
    wrong: &dyn Fn(String) -> Wrong,
) -> Result<(), Wrong> {
    let read = read.ok_or_else(|| wrong(format!("{right} is right")))?;
    place.get_or_insert(read);
    Ok(())
}

fn number<T: std::str::FromStr + Default + PartialOrd>(value: &DeValue<'_>) -> Option<T> {
    let number: T = value.as_integer()?.to_string().parse().ok()?;
    (number >= T::default()).then_some(number)
}

/// Settings by their whole names: dots in a key make tables of it.
fn flatten(
    before: &str,
    table: &DeTable<'_>,
    settings: &mut Vec<(String, String, Range<usize>)>,
) -> Result<(), Wrong> {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let name = if before.is_empty() { name.to_owned() } else { format!("{before}.{name}") };
        let text = match value.get_ref() {
            DeValue::Table(inner) => {
                flatten(&name, inner, settings)?;
                continue;
            }
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Array(_) | DeValue::Datetime(_) => {
                return Err((key.span().start, format!("{name}: a text, a number, true or false is right")));
            }
        };
        settings.push((name, text, key.span()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    fn args(flags: &str) -> BrokerArgs {
        let words = ["riprap", "broker", "--config", "f"].into_iter().chain(flags.split_whitespace());
        match Cli::try_parse_from(words).expect("the flags are right").command {
            Command::Broker(args) => args,
            other => panic!("{other:?} is another command"),
        }
    }

    #[test]
    fn flags_win() {
        let file = "id = 7\nseed = 5\ndir = \"d\"\nlisten = \"127.0.0.1:1\"\nmetrics = \"127.0.0.1:2\"\n\
                    log-level = \"debug\"\npeers = [\"7@h:1\"]\n[set]\n\"num.partitions\" = 3\nlog.retention.ms = -1\n\
                    unclean.leader.election.enable = true\n";
        let mut merged = args("--id 8 --set num.partitions=4 --metrics 127.0.0.1:3");
        read(&mut merged, file).expect("the file is right");
        assert_eq!((merged.id, merged.seed), (Some(8), Some(5)));
        assert_eq!(merged.dir, Some(PathBuf::from("d")));
        let addresses = (merged.listen.map(|a| a.port()), merged.metrics.map(|a| a.port()));
        assert_eq!(addresses, (Some(1), Some(3)));
        assert_eq!(merged.peers, ["7@h:1"]);
        let mut settings = merged.settings.clone();
        assert_eq!(settings.pop(), Some(("num.partitions".to_owned(), "4".to_owned())));
        settings.sort();
        let expect =
            [("log.retention.ms", "-1"), ("num.partitions", "3"), ("unclean.leader.election.enable", "true")];
        assert_eq!(settings, expect.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let check = |file: &str, line: usize, expect: &str| {
            let (at, what) = read(&mut args(""), file).expect_err("something is wrong");
            assert_eq!(line_of(file, at), line, "{file}");
            assert!(what.starts_with(expect), "{what:?} is not {expect:?}");
        };
        check("id = 1\nids = 2\n", 2, "ids: unknown key; one of: advertise, clock-offset, defect, dir, id, ");
        check("\nid = \"one\"\n", 2, "id: a number from 0 is right");
        check("id = -1\n", 1, "id: a number from 0 is right");
        check("listen = \"here\"\n", 1, "listen: HOST:PORT with an IP address is right");
        check("advertise = \"here\"\n", 1, "advertise: HOST:PORT is right");
        check("peers = \"1@h:1\"\n", 1, "peers: a list of ID@HOST:PORT is right");
        check("log-level = \"loud\"\n", 1, "log-level: one of error, warn, info, debug is right");
        check("[set]\nnum.partitions = 1\nno.such = 1\n", 3, "no.such: unknown setting; one of: ");
        check(
            "[set]\n\"num.partitions\" = 0\n",
            2,
            "setting num.partitions=`0`: a number from 1 to 1000 is right",
        );
        check("[set]\nnum.partitions = [1]\n", 2, "num.partitions: a text, a number, true or false is right");
        check("set = 1\n", 1, "set: a table is right");
    }
}
