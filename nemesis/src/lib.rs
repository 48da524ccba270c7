//! Faults, one file each, and their registry.
//!
//! A fault is told on whom to strike by the run's plan, does so through a [`Cluster`](riprap_core::Cluster), and proves
//! by a probe that it took effect; see [`riprap_core::fault`]. To add one: a file here, and a line in [`ALL`].

mod bit_flip;
mod client_crash;
mod clock;
mod disk_full;
mod disk_slow;
mod hold;
mod kill;
mod latency;
mod links;
mod loss;
mod membership;
mod partition;
mod pause;
mod power_loss;
mod rate;
mod reject;
mod reset;
mod rolling_restart;
mod rolling_upgrade;
mod truncate;

use rand::seq::SliceRandom as _;
use riprap_core::cluster::{Cluster, ClusterError, NodeId, NodeState, Role};
use riprap_core::fault::{Effect, Fault, FaultInfo, Shape, Target};
use riprap_core::seed::Stream;
use serde_json::{Map, Value as Json, json};

/// All faults, sorted by name.
pub static ALL: &[&dyn Fault] = &[
    &bit_flip::BitFlip,
    &client_crash::ClientCrash,
    &clock::Clock,
    &disk_full::DiskFull,
    &disk_slow::DiskSlow,
    &hold::Hold,
    &kill::Kill,
    &latency::Latency,
    &loss::Loss,
    &membership::Membership,
    &partition::Partition,
    &pause::Pause,
    &power_loss::PowerLoss,
    &rate::Rate,
    &reject::Reject,
    &reset::Reset,
    &rolling_restart::RollingRestart,
    &rolling_upgrade::RollingUpgrade,
    &truncate::Truncate,
];

/// The shapes of a fault that strikes nodes one by one.
const ONE_TO_ALL: &[Shape] = &[
    Shape { name: "one", doc: "One node.", min_nodes: 1 },
    Shape { name: "minority", doc: "As many nodes as may fail with a majority left.", min_nodes: 3 },
    Shape { name: "majority", doc: "The smallest majority of the nodes.", min_nodes: 2 },
    Shape { name: "all", doc: "All nodes.", min_nodes: 1 },
];

/// An aim at the nodes that a shape of [`ONE_TO_ALL`] hits, and nothing else.
fn aim(shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Json {
    json!({"shape": shape.name, "nodes": pick(shape, nodes, random)})
}

/// Whether nodes are as they should be, with what they are.
fn observe(
    cluster: &dyn Cluster,
    nodes: &[NodeId],
    expected: impl Fn(&NodeState) -> bool,
) -> Result<Effect, ClusterError> {
    let mut evidence = Map::new();
    let mut took_effect = true;
    for node in nodes {
        let state = cluster.state(*node)?;
        took_effect &= expected(&state);
        let words = match state {
            NodeState::Running => "running".to_owned(),
            NodeState::Paused => "paused".to_owned(),
            NodeState::Down(how) => format!("down: {how}"),
        };
        evidence.insert(node.to_string(), Json::String(words));
    }
    Ok(Effect { took_effect, evidence: Json::Object(evidence) })
}

/// The names of the nodes that a shape of [`ONE_TO_ALL`] or of [`links::LINKS`] hits, in order.
fn pick(shape: &Shape, nodes: &[NodeId], random: &mut Stream) -> Vec<String> {
    let how_many = shape.name.split_once('-').map_or(shape.name, |(how_many, _)| how_many);
    let count = match how_many {
        "one" => 1,
        "minority" => (nodes.len() - 1) / 2,
        "majority" => nodes.len() / 2 + 1,
        _ => nodes.len(),
    };
    let mut shuffled = nodes.to_vec();
    shuffled.shuffle(random);
    let mut picked = shuffled[..count].to_vec();
    picked.sort();
    picked.iter().map(NodeId::to_string).collect()
}

/// The fault of that name.
pub fn find(name: &str) -> Option<&'static dyn Fault> {
    ALL.iter().copied().find(|fault| fault.info().name == name)
}

