//! Offsets that are committed in transactions.
//!
//! ```text
//! txn 1 t0=5       producer 1 commits an offset in its transaction, as no member; `as m gen=3`: as that member
//! plain t0=5       a consumer without a group commits
//! log, refuse      the first append on its way is committed, or refused
//! commit 1, abort 1    a marker of producer 1 is committed
//! fail-over        another coordinator loads what is committed
//! +1000            so many milliseconds pass
//! ```
//! Then what is committed is looked at: `t0=5`, with `?` where a fetch that asks for stable offsets has to come again.

use super::*;
use riprap_protocol::messages::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use riprap_protocol::records::TxnResult;

/// What lies in the partition's log.
enum Logged {
    Records { records: Vec<Record>, producer: Option<i64> },
    Marker { producer: i64, result: TxnResult },
}

struct Stage {
    coordinator: Coordinator,
    now_ns: u64,
    log: Vec<Logged>,
    on_their_way: Vec<(AppendToken, Vec<Record>, Option<Producer>)>,
    answers: Vec<ErrorCode>,
}

fn config() -> GroupConfig {
    GroupConfig { retention_ms: 100_000, retention_check_ms: 1000, ..GroupConfig::default() }
}

fn offset_of(text: &str) -> (i32, i64) {
    let (partition, offset) = text.split_once('=').expect("tPARTITION=OFFSET");
    (partition[1..].parse().expect("a number"), offset.parse().expect("a number"))
}

impl Stage {
    fn new() -> Stage {
        let mut coordinator = Coordinator::new(config());
        coordinator.finish_loading(0);
        Stage { coordinator, now_ns: 0, log: Vec::new(), on_their_way: Vec::new(), answers: Vec::new() }
    }

    fn act(&mut self, act: &str) {
        let words: Vec<&str> = act.split(' ').collect();
        let now_ns = self.now_ns;
        match words[0] {
            "txn" => {
                let (index, committed_offset) = offset_of(words[2]);
                let partition =
                    TxnOffsetCommitRequestPartition { index, committed_offset, ..Default::default() };
                let gen_of = |word: &&str| word.strip_prefix("gen=").map(|it| it.parse().expect("a number"));
                let request = TxnOffsetCommitRequest {
                    transactional_id: "id".to_owned(),
                    group_id: GROUP.to_owned(),
                    producer_id: words[1].parse().expect("a number"),
                    producer_epoch: 0,
                    generation_id: words.iter().find_map(gen_of).unwrap_or(-1),
                    member_id: words.get(4).map_or(String::new(), |id| (*id).to_owned()),
                    topics: vec![TxnOffsetCommitRequestTopic {
                        name: "t".to_owned(),
                        partitions: vec![partition],
                    }],
                    ..Default::default()
                };
                self.coordinator.txn_offset_commit(now_ns, ReplyTo(0), request);
            }
            "plain" => {
                let (index, committed_offset) = offset_of(words[1]);
                let partition =
                    OffsetCommitRequestPartition { index, committed_offset, ..Default::default() };
                let request = OffsetCommitRequest {
                    group_id: GROUP.to_owned(),
                    generation_id_or_member_epoch: -1,
                    topics: vec![OffsetCommitRequestTopic {
                        name: "t".to_owned(),
                        partitions: vec![partition],
                    }],
                    ..Default::default()
                };
                self.coordinator.offset_commit(now_ns, ReplyTo(0), 9, request);
            }
            "log" => {
                let (token, records, producer) = self.on_their_way.remove(0);
                self.log.push(Logged::Records { records, producer: producer.map(|it| it.id) });
                self.coordinator.appended(now_ns, token, Ok(()));
            }
            "refuse" => {
                let (token, ..) = self.on_their_way.remove(0);
                self.coordinator.appended(now_ns, token, Err(ErrorCode::NOT_ENOUGH_REPLICAS));
            }
            "commit" | "abort" => {
                let result = if words[0] == "commit" { TxnResult::Commit } else { TxnResult::Abort };
                let producer = words[1].parse().expect("a number");
                self.log.push(Logged::Marker { producer, result });
                self.coordinator.end_transaction(now_ns, producer, result);
            }
            "delete" => self.coordinator.delete_group(now_ns, ReplyTo(0), GROUP),
            "fail-over" => {
                self.on_their_way.clear();
                self.coordinator = Coordinator::new(config());
                for logged in &self.log {
                    match logged {
                        Logged::Records { records, producer } => records.iter().for_each(|record| {
                            let replayed =
                                self.coordinator.replay(&record.key, record.value.as_deref(), *producer);
                            replayed.expect("its own records");
                        }),
                        Logged::Marker { producer, result } => {
                            self.coordinator.end_transaction(now_ns, *producer, *result);
                        }
                    }
                }
                assert_eq!(self.coordinator.wake_at_ns(), None, "nothing is due while it loads");
                self.coordinator.finish_loading(now_ns);
            }
            ms => {
                let ms: u64 = ms.strip_prefix('+').expect("an act").parse().expect("milliseconds");
                self.now_ns += ms * 1_000_000;
                self.coordinator.tick(self.now_ns);
            }
        }
        for output in self.coordinator.take_outputs() {
            match output {
                Output::Append { token, records, producer } => {
                    self.on_their_way.push((token, records, producer));
                }
                Output::Reply { response, .. } => self.answers.push(match response {
                    Response::TxnOffsetCommit(it) => it.topics[0].partitions[0].error_code,
                    Response::OffsetCommit(it) => it.topics[0].partitions[0].error_code,
                    Response::DeleteGroup(code) => code,
                    Response::JoinGroup(_)
                    | Response::SyncGroup(_)
                    | Response::OffsetDelete(_)
                    | Response::ConsumerGroupHeartbeat(_) => {
                        unreachable!("nobody joins")
                    }
                }),
            }
        }
    }

