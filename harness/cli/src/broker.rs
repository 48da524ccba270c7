//! `riprap broker`: one bundled broker, alone or as part of a cluster.

use crate::Failure;
use crate::args::BrokerArgs;
use riprap_broker::defect::DefectKind;
use riprap_broker::shell::{LogTarget, ShellConfig};
use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use riprap_env::LogLevel;
use std::collections::BTreeMap;

pub(crate) fn run(args: &BrokerArgs) -> Result<u8, Failure> {
    let config = config(args).map_err(Failure::Usage)?;
    let shell = ShellConfig {
        listen: args.listen,
        dir: args.dir.clone(),
        seed: args.seed,
        entity: format!("broker {}", args.id),
        log: LogTarget::Stderr,
        log_level: LogLevel::Info,
    };
    let mut broker = Broker::new(config).map_err(Failure::Usage)?;
    let status = riprap_broker::shell::run(&mut broker, shell).map_err(Failure::harness)?;
    Ok(u8::try_from(status).unwrap_or(u8::MAX))
}

fn config(args: &BrokerArgs) -> Result<BrokerConfig, String> {
    let me = BrokerId(args.id);
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
        brokers.insert(me, args.listen.to_string().parse()?);
    }
    let mut config = BrokerConfig::new(me, brokers);
    config.listen = args.listen.to_string();
    config.dir = args.dir.clone();
    config.defect =
        args.defect.as_deref().map(str::parse::<DefectKind>).transpose().map_err(|e| e.to_string())?;
    for (name, value) in &args.settings {
        match name.as_str() {
            "min.insync.replicas" => {
                let number =
                    value.parse().map_err(|_| format!("{name} is `{value}`; a number from 1 is expected"))?;
                config.min_insync_replicas = number;
            }
            "fsync" => config.fsync = value.parse()?,
            "flush.interval.ms" => {
                let number =
                    value.parse().map_err(|_| format!("{name} is `{value}`; a number from 1 is expected"))?;
                config.flush_interval_ms = number;
            }
            _ => {
                let known = "flush.interval.ms, fsync, min.insync.replicas";
                return Err(format!("unknown setting `{name}`; one of: {known}"));
            }
        }
    }
    config.validate()?;
    Ok(config)
}