/// Where faults are to strike.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// How many nodes clients reach.
    pub nodes: u16,
    /// How many more are controllers and nothing else.
    pub controllers: u16,
    /// How many more keep what those have no place for, and nothing else.
    pub storage: u16,
    /// How many of them have each key.
    pub copies: u16,
    /// Whether they are real.
    pub live: bool,
    /// Whether real ones can be given disks that do as they are told.
    pub disks: bool,
    /// Whether they were there already, and are left alone.
    pub existing: bool,
    /// Whether there is another version for them to go to.
    pub upgrade: bool,
    /// Whether others can join real ones.
    pub joins: bool,
    /// Whether there is one more, that can.
    pub spare: bool,
    /// Why real ones cannot be given clocks of their own, if they cannot.
    pub no_clocks: Option<&'static str>,
}

impl Place {
    /// How many nodes of a role there are, or in all.
    fn nodes_of(&self, role: Option<Role>) -> u16 {
        match role {
            None => self.nodes + self.controllers + self.storage,
            Some(Role::Broker) => self.nodes,
            Some(Role::Controller) => self.controllers,
            Some(Role::Storage) => self.storage,
        }
    }
}

/// A fault with what it may strike, at least one target.
pub type Choice = (&'static dyn Fault, Vec<Target>);

/// What `--nemesis` asks for: `kill`, `partition:bridge`, `kill:controller`, `kill:controller:one`, `all`, `none`, several
/// with commas between. A fault named twice strikes both in turn; one without a role strikes nodes of any, and one without
/// a shape takes every shape that there are nodes for; some shapes (`partition:controller:one-other`) need a role. `all` leaves out what [`left_out`] says.
///
/// Errors: one line, with what would have been right.
pub fn parse(words: &[String], place: Place) -> Result<Vec<Choice>, String> {
    let mut choices: Vec<Choice> = Vec::new();
    for word in words {
        let (name, target) =
            word.split_once(':').map_or((word.as_str(), None), |(name, target)| (name, Some(target)));
        let asked: Vec<&'static dyn Fault> = match name {
            "none" => continue,
            "all" => ALL.iter().copied().filter(|fault| obstacle(*fault, place).is_none()).collect(),
            name => vec![find(name).ok_or_else(|| {
                let names: Vec<&str> = ALL.iter().map(|fault| fault.info().name).collect();
                format!("unknown fault `{name}`; one of: {}, all, none", names.join(", "))
            })?],
        };
        for fault in asked {
            let &FaultInfo { name, min_copies, .. } = fault.info();
            if place.existing && fault.strikes_nodes() {
                let others: Vec<&str> = ALL
                    .iter()
                    .filter(|fault| !fault.strikes_nodes())
                    .map(|fault| fault.info().name)
                    .collect();
                return Err(format!(
                    "fault `{name}`: the nodes of a cluster that is there already are left alone; one of {} or none is right",
                    others.join(", ")
                ));
            }
            if !place.live && !fault.strikes_simulated() {
                return Err(format!("fault `{name}` strikes real nodes only; leave it out"));
            }
            if fault.needs_upgrade() && !place.upgrade {
                return Err(format!(
                    "fault `{name}` needs another version to go to; --upgrade-to VERSION is right, or of a system without \
                     versions --upgrade-to FILE, its program"
                ));
            }
            if lacks_joins(fault, place) {
                return Err(format!("fault `{name}` cannot strike there: {MEMBERS_STAY}; leave it out"));
            }
            if lacks_spare(fault, place) {
                return Err(format!("fault `{name}` needs a host more; --spare-host HOST is right"));
            }
            if let Some(why) = lacks_clocks(fault, place) {
                return Err(format!("fault `{name}` cannot strike there: {why}; leave it out"));
            }
            if lacks_disks(fault, place) {
                return Err(format!(
                    "fault `{name}` needs a file system of its own for each node, and {DEVICE} cannot be opened; leave it \
                     out, add --sim, or make that readable and writable (`modprobe fuse`, `chmod 0666 {DEVICE}`)"
                ));
            }
            if place.copies < min_copies {
                let copies = place.copies;
                return Err(format!(
                    "fault `{name}` may cost one of each key's copies, of which there is {copies}; a --replication of {min_copies} \
                     or more is right"
                ));
            }
            let targets = targets(fault, target, place)?;
            match choices.iter_mut().find(|(chosen, _)| chosen.info().name == fault.info().name) {
                Some((_, chosen)) => chosen.extend(targets),
                None => choices.push((fault, targets)),
            }
        }
    }
    Ok(choices)
}

