//! What the controller decides about topics: whether one can be made as asked, and where its replicas go.

use super::configs;
use super::decide::in_order;
use crate::config::BrokerConfig;
use crate::coordinators::is_internal;
use crate::ids::{BrokerId, LeaderEpoch, PartitionEpoch, TopicId};
use crate::metadata::{Image, PartitionState, Record};
use crate::settings::Cleanup;
use riprap_protocol::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};

/// Most partitions of a topic, and of all topics: each is a folder with open files on three brokers.
const MAX_PARTITIONS: usize = 1000;
/// See [`MAX_PARTITIONS`].
const MAX_PARTITIONS_IN_ALL: usize = 10_000;
/// A topic's name is part of a folder's. Source: Kafka's `Topic.MAX_NAME_LENGTH`.
const MAX_NAME_BYTES: usize = 249;

/// A topic as a client asks for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TopicWish {
    /// Its name.
    pub(crate) name: String,
    /// How many partitions; -1 leaves it to the broker.
    pub(crate) partitions: i32,
    /// How many replicas of each; -1 leaves it to the broker.
    pub(crate) replication_factor: i16,
    /// Where the replicas go, by partition; empty leaves it to the broker.
    pub(crate) assignments: Vec<(i32, Vec<BrokerId>)>,
    /// Settings.
    pub(crate) configs: Vec<(String, Option<String>)>,
}

/// Why a topic cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// For programs.
    pub(crate) code: ErrorCode,
    /// For people.
    pub(crate) message: String,
}

pub(super) fn refuse<T>(code: ErrorCode, message: String) -> Result<T, Refusal> {
    Err(Refusal { code, message })
}

/// The records that make a topic. `id` is fresh.
pub(crate) fn create(
    image: &Image,
    config: &BrokerConfig,
    id: TopicId,
    wish: &TopicWish,
) -> Result<Vec<Record>, Refusal> {
    check_name(&wish.name)?;
    if image.topic_id(&wish.name).is_some() {
        return refuse(ErrorCode::TOPIC_ALREADY_EXISTS, format!("topic `{}` exists", wish.name));
    }
    // A setting without a value is left to the broker.
    let asked = wish.configs.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
    let mut asked: Vec<(String, String)> = asked.collect();
    let policy = "cleanup.policy";
    if is_internal(&wish.name) && asked.iter().all(|(name, _)| name != policy) {
        // What coordinators remember must not go with its age.
        asked.push((policy.to_owned(), Cleanup::Compact.to_string()));
    }
    let settings = configs::check(config, asked)?;
    let replicas = if wish.assignments.is_empty() {
        place(image, config, wish)?
    } else {
        assigned(image, config, wish, 0)?
    };
    let in_all = image.partitions().count() + replicas.len();
    if in_all > MAX_PARTITIONS_IN_ALL {
        let message = format!("{in_all} partitions in all; at most {MAX_PARTITIONS_IN_ALL}");
        return refuse(ErrorCode::INVALID_PARTITIONS, message);
    }
    let mut records = vec![Record::CreateTopic {
        id,
        name: wish.name.clone(),
        min_insync_replicas: settings.min_insync_replicas,
        unclean_leader_election: settings.unclean_leader_election,
        configs: settings.configs,
    }];
    records.extend(partitions(image, id, settings.min_insync_replicas, 0, replicas));
    Ok(records)
}

/// The records that give a topic more partitions, up to `count`. `places` says where the new ones' replicas go; empty leaves
/// it to the broker.
pub(crate) fn grow(
    image: &Image,
    config: &BrokerConfig,
    name: &str,
    count: i32,
    places: &[Vec<BrokerId>],
) -> Result<Vec<Record>, Refusal> {
    let Some((id, topic)) = image.topic_id(name).and_then(|id| Some((id, image.topic(id)?))) else {
        return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("there is no topic `{name}`"));
    };
    if is_internal(name) {
        let message =
            format!("topic `{name}` must not grow: coordinators are found by the number of its partitions");
        return refuse(ErrorCode::INVALID_REQUEST, message);
    }
    let (has, in_all) = (topic.partitions.len(), image.partitions().count());
    let most = MAX_PARTITIONS.min(has + MAX_PARTITIONS_IN_ALL.saturating_sub(in_all));
    let added = match usize::try_from(count) {
        Ok(count) if count > has && count <= most => count - has,
        _ => {
            let message = format!("{count} partitions; topic `{name}` has {has}, and may have {most}");
            return refuse(ErrorCode::INVALID_PARTITIONS, message);
        }
    };
    let factor = topic.partitions.values().next().map_or(0, |state| state.replicas.len());
    let replicas = if places.is_empty() {
        let (partitions, replication_factor) = (added as i32, factor as i16);
        place(image, config, &TopicWish { partitions, replication_factor, ..TopicWish::default() })?
    } else {
        let assignments = (has as i32..).zip(places.iter().cloned()).collect();
        let wish = TopicWish { partitions: -1, replication_factor: -1, assignments, ..TopicWish::default() };
        let replicas = assigned(image, config, &wish, has as i32)?;
        if replicas.len() != added || replicas[0].len() != factor {
            let message = format!("{added} partitions with {factor} replicas each are right");
            return refuse(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message);
        }
        replicas
    };
    Ok(partitions(image, id, topic.min_insync_replicas, has as i32, replicas).collect())
}

