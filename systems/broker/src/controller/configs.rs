//! What the controller decides about the settings of topics.
//!
//! A change of `min.insync.replicas` or `unclean.leader.election.enable` changes partitions too, in the same entry: where
//! fewer replicas are enough from now on, those that left the ISR in time are not as good as its members any more; and
//! where any replica may lead now, one does.
//!
//! Source: Kafka's ConfigurationControlManager; KIP-339 (incremental changes), KIP-966 (ELR).

use super::decide;
use super::topics::{Refusal, refuse};
use crate::config::BrokerConfig;
use crate::metadata::{Image, Record};
use crate::settings::{Kind, TopicSettings, UNTHROTTLED, topic_setting};
use riprap_protocol::ErrorCode;
use std::collections::BTreeMap;

/// The settings of a topic, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Checked {
    pub(crate) min_insync_replicas: u16,
    pub(crate) unclean_leader_election: bool,
    /// As asked for, by name.
    pub(crate) configs: Vec<(String, String)>,
}

/// One change of a setting. Source: Kafka's `AlterConfigOp.OpType`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Set(String),
    /// Back to the broker's.
    Delete,
    /// Words more for a list.
    Append(String),
    /// Words less for a list.
    Subtract(String),
}

impl Change {
    /// What the wire says; none if it is nothing that is known.
    pub(crate) fn from_wire(operation: i8, value: Option<String>) -> Option<Change> {
        match (operation, value) {
            (0, Some(value)) => Some(Change::Set(value)),
            (1, _) => Some(Change::Delete),
            (2, Some(value)) => Some(Change::Append(value)),
            (3, Some(value)) => Some(Change::Subtract(value)),
            _ => None,
        }
    }
}

/// Checks what is asked for.
pub(crate) fn check(
    config: &BrokerConfig,
    asked: impl IntoIterator<Item = (String, String)>,
) -> Result<Checked, Refusal> {
    let mut configs: Vec<(String, String)> = Vec::new();
    let mut settings = config.topic_settings();
    for (name, value) in asked {
        let wrong = |right: &str| Refusal {
            code: ErrorCode::INVALID_CONFIG,
            message: format!("setting {name}=`{value}`: {right}"),
        };
        if configs.iter().any(|(known, _)| *known == name) {
            return Err(wrong("given twice"));
        }
        let setting = topic_setting(&name).ok_or_else(|| wrong("unknown setting"))?;
        (setting.set)(&mut settings, &value).map_err(|right| wrong(&right))?;
        configs.push((name, value));
    }
    configs.sort();
    // DEFECT min-isr-unclean: what a topic asks for does not count.
    let by_topic = config.durability().by_topic;
    let counted = if by_topic { settings } else { config.topic_settings() };
    Ok(Checked {
        min_insync_replicas: counted.min_insync_replicas,
        unclean_leader_election: counted.unclean_leader_election,
        configs,
    })
}

/// The records that change some settings of a topic.
pub(crate) fn change(
    image: &Image,
    config: &BrokerConfig,
    name: &str,
    changes: &[(String, Change)],
) -> Result<Vec<Record>, Refusal> {
    let topic = image.topic_id(name).and_then(|id| image.topic(id));
    let topic = topic.ok_or_else(|| no_such(name))?;
    let mut configs: BTreeMap<String, String> = topic.configs.iter().cloned().collect();
    for (index, (key, change)) in changes.iter().enumerate() {
        if changes[..index].iter().any(|(other, _)| other == key) {
            return refuse(ErrorCode::INVALID_REQUEST, format!("setting {key} is changed twice"));
        }
        let words = || -> Result<Vec<String>, Refusal> {
            let setting = topic_setting(key).filter(|setting| setting.kind == Kind::List);
            let setting = setting.ok_or_else(|| Refusal {
                code: ErrorCode::INVALID_CONFIG,
                message: format!("setting {key} is no list, to which words can be added or taken away"),
            })?;
            let resolved = (setting.get)(&TopicSettings::resolve(config, &topic.configs));
            Ok(resolved.split(',').map(str::to_owned).collect())
        };
        match change {
            Change::Set(value) => {
                configs.insert(key.clone(), value.clone());
            }
            Change::Delete => {
                configs.remove(key);
            }
            Change::Append(value) => {
                let mut words = words()?;
                for word in value.split(',').map(str::trim) {
                    if words.iter().all(|known| known != word) {
                        words.push(word.to_owned());
                    }
                }
                configs.insert(key.clone(), words.join(","));
            }
            Change::Subtract(value) => {
                let mut words = words()?;
                words.retain(|word| value.split(',').all(|gone| gone.trim() != word));
                configs.insert(key.clone(), words.join(","));
            }
        }
    }
    replace(image, config, name, configs)
}

