//! `riprap broker`: one bundled broker, alone or as part of a cluster.

mod config_file;

use crate::Failure;
use crate::args::{BrokerArgs, parse_log_level};
use riprap_broker::defect::DefectKind;
use riprap_broker::shell::{LogTarget, ShellConfig};
use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use riprap_env::LogLevel;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where a broker listens that is not told.
const DEFAULT_LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9092);

/// Names the least weighty lines that are logged, where no flag does.
const LOG_LEVEL_VARIABLE: &str = "RIPRAP_LOG";

pub(crate) fn run(args: &BrokerArgs) -> Result<u8, Failure> {
    let mut args = args.clone();
    if let Some(path) = args.config.clone() {
        config_file::merge(&mut args, &path).map_err(Failure::Usage)?;
    }
    let log_level = match args.log_level {
        Some(level) => level,
        None => level_of_environment().map_err(Failure::Usage)?,
    };
    let listen = args.listen.unwrap_or(SocketAddr::from(DEFAULT_LISTEN));
    let missing = || Failure::Usage("missing --dir <DIR>; `dir` in the file is right too".to_owned());
    let dir = args.dir.clone().ok_or_else(missing)?;
    let config = config(&args, listen, dir.clone()).map_err(Failure::Usage)?;
    let shell = ShellConfig {
        listen,
        dir,
        seed: args.seed.unwrap_or(0),
        entity: format!("broker {}", config.id),
        metrics: args.metrics,
        log: LogTarget::Stderr,
        log_level,
    };
    let mut broker = Broker::new(config).map_err(Failure::Usage)?;
    let status = riprap_broker::shell::run(&mut broker, shell).map_err(Failure::harness)?;
    Ok(u8::try_from(status).unwrap_or(u8::MAX))
}

fn level_of_environment() -> Result<LogLevel, String> {
    match std::env::var(LOG_LEVEL_VARIABLE) {
        Ok(text) => {
            parse_log_level(&text).map_err(|right| format!("{LOG_LEVEL_VARIABLE} is `{text}`; {right}"))
        }
        Err(_) => Ok(LogLevel::Info),
    }
}

fn config(args: &BrokerArgs, listen: SocketAddr, dir: PathBuf) -> Result<BrokerConfig, String> {
    let me = BrokerId(args.id.unwrap_or(1));
    let mut brokers: BTreeMap<BrokerId, Address> = BTreeMap::new();
    for peer in &args.peers {
        let wrong = || format!("--peers has `{peer}`; ID@HOST:PORT is expected");
        let (id, address) = peer.split_once('@').ok_or_else(wrong)?;
        let id = BrokerId(id.parse().map_err(|_| wrong())?);
        if brokers.insert(id, address.parse()?).is_some() {
            return Err(format!("--peers names broker {id} twice"));
        }
    }
    if brokers.is_empty() {
        brokers.insert(me, listen.to_string().parse()?);
    }
    let mut config = BrokerConfig::new(me, brokers);
    config.listen = listen.to_string();
    config.dir = dir;
    config.defect =
        args.defect.as_deref().map(str::parse::<DefectKind>).transpose().map_err(|e| e.to_string())?;
    for (name, value) in &args.settings {
        config.set(name, value).map_err(|e| e.to_string())?;
    }
    config.validate()?;
    Ok(config)
}
