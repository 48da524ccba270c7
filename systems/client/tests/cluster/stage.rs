//! A cluster of three brokers in a simulated world, its weather, and clients that are scripts.

use riprap_broker::{Address, Broker, BrokerConfig, BrokerId};
use riprap_client::{Options, WireLog};
use riprap_core::client::{ClientConfig, ClientLog, Isolation};
use riprap_env::LogLevel;
use riprap_env::random::Draws;
use riprap_env::task::{Io, Tasks};
use riprap_sim::{HostId, Others, Physics, World};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

pub(crate) const MS: u64 = 1_000_000;
const BROKERS: i32 = 3;

/// What may happen to brokers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weather {
    /// Processes end and come back.
    Kills,
    /// The same, and all that can happen to connections: bytes may come long after their sender gave up.
    All,
}

pub(crate) struct Stage {
    pub(crate) world: World,
    brokers: Vec<HostId>,
    others: Vec<HostId>,
    draws: Draws,
}

impl Stage {
    /// A cluster that is up.
    pub(crate) fn new(seed: u64) -> Stage {
        let mut world = World::new(seed, Physics::default());
        if std::env::var_os("RIPRAP_LOG").is_some() {
            world.keep_logs(LogLevel::Debug);
        }
        let brokers: Vec<HostId> = (1..=BROKERS)
            .map(|id| {
                let make =
                    move || Box::new(Broker::new(config(id)).expect("the configuration works")) as Box<_>;
                world.add(&format!("n{id}"), make)
            })
            .collect();
        brokers.iter().for_each(|broker| world.start(*broker));
        let mut stage = Stage { world, brokers, others: Vec::new(), draws: Draws::new(seed, "weather") };
        stage.run_ms(1500);
        stage
    }

    /// Starts a client that runs a script.
    pub(crate) fn client<F: Future<Output = ()> + 'static>(
        &mut self,
        name: &str,
        script: impl Fn(Io) -> F + 'static,
    ) -> HostId {
        let script = Rc::new(script);
        let host = self.world.add(name, move || {
            let script = Rc::clone(&script);
            Box::new(Tasks::new(move |io| script(io)))
        });
        self.others.push(host);
        self.world.start(host);
        host
    }

    pub(crate) fn run_ms(&mut self, ms: u64) {
        self.world.run_until(self.world.now_ns() + ms * MS);
    }

    /// Goes on until it is so; how long that took. Units: milliseconds.
    pub(crate) fn until(&mut self, limit_ms: u64, what: &str, is_so: impl Fn() -> bool) -> u64 {
        let began_ns = self.world.now_ns();
        while !is_so() {
            if self.world.now_ns() >= began_ns + limit_ms * MS {
                for host in self.brokers.iter().chain(&self.others) {
                    eprintln!("{}:\n{}", self.world.name(*host), self.world.log(*host));
                }
                panic!("not within {limit_ms} ms: {what}");
            }
            self.run_ms(10);
        }
        (self.world.now_ns() - began_ns) / MS
    }

    /// Options as a seed has them: every client of a run may be set otherwise, and all must do.
    pub(crate) fn options(&mut self) -> Options {
        let mut ms = |least: u64, most: u64| Duration::from_millis(least + self.draw(most - least + 1));
        let defaults = Options::default();
        Options {
            request_timeout: ms(500, 4000),
            connection_setup_timeout: ms(200, 1500),
            reconnect_backoff: (ms(1, 100), ms(100, 1000)),
            retry_backoff: (ms(1, 100), ms(100, 1000)),
            metadata_max_age: ms(200, 5000),
            session_timeout: ms(3000, 6000),
            heartbeat_interval: ms(200, 1000),
            fetch_max_wait: ms(0, 500),
            // A fetch that may not bring as much as it waits for waits each time.
            fetch_min_bytes: 1 + self.draw(200) as i32,
            max_partition_fetch_bytes: 300 + self.draw(3000) as i32,
            fetch_sessions: self.draw(2) == 0,
            ..defaults
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.draws.next_u64("what") % below
    }

    fn any_broker(&mut self) -> HostId {
        let at = self.draw(self.brokers.len() as u64);
        self.brokers[at as usize]
    }

    fn any_host(&mut self) -> HostId {
        let at = self.draw((self.brokers.len() + self.others.len()) as u64) as usize;
        self.brokers.iter().chain(&self.others).copied().nth(at).expect("it is one of them")
    }

    /// Bad weather for so long, and then none.
    pub(crate) fn storm(&mut self, weather: Weather, ms: u64) {
        let until_ns = self.world.now_ns() + ms * MS;
        while self.world.now_ns() < until_ns {
            let kinds = if weather == Weather::All { 8 } else { 2 };
            let (one, other) = (self.any_broker(), self.any_host());
            let lasts_ms = 50 + self.draw(1500);
            match self.draw(kinds) {
                0 => self.world.kill(one),
                1 => drop(self.world.power_fail(one)),
                2 => self.world.pause(one),
                3 => self.world.set_cuts(BTreeSet::from([(one, other), (other, one)])),
                4 => self.world.set_cuts(BTreeSet::from([(one, other)])),
                5 => self.world.set_holds(BTreeSet::from([(other, one)])),
                6 => self.world.set_holds(BTreeSet::from([(one, other)])),
                _ => {
                    self.world.reset(one, &Others::Among(BTreeSet::from([other])));
                }
            }
            self.run_ms(lasts_ms);
            if self.draw(4) > 0 {
                self.heal();
            }
            let calm_ms = 50 + self.draw(800);
            self.run_ms(calm_ms);
        }
        self.heal();
    }

    pub(crate) fn heal(&mut self) {
        self.world.set_cuts(BTreeSet::new());
        self.world.set_holds(BTreeSet::new());
        for broker in self.brokers.clone() {
            self.world.resume(broker);
            if !self.world.is_up(broker) {
                self.world.start(broker);
            }
        }
    }
}

fn config(id: i32) -> BrokerConfig {
    let address = |id: i32| (BrokerId(id), Address { host: format!("n{id}"), port: 9092 });
    BrokerConfig::new(BrokerId(id), (1..=BROKERS).map(address).collect())
}

/// The settings of a client, to be changed.
pub(crate) fn settings(name: &str) -> ClientConfig {
    ClientConfig {
        client_id: name.to_owned(),
        bootstrap: (1..=BROKERS).map(|id| format!("n{id}:9092")).collect(),
        acks: "all".to_owned(),
        idempotence: true,
        transactional_id: None,
        isolation: Isolation::ReadCommitted,
        group_id: "g".to_owned(),
        topic_prefix: "t".to_owned(),
        partitions_per_topic: 2,
        replication_factor: 3,
        value_bytes: 1,
        delivery_timeout: Duration::from_secs(5),
        poll_timeout: Duration::from_millis(200),
        max_poll_records: 20,
        properties: Vec::new(),
        log: ClientLog::default(),
        life: Default::default(),
    }
}

/// A client with the default options.
pub(crate) fn plain(io: &Io, name: &str) -> WireLog {
    WireLog::new(io.clone(), settings(name), Options::default())
}