/// The faults that `all` leaves out there, and why.
pub fn left_out(place: Place) -> Vec<(&'static str, &'static str)> {
    let left_out = |fault: &&dyn Fault| Some((fault.info().name, obstacle(*fault, place)?));
    ALL.iter().filter_map(left_out).collect()
}

/// What gives real nodes disks that do as they are told.
const DEVICE: &str = "/dev/fuse";

/// Whether a fault needs of real nodes' disks what cannot be had.
fn lacks_disks(fault: &dyn Fault, place: Place) -> bool {
    place.live && fault.needs_disks() && !place.disks
}

/// Why no other node joins some systems.
const MEMBERS_STAY: &str = "no node joins this system while it runs";

/// Whether a fault needs a system that others can join, and this one they cannot.
fn lacks_joins(fault: &dyn Fault, place: Place) -> bool {
    place.live && fault.needs_spare() && !place.joins
}

/// Whether a fault needs a node more, and there is none.
fn lacks_spare(fault: &dyn Fault, place: Place) -> bool {
    place.live && fault.needs_spare() && !place.spare
}

/// Why real nodes cannot be given clocks that a fault needs, if they cannot.
fn lacks_clocks(fault: &dyn Fault, place: Place) -> Option<&'static str> {
    place.no_clocks.filter(|_| place.live && fault.needs_clocks())
}

/// Why a fault cannot strike there, or is not to, if that is so.
fn obstacle(fault: &dyn Fault, place: Place) -> Option<&'static str> {
    let info = fault.info();
    if let Some(why) = fault.only_by_name() {
        return Some(why);
    }
    if place.existing && fault.strikes_nodes() {
        Some("nodes are left alone")
    } else if !place.live && !fault.strikes_simulated() {
        Some("real nodes only")
    } else if fault.needs_upgrade() && !place.upgrade {
        Some("needs --upgrade-to")
    } else if lacks_joins(fault, place) {
        Some(MEMBERS_STAY)
    } else if lacks_spare(fault, place) {
        Some("needs --spare-host")
    } else if let Some(why) = lacks_clocks(fault, place) {
        Some(why)
    } else if lacks_disks(fault, place) {
        Some("/dev/fuse cannot be opened")
    } else if info.shapes.iter().all(|shape| shape.min_nodes > place.nodes_of(None)) {
        Some("needs more nodes")
    } else if info.min_copies > place.copies {
        Some("needs more copies of each key")
    } else {
        None
    }
}

/// What a word asks a fault to strike: `ROLE`, `SHAPE`, `ROLE:SHAPE`, or nothing in particular.
fn targets(fault: &'static dyn Fault, word: Option<&str>, place: Place) -> Result<Vec<Target>, String> {
    let info = fault.info();
    let (first, rest) = word.map_or((None, None), |word| {
        word.split_once(':').map_or((Some(word), None), |(a, b)| (Some(a), Some(b)))
    });
    let role = first.and_then(Role::from_name);
    if let (Some(role), false) = (first.filter(|_| role.is_some()), fault.strikes_nodes()) {
        return Err(format!(
            "fault `{}:{role}`: it strikes clients, which have no role; leave it out",
            info.name
        ));
    }
    let word = if role.is_some() { rest } else { word };
    let nodes = place.nodes_of(role);
    let of_role = first.filter(|_| role.is_some()).map(|role| format!(":{role}")).unwrap_or_default();
    if nodes == 0 {
        let why = match role {
            Some(Role::Storage) => "brokers of this system keep their data themselves",
            _ => {
                "every node is a broker and a controller; --controllers 3 has some that are no more than that"
            }
        };
        return Err(format!("fault `{}{of_role}` finds none: {why}", info.name));
    }
    // Where all nodes are of the role, there is no other.
    let has_others = role.is_some() && nodes < place.nodes_of(None);
    let of_roles = if has_others { fault.shapes_of_roles() } else { &[] };
    let shapes = || info.shapes.iter().chain(of_roles);
    let Some(word) = word else {
        let possible = shapes().filter(|shape| shape.min_nodes <= nodes);
        let possible: Vec<Target> = possible.map(|shape| Target { role, shape }).collect();
        if possible.is_empty() {
            return Err(format!("fault `{}{of_role}` needs more than {nodes} nodes", info.name));
        }
        return Ok(possible);
    };
    let shape = shapes().find(|shape| shape.name == word).ok_or_else(|| {
        let shapes = shapes().map(|shape| shape.name);
        let may_have_role = role.is_none() && fault.strikes_nodes();
        let roles = Role::NAMES.iter().map(|(name, _)| *name).filter(|_| may_have_role);
        let names: Vec<&str> = shapes.chain(roles).collect();
        format!("unknown shape `{word}` of fault `{}`; one of: {}", info.name, names.join(", "))
    })?;
    if shape.min_nodes > nodes {
        let (name, least) = (info.name, shape.min_nodes);
        let (of, flag) = match role {
            Some(Role::Controller) => ("controllers", "--controllers is"),
            Some(Role::Storage) => ("nodes of storage", "this system has"),
            _ => ("nodes", "--nodes is"),
        };
        return Err(format!("fault `{name}{of_role}:{word}` needs at least {least} {of}; {flag} {nodes}"));
    }
    Ok(vec![Target { role, shape }])
}