/// The records of new partitions, numbered from `first` on.
fn partitions(
    image: &Image,
    topic: TopicId,
    min_insync_replicas: u16,
    first: i32,
    replicas: Vec<Vec<BrokerId>>,
) -> impl Iterator<Item = Record> {
    (first..).zip(replicas).map(move |(index, replicas)| {
        let live: Vec<BrokerId> = replicas.iter().copied().filter(|id| image.is_live(*id)).collect();
        // Empty logs are equal. So where nobody lives whoever comes first leads, and where too few do for anything to be
        // committed the others have all that is: one alone might come back without its disk.
        let isr = if live.is_empty() { replicas.clone() } else { live.clone() };
        let is_enough = isr.len() >= usize::from(min_insync_replicas).min(replicas.len());
        let elr = in_order(&replicas, |id| !is_enough && !isr.contains(&id));
        let state = PartitionState {
            leader: live.first().copied(),
            isr,
            elr,
            adding: Vec::new(),
            removing: Vec::new(),
            replicas,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
        };
        Record::SetPartition { topic, index, state }
    })
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty()
        || name.len() > MAX_NAME_BYTES
        || name == "."
        || name == ".."
        || !name.chars().all(legal)
    {
        let message = format!("topic name `{name}`: 1 to {MAX_NAME_BYTES} of a-z A-Z 0-9 . _ - are right");
        return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, message);
    }
    Ok(())
}

/// The client's own places for the partitions from `first` on.
fn assigned(
    image: &Image,
    config: &BrokerConfig,
    wish: &TopicWish,
    first: i32,
) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    let wrong = |message: String| refuse(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message);
    if wish.partitions != -1 || wish.replication_factor != -1 {
        let message = "with assignments, partitions and replication factor must be -1".to_owned();
        return refuse(ErrorCode::INVALID_REQUEST, message);
    }
    let by_index: BTreeMap<i32, &Vec<BrokerId>> = wish.assignments.iter().map(|(i, b)| (*i, b)).collect();
    let end = first + by_index.len() as i32;
    if by_index.len() != wish.assignments.len() || !by_index.keys().copied().eq(first..end) {
        return wrong(format!("partitions must be numbered from {first} without gaps, each once"));
    }
    if by_index.len() > MAX_PARTITIONS {
        let message = format!("{} partitions; at most {MAX_PARTITIONS}", by_index.len());
        return refuse(ErrorCode::INVALID_PARTITIONS, message);
    }
    let factor = by_index[&first].len();
    for (index, replicas) in &by_index {
        let distinct: BTreeSet<&BrokerId> = replicas.iter().collect();
        if replicas.is_empty() || distinct.len() != replicas.len() || replicas.len() != factor {
            return wrong(format!("partition {index}: {factor} different brokers are right"));
        }
        let is_known = |id: BrokerId| config.brokers.contains_key(&id) || image.broker(id).is_some();
        if let Some(unknown) = replicas.iter().find(|id| !is_known(**id)) {
            return wrong(format!("partition {index}: there is no broker {unknown}"));
        }
    }
    Ok(by_index.into_values().cloned().collect())
}

