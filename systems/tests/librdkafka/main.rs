//! The client over librdkafka, against the cluster that librdkafka pretends to be for tests of its own: what a member of
//! a group commits, what the group is said to have committed, going from a group to keys of one's own and back, and how
//! transactions end. That cluster keeps no markers, and shows everybody every record.

mod transactions;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use riprap_core::client::{ClientConfig, Isolation, Life, Log, LogError, block_on};
use riprap_core::op::{Key, Offset, Value};
use riprap_systems::librdkafka::KafkaLog;
use std::time::{Duration, Instant};

/// How long anything may take: a group of this cluster waits three seconds for more members.
const DEADLINE: Duration = Duration::from_secs(30);

type Mock = MockCluster<'static, DefaultProducerContext>;

fn client(mock: &Mock, transactional_id: Option<&str>) -> KafkaLog {
    mortal(mock, transactional_id, Life::default())
}

fn mortal(mock: &Mock, transactional_id: Option<&str>, life: Life) -> KafkaLog {
    let config = ClientConfig {
        client_id: "test".to_owned(),
        bootstrap: vec![mock.bootstrap_servers()],
        acks: "all".to_owned(),
        idempotence: true,
        transactional_id: transactional_id.map(str::to_owned),
        isolation: Isolation::ReadCommitted,
        group_id: "riprap".to_owned(),
        topic_prefix: "t".to_owned(),
        partitions_per_topic: 4,
        replication_factor: 1,
        value_bytes: 1,
        delivery_timeout: Duration::from_secs(10),
        poll_timeout: Duration::from_millis(100),
        max_poll_records: 512,
        properties: Vec::new(),
        log: Default::default(),
        life,
    };
    KafkaLog::new(config, &[])
}

/// Polls until this value of this key is there. Gives the offsets read of the key, and what the group gave and took.
fn poll_until(log: &mut KafkaLog, key: i64, value: i64) -> Result<(Vec<i64>, Vec<String>), LogError> {
    let began = Instant::now();
    let (mut offsets, mut rebalance) = (Vec::new(), Vec::new());
    loop {
        let polled = block_on(log.poll())?;
        rebalance.extend(polled.rebalance.into_iter().map(|event| event.kind));
        for (offset, read) in polled.reads.into_iter().filter(|(k, _)| *k == Key(key)).flat_map(|(_, r)| r) {
            offsets.push(offset.0);
            if read == Value(value) {
                return Ok((offsets, rebalance));
            }
        }
        assert!(began.elapsed() < DEADLINE, "no value {value} of key {key}: {offsets:?}, {rebalance:?}");
    }
}

fn committed(log: &mut KafkaLog, keys: &[i64]) -> Result<Vec<Option<i64>>, LogError> {
    let keys: Vec<Key> = keys.iter().copied().map(Key).collect();
    let told = block_on(log.committed(&keys))?;
    assert!(told.iter().map(|(key, _)| key).eq(&keys), "{told:?}");
    Ok(told.into_iter().map(|(_, offset)| offset.map(|offset| offset.0)).collect())
}