/// The nodes that an aim names.
fn nodes(aim: &Json) -> Result<Vec<NodeId>, ClusterError> {
    let names = aim.get("nodes").and_then(Json::as_array);
    let nodes = names.and_then(|names| names.iter().map(|name| NodeId::from_name(name.as_str()?)).collect());
    nodes.ok_or_else(|| ClusterError(format!("aim {aim}; {{\"nodes\": [\"n1\", ...]}} is expected")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::Seed;

    /// Real nodes, to which all can be done.
    pub(crate) const REAL: Place = Place {
        nodes: 3,
        controllers: 0,
        storage: 0,
        copies: 3,
        live: true,
        disks: true,
        existing: false,
        upgrade: false,
        joins: false,
        spare: true,
        no_clocks: None,
    };

    fn check(words: &str, nodes: u16, expected: Result<&str, &str>) {
        check_there(words, nodes, true, expected);
    }

    fn check_there(words: &str, nodes: u16, live: bool, expected: Result<&str, &str>) {
        check_roles(words, nodes, 0, live, expected);
    }

    fn check_roles(words: &str, nodes: u16, controllers: u16, live: bool, expected: Result<&str, &str>) {
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        let found = parse(&words, Place { nodes, controllers, copies: nodes, live, ..REAL }).map(|choices| {
            let one = |(fault, targets): &Choice| {
                let told = |target: &Target| match target.role {
                    Some(role) => format!("{role:?}-{}", target.shape.name),
                    None => target.shape.name.to_owned(),
                };
                let targets: Vec<String> = targets.iter().map(told).collect();
                format!("{}({})", fault.info().name, targets.join(" "))
            };
            choices.iter().map(one).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn faults_are_named() {
        check("kill", 3, Ok("kill(one minority majority all)"));
        check("kill:one,partition:bridge", 3, Ok("kill(one) partition(bridge)"));
        check("kill:one,kill:all", 3, Ok("kill(one all)"));
        check("none", 3, Ok(""));
        let all = "bit-flip, client-crash, clock, disk-full, disk-slow, hold, kill, latency, loss, membership, partition, pause, power-loss, rate, reject, \
                   reset, rolling-restart, rolling-upgrade, truncate";
        check("kil", 3, Err(&format!("unknown fault `kil`; one of: {all}, all, none")));
        let refused =
            "fault `membership` cannot strike there: no node joins this system while it runs; leave it out";
        check("kill:one,membership", 3, Err(refused));
        check_there("kill:one,clock:one", 3, false, Ok("kill(one) clock(one)"));
        check_there("loss", 3, false, Err("fault `loss` strikes real nodes only; leave it out"));
        let shapes = "(one one-clients all all-clients)";
        let all = [
            "client-crash(one minority majority all)",
            "clock(one all one-strobe all-strobe)",
            "disk-full(one all)",
            "disk-slow(one all)",
            "hold",
            "kill(one all)",
            "latency",
            "loss",
            "pause(one all)",
            "power-loss(one all)",
            "rate",
            "reject",
            "reset",
            "rolling-restart(round)",
        ]
        .map(|fault| if fault.contains('(') { fault.to_owned() } else { format!("{fault}{shapes}") });
        check_there("all", 1, true, Ok(&all.join(" ")));
        let left_out: Vec<String> =
            left_out(Place { nodes: 1, copies: 1, disks: false, no_clocks: Some("no such thing"), ..REAL })
                .into_iter()
                .map(|(name, why)| format!("{name} {why}"))
                .collect();
        let no_disk = |name: &str| format!("{name} /dev/fuse cannot be opened");
        let mut expected = vec!["bit-flip needs more nodes".to_owned(), "clock no such thing".to_owned()];
        expected.extend(["disk-full", "disk-slow"].map(no_disk));
        expected.push("membership no node joins this system while it runs".to_owned());
        expected.extend(["partition needs more nodes".to_owned(), no_disk("power-loss")]);
        expected.push("rolling-upgrade needs --upgrade-to".to_owned());
        expected.push("truncate only by its name".to_owned());
        assert_eq!(left_out, expected);
        let poor = Place { disks: false, ..REAL };
        let refused = "fault `power-loss` needs a file system of its own for each node, and /dev/fuse cannot be opened; leave it \
                       out, add --sim, or make that readable and writable (`modprobe fuse`, `chmod 0666 /dev/fuse`)";
        assert_eq!(parse(&["power-loss:all".to_owned()], poor).err().as_deref(), Some(refused));
        let alone = Place { copies: 1, live: false, disks: false, ..REAL };
        let why = "needs more copies of each key";
        let real = "real nodes only";
        let mut expected =
            ["bit-flip", "loss", "membership", "rate", "reject", "rolling-restart", "rolling-upgrade"]
                .map(|name| (name, if ["bit-flip", "membership"].contains(&name) { why } else { real }))
                .to_vec();
        expected.push(("truncate", "only by its name"));
        assert_eq!(super::left_out(alone), expected);
        let refused = "fault `bit-flip` may cost one of each key's copies, of which there is 1; a --replication of 2 or more is right";
        assert_eq!(parse(&["bit-flip".to_owned()], alone).err().as_deref(), Some(refused));
        check(
            "kill:some",
            3,
            Err(
                "unknown shape `some` of fault `kill`; one of: one, minority, majority, all, broker, controller, storage",
            ),
        );
        check("partition:bridge", 2, Err("fault `partition:bridge` needs at least 3 nodes; --nodes is 2"));
        check("partition", 1, Err("fault `partition` needs more than 1 nodes"));
    }

    #[test]
    fn nodes_that_are_there_already_are_left_alone() {
        let there = Place { existing: true, ..REAL };
        let words = |word: &str| vec![word.to_owned()];
        let names =
            |choices: Vec<Choice>| choices.iter().map(|(fault, _)| fault.info().name).collect::<Vec<_>>();
        assert_eq!(parse(&words("all"), there).map(names), Ok(vec!["client-crash"]));
        let refused = "fault `kill`: the nodes of a cluster that is there already are left alone; one of client-crash or none is \
                       right";
        assert_eq!(parse(&words("kill"), there).err().as_deref(), Some(refused));
        let named = ("truncate", "only by its name");
        assert!(left_out(there).iter().all(|left| *left == named || left.1 == "nodes are left alone"));
        assert_eq!(left_out(there).len(), ALL.len() - 1);
    }

    #[test]
    fn a_clock_is_one_that_can_be_set() {
        let there = Place { no_clocks: Some("libfaketime is not installed"), ..REAL };
        let refused = parse(&["clock".to_owned()], there).err();
        assert_eq!(
            refused.as_deref(),
            Some("fault `clock` cannot strike there: libfaketime is not installed; leave it out")
        );
        assert!(parse(&["clock".to_owned()], Place { live: false, ..there }).is_ok());
    }

    #[test]
    fn who_joins_is_let_in() {
        let words = ["membership".to_owned()];
        let count = |place: Place| parse(&words, place).map(|choices| choices.len());
        assert_eq!(count(Place { joins: true, ..REAL }), Ok(1));
        assert_eq!(count(Place { live: false, ..REAL }), Ok(1));
        let refused = "fault `membership` needs a host more; --spare-host HOST is right";
        assert_eq!(count(Place { joins: true, spare: false, ..REAL }), Err(refused.to_owned()));
        let refused = "fault `membership` may cost one of each key's copies, of which there is 1; a --replication of 2 or more \
                       is right";
        assert_eq!(count(Place { joins: true, copies: 1, ..REAL }), Err(refused.to_owned()));
    }

    #[test]
    fn an_upgrade_goes_somewhere() {
        check(
            "rolling-upgrade",
            3,
            Err(
                "fault `rolling-upgrade` needs another version to go to; --upgrade-to VERSION is right, or of a system without \
                 versions --upgrade-to FILE, its program",
            ),
        );
        let parsed = parse(&["rolling-upgrade".to_owned()], Place { upgrade: true, ..REAL });
        assert_eq!(parsed.map(|choices| choices.len()), Ok(1));
    }

    #[test]
    fn roles_are_named() {
        let check = |words: &str, expected: Result<&str, &str>| check_roles(words, 3, 1, true, expected);
        check("kill:controller", Ok("kill(Controller-one Controller-all)"));
        check("kill:controller:all,kill:broker:minority", Ok("kill(Controller-all Broker-minority)"));
        // Nodes of any role.
        check("partition:majorities-ring", Ok("partition(majorities-ring)"));
        check(
            "kill:controller:minority",
            Err("fault `kill:controller:minority` needs at least 3 controllers; --controllers is 1"),
        );
        check("partition:controller", Ok("partition(Controller-one-other)"));
        check("partition:controller:one-other", Ok("partition(Controller-one-other)"));
        let shapes = "one, halves, random-halves, one-way, bridge, majorities-ring, alone, one-clients, majority-clients, mute";
        let refused = format!(
            "unknown shape `one-other` of fault `partition`; one of: {shapes}, broker, controller, storage"
        );
        check("partition:one-other", Err(&refused));
        check(
            "kill:controller:some",
            Err("unknown shape `some` of fault `kill`; one of: one, minority, majority, all"),
        );
        check(
            "client-crash:broker",
            Err("fault `client-crash:broker`: it strikes clients, which have no role; leave it out"),
        );
        check_there(
            "kill:controller",
            3,
            true,
            Err(
                "fault `kill:controller` finds none: every node is a broker and a controller; --controllers 3 has some that are \
                 no more than that",
            ),
        );
    }

    #[test]
    fn faults_strike_what_keeps_others_data() {
        let check = |word: &str, storage: u16, expected: Result<&str, &str>| {
            let place = Place { storage, copies: 1, ..REAL };
            let found = parse(&[word.to_owned()], place).map(|choices| {
                let shapes = choices.iter().flat_map(|(_, targets)| targets).map(|target| target.shape.name);
                shapes.collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{word}");
        };
        check("kill:storage", 1, Ok("one all"));
        check("kill:storage:one", 1, Ok("one"));
        check("kill", 1, Ok("one minority majority all"));
        check(
            "kill:storage:majority",
            1,
            Err("fault `kill:storage:majority` needs at least 2 nodes of storage; this system has 1"),
        );
        check(
            "kill:storage",
            0,
            Err("fault `kill:storage` finds none: brokers of this system keep their data themselves"),
        );
    }

    /// House rules: sorted and documented.
    #[test]
    fn the_registry_is_sorted_and_documented() {
        assert!(ALL.windows(2).all(|pair| pair[0].info().name < pair[1].info().name));
        for fault in ALL {
            let info = fault.info();
            assert!(!info.doc.is_empty() && !info.shapes.is_empty(), "{}", info.name);
            let shapes = || info.shapes.iter().chain(fault.shapes_of_roles());
            assert!(shapes().all(|shape| !shape.doc.is_empty()), "{}: shapes", info.name);
            assert_ne!(info.strike_f, info.heal_f, "{}", info.name);
        }
    }

    /// Whatever rots has to be whole elsewhere.
    #[test]
    fn one_disk_rots_in_a_run() {
        let fault = find("bit-flip").expect("it is one");
        for seed in 0..20 {
            let mut random = Seed(seed).stream("test", "rot");
            let targets = fault.targets(&NodeId::first(5), &mut random);
            let aim = fault.aim(&fault.info().shapes[0], &targets, &mut random);
            assert_eq!((targets.len(), aim["nodes"].clone()), (1, json!([targets[0].to_string()])));
            // What reads as it did before has not flipped.
            assert!(!fault.strike(&links::tests::Net::default(), &aim).expect("it can").took_effect);
        }
    }
}