/// The records that give a topic these settings and no others.
pub(crate) fn replace(
    image: &Image,
    config: &BrokerConfig,
    name: &str,
    configs: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Record>, Refusal> {
    let found = image.topic_id(name).and_then(|id| Some((id, image.topic(id)?)));
    let (id, topic) = found.ok_or_else(|| no_such(name))?;
    let Checked { min_insync_replicas, unclean_leader_election, configs } = check(config, configs)?;
    if topic.configs == configs
        && topic.min_insync_replicas == min_insync_replicas
        && topic.unclean_leader_election == unclean_leader_election
    {
        return Ok(Vec::new());
    }
    let record = Record::SetTopicConfigs { id, min_insync_replicas, unclean_leader_election, configs };
    let mut changed = image.clone();
    changed.apply(&record);
    let mut records = vec![record];
    records.extend(decide::reconfigured(&changed, id));
    Ok(records)
}

/// Whether a broker can be left as it is by these changes. Nothing of it can be changed while it runs; tools take away
/// what is not there.
pub(crate) fn leave_broker(changes: &[(String, Change)]) -> Result<(), Refusal> {
    for (name, change) in changes {
        let is_nothing = *change == Change::Delete && UNTHROTTLED.contains(&name.as_str());
        if !is_nothing {
            let message = format!("setting {name}: those of a broker cannot be changed while it runs");
            return refuse(ErrorCode::INVALID_CONFIG, message);
        }
    }
    Ok(())
}

fn no_such(name: &str) -> Refusal {
    Refusal {
        code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        message: format!("the topic `{name}` does not exist"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BrokerId, Incarnation, LeaderEpoch, PartitionEpoch, TopicId};
    use crate::metadata::PartitionState;
    use riprap_protocol::Uuid;

    const TOPIC: TopicId = TopicId(Uuid([1; 16]));

    fn config() -> BrokerConfig {
        BrokerConfig::new(BrokerId(1), Default::default())
    }

    /// A topic of one partition; brokers 1 to 3 live but for `dead`.
    fn image(configs: &[(&str, &str)], isr: &[i32], elr: &[i32], leader: Option<i32>, dead: &[i32]) -> Image {
        let mut image = Image::default();
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        for id in [1, 2, 3].map(BrokerId) {
            let host = "h".to_owned();
            image.apply(&Record::RegisterBroker { id, incarnation: Incarnation(1), host, port: 1 });
            if !dead.contains(&id.0) {
                image.apply(&Record::UnfenceBroker { id });
            }
        }
        let configs = configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let checked = check(&config(), configs).expect("the settings are right");
        image.apply(&Record::CreateTopic {
            id: TOPIC,
            name: "t".to_owned(),
            min_insync_replicas: checked.min_insync_replicas,
            unclean_leader_election: checked.unclean_leader_election,
            configs: checked.configs,
        });
        let state = PartitionState {
            replicas: ids(&[1, 2, 3]),
            isr: ids(isr),
            elr: ids(elr),
            adding: vec![],
            removing: vec![],
            leader: leader.map(BrokerId),
            leader_epoch: LeaderEpoch(3),
            partition_epoch: PartitionEpoch(5),
        };
        image.apply(&Record::SetPartition { topic: TOPIC, index: 0, state });
        image
    }

    fn set(value: &str) -> Change {
        Change::Set(value.to_owned())
    }

    #[test]
    fn settings_change() {
        let before = &[("cleanup.policy", "delete"), ("retention.ms", "5")];
        let check = |changes: &[(&str, Change)], expect: Result<&[(&str, &str)], &str>| {
            let mut image = image(before, &[1, 2, 3], &[], Some(1), &[]);
            let changes: Vec<_> =
                changes.iter().map(|(name, change)| ((*name).to_owned(), change.clone())).collect();
            let found = change(&image, &config(), "t", &changes).map(|records| {
                records.iter().for_each(|record| image.apply(record));
                image.topic(TOPIC).expect("it is there").configs.clone()
            });
            let expect = expect.map(|configs| {
                configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
            });
            assert_eq!(
                found.map_err(|refusal| refusal.message),
                expect.map_err(str::to_owned),
                "{changes:?}"
            );
        };
        check(&[], Ok(before));
        check(&[("retention.ms", set("7"))], Ok(&[("cleanup.policy", "delete"), ("retention.ms", "7")]));
        check(&[("retention.ms", Change::Delete)], Ok(&[("cleanup.policy", "delete")]));
        check(&[("retention.bytes", Change::Delete)], Ok(before));
        check(&[("leader.replication.throttled.replicas", Change::Delete)], Ok(before));
        let both = &[("cleanup.policy", "delete,compact"), ("retention.ms", "5")];
        let word = |word: &str| Change::Append(word.to_owned());
        check(&[("cleanup.policy", word("compact"))], Ok(both));
        check(&[("cleanup.policy", word("delete"))], Ok(before));
        let less = Change::Subtract("delete".to_owned());
        let empty = "setting cleanup.policy=``: delete, compact, or both with a comma between them are right";
        check(&[("cleanup.policy", less)], Err(empty));
        let no_list = "setting retention.ms is no list, to which words can be added or taken away";
        check(&[("retention.ms", word("1"))], Err(no_list));
        check(&[("no.such", set("1"))], Err("setting no.such=`1`: unknown setting"));
        let twice = [("retention.ms", set("1")), ("retention.ms", Change::Delete)];
        check(&twice, Err("setting retention.ms is changed twice"));
        let number = "setting retention.ms=`x`: a number from -1 to 9223372036854775807 is right";
        check(&[("retention.ms", set("x"))], Err(number));
    }

    #[test]
    fn what_partitions_rest_on_changes_them() {
        type State<'a> = (&'a [i32], &'a [i32], Option<i32>);
        let check =
            |(isr, elr, leader): State<'_>, dead: &[i32], name: &str, value: &str, expect: State<'_>| {
                let mut image = image(&[], isr, elr, leader, dead);
                let changes = [(name.to_owned(), set(value))];
                let records = change(&image, &config(), "t", &changes).expect("it can be set");
                records.iter().for_each(|record| image.apply(record));
                let key = crate::ids::PartitionKey { topic: TOPIC, index: 0 };
                let state = image.partition(key).expect("it is there").state;
                let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
                let found = (ids(&state.isr), ids(&state.elr), state.leader.map(|id| id.0));
                assert_eq!(found, (expect.0.to_vec(), expect.1.to_vec(), expect.2), "{name}={value}");
            };
        let min = "min.insync.replicas";
        check((&[1], &[2], Some(1)), &[2, 3], min, "3", (&[1], &[2], Some(1)));
        check((&[1], &[2], Some(1)), &[2, 3], min, "1", (&[1], &[], Some(1)));
        let unclean = "unclean.leader.election.enable";
        check((&[1], &[], None), &[1, 2], unclean, "true", (&[3], &[], Some(3)));
        check((&[1], &[], Some(1)), &[], unclean, "true", (&[1], &[], Some(1)));
        check((&[1], &[], None), &[1, 2], unclean, "false", (&[1], &[], None));
    }
}