    fn fetched(&self) -> String {
        let topics = vec![OffsetFetchRequestTopic { name: "t".to_owned(), partitions: vec![0, 1] }];
        let request = OffsetFetchRequestGroup {
            group_id: GROUP.to_owned(),
            topics: Some(topics),
            ..Default::default()
        };
        let of = |require_stable| {
            let response = self.coordinator.offset_fetch(&request, require_stable);
            response.topics.into_iter().next().expect("the topic that was asked for").partitions
        };
        let mut shown = Vec::new();
        for (known, stable) in of(false).into_iter().zip(of(true)) {
            let is_unstable = stable.error_code == ErrorCode::UNSTABLE_OFFSET_COMMIT;
            if known.committed_offset >= 0 || is_unstable {
                let mark = if is_unstable { "?" } else { "" };
                shown.push(format!("t{}={}{mark}", known.index, known.committed_offset));
            }
        }
        shown.join(" ")
    }
}

fn run(acts: &str) -> Stage {
    let mut stage = Stage::new();
    acts.split("; ").for_each(|act| stage.act(act));
    stage
}

/// Looks at what is committed in the end, also after a fail-over.
fn check(acts: &str, expect: &str) {
    let mut stage = run(acts);
    assert_eq!(stage.fetched(), expect, "{acts}");
    if stage.on_their_way.is_empty() {
        stage.act("fail-over");
        assert_eq!(stage.fetched(), expect, "{acts}; fail-over");
    }
}

#[test]
fn they_count_when_the_transaction_is_committed() {
    check("txn 1 t0=5", "t0=-1?");
    check("txn 1 t0=5; log", "t0=-1?");
    check("txn 1 t0=5; log; commit 1", "t0=5");
    check("txn 1 t0=5; log; abort 1", "");
    check("txn 1 t0=5; refuse", "");
    check("txn 1 t0=5; log; fail-over; commit 1", "t0=5");
    check("plain t0=3; log; txn 1 t0=5; log", "t0=3?");
    check("plain t0=3; log; txn 1 t0=5; log; abort 1", "t0=3");
    check("txn 1 t0=5; log; txn 1 t0=6; log; txn 1 t1=7; log; commit 1", "t0=6 t1=7");
    // Each transaction is its own.
    check("txn 1 t0=5; log; txn 2 t1=6; log; commit 2", "t0=-1? t1=6");
    check("txn 1 t0=5; log; commit 1; txn 1 t0=6; log; abort 1", "t0=5");
    check("txn 1 t0=5; log; txn 2 t0=6; log; commit 2; commit 1", "t0=6");
    check("txn 1 t0=5; log; txn 2 t0=6; log; abort 2; commit 1", "t0=5");
    // A marker that comes again, or of a transaction without offsets, changes nothing.
    check("txn 1 t0=5; log; commit 1; abort 1; commit 2", "t0=5");
}

#[test]
fn a_plain_commit_that_came_after_is_newer() {
    check("txn 1 t0=5; log; plain t0=3; log", "t0=3?");
    check("txn 1 t0=5; log; plain t0=3; log; commit 1", "t0=3");
    check("txn 1 t0=5; log; plain t0=3; log; fail-over; commit 1", "t0=3");
    check("plain t0=3; log; fail-over; txn 1 t0=2; log; commit 1", "t0=2");
}

#[test]
fn a_group_is_kept_while_a_transaction_has_offsets_in_it() {
    // The retention passes; the offset of the transaction is all that the group has.
    check("txn 1 t0=5; log; +200000; commit 1", "t0=5");
    check("plain t0=3; log; txn 1 t0=5; log; +200000; commit 1", "t0=5");
    assert_eq!(run("plain t0=3; log; +200000").on_their_way.len(), 1, "without one it is deleted");
    assert_eq!(run("txn 1 t0=5; log; abort 1").coordinator.group_count(), 0);
    let deleted = run("plain t0=3; log; txn 1 t0=5; log; delete");
    assert_eq!(deleted.answers.last(), Some(&ErrorCode::NON_EMPTY_GROUP));
    let deleted = run("txn 1 t0=5; delete");
    assert_eq!(deleted.answers.last(), Some(&ErrorCode::NON_EMPTY_GROUP));
    // After its end it is kept for the whole retention.
    assert_eq!(run("txn 1 t0=5; log; +90000; commit 1; +90000").on_their_way.len(), 0);
    assert_eq!(run("txn 1 t0=5; log; +90000; commit 1; +100000").on_their_way.len(), 1);
}

#[test]
fn who_says_that_it_is_a_member_is_held_to_it() {
    let answer = |acts: &str| *run(acts).answers.last().expect("an answer");
    assert_eq!(answer("txn 1 t0=5; log"), ErrorCode::NONE);
    assert_eq!(answer("txn 1 t0=5 as m gen=3"), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(answer("plain t0=3; log; txn 1 t0=5 as m gen=3"), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(answer("txn 1 t0=5; refuse"), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(answer("txn 1 t0=5; +5000"), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    check("txn 1 t0=5; +5000; log; commit 1", "t0=5");
}