/// Places for the replicas: leaders go round, and so does who follows whom. Brokers that live now come first.
fn place(image: &Image, config: &BrokerConfig, wish: &TopicWish) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    let known: BTreeSet<BrokerId> =
        config.brokers.keys().copied().chain(image.brokers().map(|(id, _)| id)).collect();
    let brokers = known.len();
    let partitions = match wish.partitions {
        -1 => config.default_partitions as usize,
        asked => usize::try_from(asked).unwrap_or(0),
    };
    if partitions == 0 || partitions > MAX_PARTITIONS {
        let message = format!("{} partitions; 1 to {MAX_PARTITIONS}, or -1, are right", wish.partitions);
        return refuse(ErrorCode::INVALID_PARTITIONS, message);
    }
    let factor = match wish.replication_factor {
        -1 => usize::from(config.default_replication_factor).min(brokers),
        asked => usize::try_from(asked).unwrap_or(0),
    };
    if factor == 0 || factor > brokers {
        let asked = wish.replication_factor;
        let message = format!("replication factor {asked}: 1 to {brokers}, or -1, are right");
        return refuse(ErrorCode::INVALID_REPLICATION_FACTOR, message);
    }
    let ids: Vec<BrokerId> = known.into_iter().collect();
    // The next topic goes on where the last one ended, so that topics of one partition do not all have one leader.
    let first = image.partitions().count();
    let places = (first..first + partitions).map(|turn| {
        let rest = 1..ids.len();
        let shift = turn / ids.len();
        let mut order = vec![ids[turn % ids.len()]];
        order.extend(rest.clone().map(|step| {
            let step = (step - 1 + shift) % rest.len() + 1;
            ids[(turn + step) % ids.len()]
        }));
        order.sort_by_key(|id| !image.is_live(*id));
        order.truncate(factor);
        order
    });
    Ok(places.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Address;
    use crate::coordinators::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
    use crate::ids::Incarnation;

    fn config() -> BrokerConfig {
        let brokers =
            (1..=3).map(|id| (BrokerId(id), Address { host: "h".to_owned(), port: 9092 })).collect();
        BrokerConfig::new(BrokerId(1), brokers)
    }

    fn image(live: &[i32]) -> Image {
        let mut image = Image::default();
        for id in live {
            let id = BrokerId(*id);
            image.apply(&Record::RegisterBroker {
                id,
                incarnation: Incarnation(1),
                host: "h".to_owned(),
                port: 1,
            });
            image.apply(&Record::UnfenceBroker { id });
        }
        image
    }

    fn wish() -> TopicWish {
        TopicWish { name: "t".to_owned(), partitions: 2, replication_factor: 3, ..TopicWish::default() }
    }

    fn made(image: &mut Image, name: &str, number: u8) {
        let id = TopicId(riprap_protocol::Uuid([number; 16]));
        let wish = TopicWish { name: name.to_owned(), partitions: 1, ..wish() };
        let records = create(image, &config(), id, &wish).expect("the wish can be granted");
        records.iter().for_each(|record| image.apply(record));
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let check = |change: &dyn Fn(&mut TopicWish), expect: Result<(), (ErrorCode, &str)>| {
            let mut wish = wish();
            change(&mut wish);
            let mut image = image(&[1, 2, 3]);
            made(&mut image, "taken", 9);
            let result = create(&image, &config(), TopicId(riprap_protocol::Uuid([1; 16])), &wish);
            let result = result.map(|_| ()).map_err(|refusal| (refusal.code, refusal.message));
            assert_eq!(result, expect.map_err(|(code, message)| (code, message.to_owned())));
        };
        let configs = |key: &str, value: &str| vec![(key.to_owned(), Some(value.to_owned()))];
        check(&|_| {}, Ok(()));
        check(&|w| w.partitions = -1, Ok(()));
        check(&|w| w.replication_factor = -1, Ok(()));
        check(&|w| w.configs = configs("min.insync.replicas", "1"), Ok(()));
        check(&|w| w.configs = configs("retention.ms", "-1"), Ok(()));
        let bad_name = "topic name `a/b`: 1 to 249 of a-z A-Z 0-9 . _ - are right";
        check(&|w| w.name = "a/b".to_owned(), Err((ErrorCode::INVALID_TOPIC_EXCEPTION, bad_name)));
        let taken = (ErrorCode::TOPIC_ALREADY_EXISTS, "topic `taken` exists");
        check(&|w| w.name = "taken".to_owned(), Err(taken));
        let none = (ErrorCode::INVALID_PARTITIONS, "0 partitions; 1 to 1000, or -1, are right");
        check(&|w| w.partitions = 0, Err(none));
        let many = (ErrorCode::INVALID_REPLICATION_FACTOR, "replication factor 4: 1 to 3, or -1, are right");
        check(&|w| w.replication_factor = 4, Err(many));
        let zero = "setting min.insync.replicas=`0`: a number from 1 to 65535 is right";
        check(&|w| w.configs = configs("min.insync.replicas", "0"), Err((ErrorCode::INVALID_CONFIG, zero)));
        check(&|w| w.configs = configs("cleanup.policy", "compact"), Ok(()));
        let codec = "setting compression.type=`gzip`: only `producer` is supported";
        check(&|w| w.configs = configs("compression.type", "gzip"), Err((ErrorCode::INVALID_CONFIG, codec)));
        let unknown = "setting no.such=`1`: unknown setting";
        check(&|w| w.configs = configs("no.such", "1"), Err((ErrorCode::INVALID_CONFIG, unknown)));
        let ids = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
        let assign = |assignments: Vec<(i32, Vec<BrokerId>)>| {
            move |w: &mut TopicWish| {
                (w.partitions, w.replication_factor) = (-1, -1);
                w.assignments = assignments.clone();
            }
        };
        check(&assign(vec![(0, ids(&[1, 2])), (1, ids(&[3, 1]))]), Ok(()));
        let refuse = |message| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
        check(&assign(vec![(0, ids(&[1, 1]))]), refuse("partition 0: 2 different brokers are right"));
        check(&assign(vec![(0, ids(&[1, 7]))]), refuse("partition 0: there is no broker 7"));
        let gap = "partitions must be numbered from 0 without gaps, each once";
        check(&assign(vec![(1, ids(&[1]))]), refuse(gap));
    }

    #[test]
    fn leaders_go_round() {
        let mut image = image(&[1, 2, 3]);
        for (number, name) in (1..).zip(["a", "b", "c", "d"]) {
            made(&mut image, name, number);
        }
        let leaders: Vec<i32> =
            image.partitions().map(|(_, p)| p.state.leader.expect("all brokers live").0).collect();
        assert_eq!(leaders, [1, 2, 3, 1]);
        // The second time round others come second, so that one that dies leaves its leaderships to both.
        let seconds: Vec<i32> = image.partitions().map(|(_, p)| p.state.replicas[1].0).collect();
        assert_eq!(seconds, [2, 3, 1, 3]);
    }

    #[test]
    fn who_does_not_live_does_not_lead_and_is_in_sync_only_if_nobody_lives() {
        let check = |live: &[i32], leader: Option<i32>, isr: &[i32], elr: &[i32]| {
            let records = create(
                &image(live),
                &config(),
                TopicId(riprap_protocol::Uuid([1; 16])),
                &TopicWish { partitions: 1, ..wish() },
            );
            let records = records.expect("the wish can be granted");
            let Record::SetPartition { state, .. } = &records[1] else {
                panic!("a partition follows its topic")
            };
            assert_eq!(state.leader.map(|id| id.0), leader);
            let numbers = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
            assert_eq!((&numbers(&state.isr)[..], &numbers(&state.elr)[..]), (isr, elr));
            assert_eq!(state.replicas.len(), 3);
        };
        check(&[1, 2, 3], Some(1), &[1, 2, 3], &[]);
        check(&[1, 3], Some(1), &[1, 3], &[]);
        check(&[3], Some(3), &[3], &[1, 2]);
        check(&[], None, &[1, 2, 3], &[]);
    }
    #[test]
    fn topics_grow() {
        let mut image = image(&[1, 2, 3]);
        made(&mut image, "t", 1);
        for name in [OFFSETS_TOPIC, TRANSACTIONS_TOPIC] {
            made(&mut image, name, 2);
        }
        let check = |name: &str, count: i32, places: &[&[i32]], expect: Result<&[(i32, i32)], ErrorCode>| {
            let places: Vec<Vec<BrokerId>> =
                places.iter().map(|ids| ids.iter().map(|id| BrokerId(*id)).collect()).collect();
            let records = grow(&image, &config(), name, count, &places).map_err(|refusal| refusal.code);
            let led = records.map(|records| {
                let led = records.iter().map(|record| match record {
                    Record::SetPartition { index, state, .. } => (*index, state.leader.map_or(-1, |id| id.0)),
                    other => panic!("{other:?} makes no partition"),
                });
                led.collect::<Vec<_>>()
            });
            assert_eq!(led, expect.map(<[_]>::to_vec), "{name} to {count}");
        };
        check("t", 3, &[], Ok(&[(1, 3), (2, 1)]));
        check("t", 2, &[&[2, 3, 1]], Ok(&[(1, 2)]));
        check("t", 3, &[&[2, 3, 1]], Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT));
        check("t", 2, &[&[2, 3]], Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT));
        check("t", 2, &[&[2, 3, 7]], Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT));
        for count in [i32::MIN, -1, 0, 1, 1001, i32::MAX] {
            check("t", count, &[], Err(ErrorCode::INVALID_PARTITIONS));
        }
        check("no-such", 2, &[], Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        check(OFFSETS_TOPIC, 9, &[], Err(ErrorCode::INVALID_REQUEST));
        check(TRANSACTIONS_TOPIC, 9, &[], Err(ErrorCode::INVALID_REQUEST));
    }
}
