//! How transactions end, and that a client goes on after each.

use crate::{Mock, client, poll_until};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Refusal};
use riprap_core::client::{Log, LogError, block_on};
use riprap_core::op::{Key, Offset, Value};
use riprap_systems::librdkafka::KafkaLog;

fn cluster() -> Mock {
    let mock = MockCluster::new(1).expect("a cluster in memory");
    mock.create_topic("t0", 4, 1).expect("a topic that is not there yet");
    mock
}

/// A transaction of two sends, or as far as it gets: where it stopped, and how it ended, in a word.
fn transact(log: &mut KafkaLog, value: i64, commit: bool) -> String {
    let word = |step: &str, done: Result<(), LogError>| match done {
        Ok(()) => format!("{step} ok"),
        Err(LogError { code, definite, .. }) => {
            format!("{step} {} {code}", if definite { "certainly" } else { "perhaps" })
        }
    };
    if let Err(error) = block_on(log.begin()) {
        return word("begin", Err(error));
    }
    for key in [0, 1] {
        if let Err(error) = block_on(log.send(Key(key), Value(value))) {
            let aborted = word("abort", block_on(log.abort()));
            return format!("{}, {aborted}", word("send", Err(error)));
        }
    }
    if commit { word("commit", block_on(log.commit())) } else { word("abort", block_on(log.abort())) }
}

#[test]
fn transactions_end_as_the_coordinator_says() {
    use Refusal as R;
    let fenced = R::RD_KAFKA_RESP_ERR_PRODUCER_FENCED;
    let strange = R::RD_KAFKA_RESP_ERR_UNKNOWN;
    let loading = R::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS;
    let unmapped = R::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING;
    let no_txn = R::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE;
    let denied = R::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    for (refusing, refusals, commit, expected) in [
        (Api::EndTxn, &[][..], true, "commit ok"),
        (Api::EndTxn, &[], false, "abort ok"),
        (Api::InitProducerId, &[loading], true, "commit ok"),
        (Api::InitProducerId, &[denied], true, "begin perhaps TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        // Before the coordinator is asked to commit: nobody ever will.
        (Api::AddPartitionsToTxn, &[loading], true, "commit ok"),
        (Api::AddPartitionsToTxn, &[fenced], true, "send perhaps FENCED, abort perhaps FENCED"),
        (Api::AddPartitionsToTxn, &[strange], true, "send perhaps PURGE_QUEUE, abort ok"),
        (
            Api::Produce,
            &[R::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE],
            true,
            "send perhaps MESSAGE_SIZE_TOO_LARGE, abort ok",
        ),
        // Afterwards: only an abort that the coordinator takes proves anything.
        (Api::EndTxn, &[loading], true, "commit ok"),
        (Api::EndTxn, &[strange], true, "commit certainly UNKNOWN"),
        (Api::EndTxn, &[strange, strange], true, "commit perhaps UNKNOWN"),
        (Api::EndTxn, &[unmapped], true, "commit perhaps INVALID_PRODUCER_ID_MAPPING"),
        (Api::EndTxn, &[fenced], true, "commit perhaps FENCED"),
        (Api::EndTxn, &[no_txn], true, "commit perhaps INVALID_TRANSACTIONAL_STATE"),
        (Api::EndTxn, &[fenced], false, "abort perhaps FENCED"),
    ] {
        let mock = cluster();
        let mut log = client(&mock, Some("riprap-0"));
        // The first is another one's, so that what is refused is a transaction like others.
        if refusing != Api::InitProducerId {
            assert_eq!(transact(&mut log, 0, true), "commit ok");
        }
        mock.request_errors(refusing, refusals);
        let refused = transact(&mut log, 1, commit);
        assert_eq!(refused, expected, "{refusing:?} {refusals:?}");
        mock.clear_request_errors(refusing);
        assert_eq!(transact(&mut log, 2, true), "commit ok", "after {refusing:?} {refusals:?}");
    }
}

/// The producer that left a record in doubt might give another the same sequence number.
#[test]
fn a_record_in_doubt_is_followed_by_another_epoch() {
    let denied = Refusal::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    let too_large = Refusal::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    for (refusals, commit, ended, next) in [
        (&[][..], true, "commit ok", "commit ok"),
        (&[], false, "abort ok", "commit ok"),
        (
            &[too_large],
            true,
            "send perhaps MESSAGE_SIZE_TOO_LARGE, abort ok",
            "begin perhaps TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ),
    ] {
        let mock = cluster();
        let mut log = client(&mock, Some("riprap-0"));
        assert_eq!(transact(&mut log, 0, true), "commit ok");
        mock.request_errors(Api::Produce, refusals);
        assert_eq!(transact(&mut log, 1, commit), ended);
        // Who asks for an epoch meets this.
        mock.request_errors(Api::InitProducerId, &[denied]);
        assert_eq!(transact(&mut log, 2, true), next, "after {ended}");
    }
}

#[test]
fn offsets_are_committed_with_the_transaction() -> Result<(), LogError> {
    let mock = cluster();
    let mut log = client(&mock, Some("riprap-0"));
    for value in [0, 1] {
        assert_eq!(transact(&mut log, value, true), "commit ok");
    }
    // By itself it reads key 1: that is nothing to commit.
    block_on(log.assign(&[Key(1)], false))?;
    block_on(log.begin())?;
    assert_eq!(poll_until(&mut log, 1, 1)?.0, [0, 1]);
    assert_eq!(block_on(log.commit_offsets())?, []);
    block_on(log.commit())?;

    block_on(log.subscribe(&[Key(0)]))?;
    block_on(log.begin())?;
    poll_until(&mut log, 0, 1)?;
    let mut offsets = block_on(log.commit_offsets())?;
    offsets.retain(|(key, _)| *key == Key(0));
    assert_eq!(offsets, [(Key(0), Offset(2))]);
    block_on(log.commit())?;

    // A member that is none any more.
    let refusal = Refusal::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION;
    mock.request_errors(Api::TxnOffsetCommit, &[refusal]);
    block_on(log.begin())?;
    block_on(log.send(Key(0), Value(2)))?;
    poll_until(&mut log, 0, 2)?;
    let refused = block_on(log.commit_offsets()).expect_err("the cluster refuses it");
    assert_eq!((refused.code.as_str(), refused.definite), ("ILLEGAL_GENERATION", false));
    block_on(log.abort())?;
    assert_eq!(transact(&mut log, 3, true), "commit ok");
    Ok(())
}