#[test]
fn a_member_commits_what_the_group_gave_it_and_nothing_else() -> Result<(), LogError> {
    let mock = MockCluster::new(1).expect("a cluster in memory");
    for topic in ["t0", "t1"] {
        mock.create_topic(topic, 4, 1).expect("a topic that is not there yet");
    }
    let mut log = client(&mock, None);
    for (key, value) in [(0, 0), (0, 1), (5, 0)] {
        assert_eq!(block_on(log.send(Key(key), Value(value)))?, Some(Offset(value)));
    }

    // By itself it reads key 5: that is nothing to commit.
    block_on(log.assign(&[Key(5)], false))?;
    assert_eq!(poll_until(&mut log, 5, 0)?, (vec![0], vec![]));
    assert_eq!(block_on(log.commit_offsets())?, []);
    assert_eq!(committed(&mut log, &[0, 5])?, [None, None]);

    // In the group it commits what it got there, and key 5 is another's.
    block_on(log.subscribe(&[Key(0)]))?;
    assert_eq!(poll_until(&mut log, 0, 1)?, (vec![0, 1], vec!["assigned".to_owned()]));
    assert_eq!(block_on(log.commit_offsets())?, [(Key(0), Offset(2))]);
    assert_eq!(committed(&mut log, &[0, 1, 5])?, [Some(2), None, None]);

    // A commit that failed tells no offsets.
    block_on(log.send(Key(0), Value(2)))?;
    assert_eq!(poll_until(&mut log, 0, 2)?, (vec![2], vec![]));
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE;
    mock.request_errors(RDKafkaApiKey::OffsetCommit, &[refusal]);
    let refused = block_on(log.commit_offsets()).expect_err("the cluster refuses it");
    assert_eq!((refused.code.as_str(), refused.definite), ("OFFSET_METADATA_TOO_LARGE", false));
    assert_eq!(committed(&mut log, &[0])?, [Some(2)]);
    assert_eq!(block_on(log.commit_offsets())?, [(Key(0), Offset(3))]);
    assert_eq!(committed(&mut log, &[0])?, [Some(3)]);

    // Once it has left, nobody takes from it what it took by itself; key 0 goes on from where it was.
    block_on(log.assign(&[Key(0), Key(5)], false))?;
    block_on(log.send(Key(0), Value(3)))?;
    assert_eq!(poll_until(&mut log, 0, 3)?, (vec![3], vec!["revoked".to_owned()]));
    assert_eq!(block_on(log.commit_offsets())?, []);
    block_on(log.send(Key(5), Value(1)))?;
    let (offsets, rebalance) = poll_until(&mut log, 5, 1)?;
    assert_eq!((offsets.last(), rebalance), (Some(&1), vec![]));
    Ok(())
}

#[test]
fn a_group_waits_for_a_member_that_has_died() -> Result<(), LogError> {
    /// Of the session of six seconds: a member that leaves is not waited for, and three are over before the first answer.
    const WAIT: Duration = Duration::from_millis(4500);
    let mock = MockCluster::new(1).expect("a cluster in memory");
    mock.create_topic("t0", 4, 1).expect("a topic that is not there yet");
    let life = Life::default();
    let mut dying = mortal(&mock, None, life.clone());
    block_on(dying.send(Key(0), Value(0)))?;
    block_on(dying.subscribe(&[Key(0)]))?;
    poll_until(&mut dying, 0, 0)?;
    life.end();
    // It does nothing any more.
    assert_eq!(block_on(dying.poll())?.reads, []);
    let died = Instant::now();
    drop(dying);
    let mut next = client(&mock, None);
    block_on(next.subscribe(&[Key(0)]))?;
    assert_eq!(poll_until(&mut next, 0, 0)?, (vec![0], vec!["assigned".to_owned()]));
    assert!(died.elapsed() > WAIT, "{:?}", died.elapsed());
    Ok(())
}

/// librdkafka ends the process if a partition that was taken and given back is taken again while it is still stopping from
/// the first time, be it by an assignment, by a client that goes to its group, or by one that ends.
#[test]
fn keys_may_be_assigned_again_at_once() -> Result<(), LogError> {
    let mock = MockCluster::new(1).expect("a cluster in memory");
    mock.create_topic("t0", 4, 1).expect("a topic that is not there yet");
    let keys = [Key(0), Key(1)];
    block_on(client(&mock, None).send(Key(0), Value(0)))?;
    let again = |life: Life| {
        let mut log = mortal(&mock, None, life);
        block_on(log.assign(&keys, true))?;
        assert_eq!(poll_until(&mut log, 0, 0)?, (vec![0], Vec::new()));
        for _ in 0..3 {
            block_on(log.assign(&keys, false))?;
        }
        Ok::<_, LogError>(log)
    };
    let mut log = again(Life::default())?;
    block_on(log.send(Key(0), Value(1)))?;
    assert_eq!(poll_until(&mut log, 0, 1)?, (vec![1], Vec::new()));
    block_on(log.assign(&keys, true))?;
    poll_until(&mut log, 0, 1)?;
    block_on(log.assign(&keys, true))?;
    block_on(log.subscribe(&[Key(0)]))?;
    assert_eq!(poll_until(&mut log, 0, 1)?, (vec![0, 1], vec!["assigned".to_owned()]));

    drop(again(Life::default())?);
    let life = Life::default();
    let dying = again(life.clone())?;
    life.end();
    drop(dying);
    Ok(())
}
