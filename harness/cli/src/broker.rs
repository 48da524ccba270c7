//! `riprap broker`: one bundled broker, alone or as part of a cluster.

mod config_file;
mod log;

use crate::Failure;
use crate::args::BrokerArgs;
use riprap_broker::defect::DefectKind;
use riprap_broker::shell::ShellConfig;
use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// The id of a broker that is not told.
const DEFAULT_ID: i32 = 1;

/// Where a broker listens that is not told.
const DEFAULT_LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9092);

/// Says what is logged, where no flag does.
const LOG_VARIABLE: &str = "RIPRAP_LOG";

pub(crate) fn run(args: &BrokerArgs) -> Result<u8, Failure> {
    let mut args = args.clone();
    if let Some(path) = args.config.clone() {
        config_file::merge(&mut args, &path).map_err(Failure::Usage)?;
    }
    let logged = match args.log_level {
        Some(level) => Targets::new().with_default(level),
        None => logged_by_environment().map_err(Failure::Usage)?,
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
        clock_offset: args.clock_offset.clone(),
    };
    let mut broker = Broker::new(config).map_err(Failure::Usage)?;
    log::to_stderr(logged);
    let status = riprap_broker::shell::run(&mut broker, shell).map_err(Failure::harness)?;
    Ok(u8::try_from(status).unwrap_or(u8::MAX))
}

fn logged_by_environment() -> Result<Targets, String> {
    match std::env::var(LOG_VARIABLE) {
        Ok(text) => log::parse_filter(&text).map_err(|why| format!("{LOG_VARIABLE} is `{text}`: {why}")),
        Err(std::env::VarError::NotPresent) => Ok(Targets::new().with_default(LevelFilter::INFO)),
        Err(e @ std::env::VarError::NotUnicode(_)) => Err(format!("{LOG_VARIABLE}: {e}")),
    }
}

fn config(args: &BrokerArgs, listen: SocketAddr, dir: PathBuf) -> Result<BrokerConfig, String> {
    let me = BrokerId(args.id.unwrap_or(DEFAULT_ID));
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
    let advertised = advertised(args, me, &brokers, listen)?;
    let mut config = BrokerConfig::new(me, brokers);
    config.advertised = advertised;
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

/// Where an observer is reached; of a voter the peers say it.
fn advertised(
    args: &BrokerArgs,
    me: BrokerId,
    voters: &BTreeMap<BrokerId, Address>,
    listen: SocketAddr,
) -> Result<Option<Address>, String> {
    if voters.contains_key(&me) {
        return match &args.advertise {
            Some(address) => Err(format!("--advertise {address}: --peers says where broker {me} is reached")),
            None => Ok(None),
        };
    }
    if args.id.is_none() {
        return Err(format!("missing --id: --peers does not name broker {me}"));
    }
    match &args.advertise {
        None if listen.ip().is_unspecified() || listen.port() == 0 => {
            Err(format!("missing --advertise HOST:PORT: nobody can reach broker {me} at {listen}"))
        }
        None => Ok(Some(listen.to_string().parse()?)),
        Some(address) => Ok(Some(address.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn who_is_not_among_the_peers_observes_them() {
        let check = |flags: &str, expect: Result<Option<&str>, &str>| {
            let words = ["riprap", "broker", "--dir", "d"].into_iter().chain(flags.split_whitespace());
            let args = match Cli::try_parse_from(words).expect("the flags are right").command {
                Command::Broker(args) => args,
                other => panic!("{other:?} is another command"),
            };
            let listen = args.listen.unwrap_or(SocketAddr::from(DEFAULT_LISTEN));
            let read = config(&args, listen, PathBuf::from("d"));
            let address = read.map(|config| config.advertised.map(|address| address.to_string()));
            assert_eq!(address, expect.map(|a| a.map(str::to_owned)).map_err(str::to_owned), "{flags}");
        };
        check("", Ok(None));
        check("--peers 1@h:1,2@h:2", Ok(None));
        check("--id 4 --peers 1@h:1,2@h:2", Ok(Some("127.0.0.1:9092")));
        check("--id 4 --peers 1@h:1 --listen 0.0.0.0:9 --advertise b4:9", Ok(Some("b4:9")));
        check(
            "--id 4 --peers 1@h:1 --listen 0.0.0.0:9",
            Err("missing --advertise HOST:PORT: nobody can reach broker 4 at 0.0.0.0:9"),
        );
        check("--peers 2@h:2", Err("missing --id: --peers does not name broker 1"));
        check(
            "--id 2 --peers 2@h:2 --advertise h:3",
            Err("--advertise h:3: --peers says where broker 2 is reached"),
        );
    }
}
