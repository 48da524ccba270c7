//! A table of requests in each state; `laws` is about what holds whatever happens.
//!
//! ```text
//! init, init@3.0   InitProducerId; of who says it is producer 3, epoch 0
//! add a,b@3.0      AddPartitionsToTxn        commit@3.0, abort@3.0    EndTxn
//! commit2, abort2   EndTxn that raises the epoch
//! log, refuse      the record on its way is committed, or refused     marked, unmarked    what became of the order
//! wait 1000        so many milliseconds pass                          fail-over           another coordinator loads
//! ```
//! What comes of it, in order: `=3.0` an incarnation, `ok`, an error, `!commit a,b@3.0` an order of markers. Appends are
//! not shown.

mod laws;

use super::*;

const ID: &str = "id";

struct Play {
    coordinator: Coordinator,
    config: TxnConfig,
    now_ns: u64,
    epoch: i32,
    next_producer_id: i64,
    log: Vec<Record>,
    on_their_way: Vec<(AppendToken, Record)>,
    ordered: Vec<MarkerOrder>,
    /// The last that was ended told its producer who it is.
    shows_ends: bool,
}

fn partitions(names: &str) -> BTreeSet<TopicPartition> {
    names.split(',').map(|topic| TopicPartition { topic: topic.to_owned(), index: 0 }).collect()
}

fn producer(text: &str) -> Producer {
    let (id, epoch) = text.split_once('.').expect("ID.EPOCH");
    Producer { id: id.parse().expect("a number"), epoch: epoch.parse().expect("a number") }
}

fn show(producer: Producer) -> String {
    format!("{}.{}", producer.id, producer.epoch)
}

impl Play {
    fn new(defect: Option<DefectKind>) -> Play {
        let config = TxnConfig {
            max_ids: 2,
            max_partitions: 3,
            id_expiration_ms: 100_000,
            defect,
            ..TxnConfig::default()
        };
        let mut coordinator = Coordinator::new(config.clone(), 0);
        coordinator.finish_loading(0);
        Play {
            coordinator,
            config,
            now_ns: 0,
            epoch: 0,
            next_producer_id: 3,
            log: Vec::new(),
            on_their_way: Vec::new(),
            ordered: Vec::new(),
            shows_ends: false,
        }
    }

    fn init_as(&mut self, id: &str, timeout_ms: i32, asks: Option<Producer>) {
        let next = &mut self.next_producer_id;
        let mut fresh = || {
            *next += 1;
            Some(*next - 1)
        };
        self.coordinator.init_producer_id(self.now_ns, ReplyTo(0), id, timeout_ms, asks, &mut fresh);
    }

    fn act(&mut self, act: &str) {
        let (word, rest) = act.split_once(' ').unwrap_or((act, ""));
        let (word, who) =
            word.split_once('@').map_or((word, None), |(word, who)| (word, Some(producer(who))));
        let now_ns = self.now_ns;
        match word {
            "init" => self.init_as(ID, 1000, who),
            "add" => {
                let (names, who) = rest.split_once('@').expect("PARTITIONS@PRODUCER");
                let (who, names) = (producer(who), partitions(names));
                self.coordinator.add_partitions(now_ns, ReplyTo(0), ID, who, &names);
            }
            "commit" | "abort" | "commit2" | "abort2" => {
                let result = if word.starts_with("commit") { TxnResult::Commit } else { TxnResult::Abort };
                let epochs = if word.ends_with('2') { Epochs::Raised } else { Epochs::Kept };
                let next = &mut self.next_producer_id;
                let mut fresh = || {
                    *next += 1;
                    Some(*next - 1)
                };
                let who = who.expect("a producer ends");
                self.coordinator.end(now_ns, ReplyTo(0), ID, who, result, epochs, &mut fresh);
                self.shows_ends = epochs == Epochs::Raised;
            }
            "log" => {
                let (token, record) = self.on_their_way.remove(0);
                self.log.push(record);
                self.coordinator.appended(now_ns, token, Ok(()));
            }
            "refuse" => {
                let (token, _) = self.on_their_way.remove(0);
                self.coordinator.appended(now_ns, token, Err(ErrorCode::NOT_ENOUGH_REPLICAS));
            }
            "marked" | "unmarked" => {
                let order = self.ordered.remove(0);
                let done = order.partitions.iter().filter(|p| word == "marked" && !rest.contains(&p.topic));
                let done = done.cloned().collect();
                self.coordinator.markers_written(now_ns, &order, &done);
            }
            "wait" => {
                self.now_ns += rest.parse::<u64>().expect("milliseconds") * NS_PER_MS;
                self.coordinator.tick(self.now_ns);
            }
            "fail-over" => {
                self.epoch += 1;
                let next = Coordinator::new(self.config.clone(), self.epoch);
                let old = std::mem::replace(&mut self.coordinator, next);
                self.coordinator.outputs = old.resign();
                self.on_their_way.clear();
                self.ordered.clear();
                for record in &self.log {
                    self.coordinator
                        .replay(&record.key, record.value.as_deref())
                        .expect("it was written here");
                }
                self.coordinator.finish_loading(self.now_ns);
            }
            _ => panic!("no act `{word}`"),
        }
    }

    fn outputs(&mut self) -> Vec<String> {
        let mut shown = Vec::new();
        for output in self.coordinator.take_outputs() {
            match output {
                Output::Append { token, record } => self.on_their_way.push((token, record)),
                Output::Reply { response: Response::Init(Ok(producer)), .. } => {
                    shown.push(format!("={}", show(producer)));
                }
                Output::Reply { response: Response::End(Ok(producer)), .. } if self.shows_ends => {
                    shown.push(format!("={}", show(producer)));
                }
                Output::Reply { response, .. } => {
                    let code = match response {
                        Response::Init(Err(code)) | Response::Add(code) | Response::End(Err(code)) => code,
                        Response::Init(Ok(_)) | Response::End(Ok(_)) => ErrorCode::NONE,
                    };
                    shown.push(if code.is_none() { "ok".to_owned() } else { code.to_string() });
                }
                Output::WriteMarkers(order) => {
                    assert_eq!(order.coordinator_epoch, self.epoch);
                    let result = if order.result == TxnResult::Commit { "commit" } else { "abort" };
                    let names: Vec<&str> = order.partitions.iter().map(|p| p.topic.as_str()).collect();
                    shown.push(format!("!{result} {}@{}", names.join(","), show(order.producer)));
                    self.ordered.push(order);
                }
            }
        }
        shown
    }
}

/// Does one after the other, separated by `;`, and looks at what comes of the last.
fn check(acts: &str, expect: &str) {
    check_with(None, acts, expect);
}

fn check_with(defect: Option<DefectKind>, acts: &str, expect: &str) {
    let mut play = Play::new(defect);
    let mut seen = Vec::new();
    for act in acts.split("; ") {
        play.act(act);
        seen = play.outputs();
    }
    assert_eq!(seen.join(" "), expect, "{acts}");
}

/// Ways into each state, each with producer 3; the epoch is 0 unless a case says so.
const EMPTY: &str = "init; log";
const ONGOING: &str = "init; log; add a,b@3.0; log";
const PREPARE_COMMIT: &str = "init; log; add a,b@3.0; log; commit@3.0; log";
const PREPARE_ABORT: &str = "init; log; add a,b@3.0; log; abort@3.0; log";
const COMPLETE_COMMIT: &str = "init; log; add a,b@3.0; log; commit@3.0; log; marked; log";
const COMPLETE_ABORT: &str = "init; log; add a,b@3.0; log; abort@3.0; log; marked; log";
const FENCED: &str = "init; log; add a,b@3.0; log; init; log; marked; log";

fn code(code: ErrorCode) -> String {
    code.to_string()
}

#[test]
fn a_transaction_step_by_step() {
    check("init", "");
    check(EMPTY, "=3.0");
    check("init; log; add a,b@3.0", "");
    check(ONGOING, "ok");
    check("init; log; add a,b@3.0; log; commit@3.0", "");
    check(PREPARE_COMMIT, "ok !commit a,b@3.0");
    check(PREPARE_ABORT, "ok !abort a,b@3.0");
    check(COMPLETE_COMMIT, "");
    check(&format!("{COMPLETE_COMMIT}; add c@3.0; log; abort@3.0; log"), "ok !abort c@3.0");
    check(&format!("{COMPLETE_ABORT}; add c@3.0; log; commit@3.0; log"), "ok !commit c@3.0");
}

#[test]
fn each_request_in_each_state() {
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    let invalid = code(ErrorCode::INVALID_TXN_STATE);
    let (add, commit, abort) = ("add a@3.0", "commit@3.0", "abort@3.0");
    // A request that is answered at once, and the answer; none: it has to be written down before.
    let table: [(&str, &str, Option<&str>); 24] = [
        (EMPTY, "init", None),
        (EMPTY, add, None),
        (EMPTY, commit, Some(&invalid)),
        (EMPTY, abort, Some(&invalid)),
        (ONGOING, "init", None),
        (ONGOING, add, Some("ok")),
        (ONGOING, "add c@3.0", None),
        (ONGOING, commit, None),
        (ONGOING, abort, None),
        (PREPARE_COMMIT, "init", Some(&concurrent)),
        (PREPARE_COMMIT, add, Some(&concurrent)),
        (PREPARE_COMMIT, commit, Some(&concurrent)),
        (PREPARE_COMMIT, abort, Some(&invalid)),
        (PREPARE_ABORT, "init", Some(&concurrent)),
        (PREPARE_ABORT, add, Some(&concurrent)),
        (PREPARE_ABORT, commit, Some(&invalid)),
        (PREPARE_ABORT, abort, Some(&concurrent)),
        (COMPLETE_COMMIT, "init", None),
        (COMPLETE_COMMIT, add, None),
        (COMPLETE_COMMIT, commit, Some("ok")),
        (COMPLETE_COMMIT, abort, Some(&invalid)),
        (COMPLETE_ABORT, add, None),
        (COMPLETE_ABORT, commit, Some(&invalid)),
        (COMPLETE_ABORT, abort, Some("ok")),
    ];
    for (state, request, expect) in table {
        check(&format!("{state}; {request}"), expect.unwrap_or(""));
        let mut play = Play::new(None);
        for act in state.split("; ") {
            play.act(act);
            play.outputs();
        }
        play.act(request);
        play.outputs();
        assert_eq!(play.on_their_way.len(), usize::from(expect.is_none()), "{state}; {request}");
        // Who asks meanwhile has to come again; what is answered at once, a later coordinator answers as this one.
        match expect {
            None => check(&format!("{state}; {request}; init"), &concurrent),
            Some(expect) => check(&format!("{state}; fail-over; {request}"), expect),
        }
    }
    check(&format!("{PREPARE_COMMIT}; fail-over"), "!commit a,b@3.0");
    check(&format!("{PREPARE_ABORT}; fail-over"), "!abort a,b@3.0");
}

#[test]
fn who_it_is_comes_before_what_it_may_do() {
    let fenced = code(ErrorCode::PRODUCER_FENCED);
    let mapping = code(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    for state in [EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT] {
        for (who, expect) in [("3.1", &fenced), ("3.-1", &fenced), ("9.0", &mapping)] {
            check(&format!("{state}; add a@{who}"), expect);
            check(&format!("{state}; commit@{who}"), expect);
        }
        check(&format!("{state}; init@3.1"), &fenced);
        check(&format!("{state}; init@9.0"), &fenced);
    }
    // Even while something is on its way.
    check("init; log; add a@3.0; commit@3.1", &fenced);
    check("add a@3.0", &mapping);
    check("commit@3.0", &mapping);
    check("init@3.0", &fenced);
}

#[test]
fn a_new_producer_fences_the_old_one_and_aborts_what_it_left_open() {
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    let fenced = code(ErrorCode::PRODUCER_FENCED);
    check(&format!("{EMPTY}; init; log"), "=3.1");
    check(&format!("{COMPLETE_COMMIT}; init; log"), "=3.1");
    // The abort has an epoch of its own, so that nothing that the old producer sent can come behind it.
    check(&format!("{ONGOING}; init; log"), &format!("{concurrent} !abort a,b@3.1"));
    check(&format!("{FENCED}; init; log"), "=3.2");
    for request in ["add a@3.0", "commit@3.0", "abort@3.0", "init@3.0"] {
        check(&format!("{FENCED}; {request}"), &fenced);
        check(&format!("{FENCED}; fail-over; {request}"), &fenced);
    }
}

#[test]
fn a_producer_that_says_who_it_was_gets_one_epoch_however_often_it_asks() {
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    let fenced = code(ErrorCode::PRODUCER_FENCED);
    let bumped = format!("{EMPTY}; init@3.0; log");
    check(&bumped, "=3.1");
    check(&format!("{bumped}; init@3.0"), "=3.1");
    check(&format!("{bumped}; fail-over; init@3.0"), "=3.1");
    check(&format!("{bumped}; init@3.1; log"), "=3.2");
    check(&format!("{bumped}; init@3.1; log; init@3.0"), &fenced);
    // Once the new incarnation has begun a transaction, the request is an old one.
    check(&format!("{bumped}; add a@3.1; log; init@3.0"), &fenced);
    // It aborts its own transaction, and goes on.
    check(&format!("{ONGOING}; init@3.0; log"), &format!("{concurrent} !abort a,b@3.1"));
    check(&format!("{ONGOING}; init@3.0; log; marked; log; init@3.0"), "=3.1");
}

#[test]
fn an_end_that_raises_the_epoch_leaves_nothing_to_take_for_the_next_transaction() {
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    let fenced = code(ErrorCode::PRODUCER_FENCED);
    let invalid = code(ErrorCode::INVALID_TXN_STATE);
    let prepared = format!("{ONGOING}; commit2@3.0; log");
    let complete = format!("{prepared}; marked; log");
    // The producer is told at once who it is; the markers have the new epoch too.
    check(&prepared, "=3.1 !commit a,b@3.1");
    check(&format!("{ONGOING}; abort2@3.0; log"), "=3.1 !abort a,b@3.1");
    let table = [
        // Who did not hear asks again, under the epoch that it had.
        (&prepared, "commit2@3.0", concurrent.as_str()),
        (&prepared, "abort2@3.0", &invalid),
        (&complete, "commit2@3.0", "=3.1"),
        (&complete, "abort2@3.0", &invalid),
        (&complete, "init@3.0", "=3.1"),
        (&complete, "add a@3.0", &fenced),
        (&complete, "commit@3.0", &fenced),
        // The next transaction waits for the end of this one.
        (&prepared, "add a@3.1", &concurrent),
        (&prepared, "abort2@3.1", &concurrent),
        // Nothing to commit; what is aborted though nothing of it is known may still be on its way.
        (&complete, "commit2@3.1", &invalid),
    ];
    for (state, request, expect) in table {
        check(&format!("{state}; {request}"), expect);
        check(&format!("{state}; fail-over; {request}"), expect);
    }
    check(&format!("{complete}; abort2@3.1; log"), "=3.2");
    check(&format!("{EMPTY}; abort2@3.0; log"), "=3.1");
    check(&format!("{EMPTY}; abort2@3.0; log; log; abort2@3.0"), "=3.1");
    // An end that was long on its way meets the next transaction (KAFKA-17754).
    for late in ["commit2@3.0", "abort2@3.0", "commit@3.0", "init@3.0"] {
        check(&format!("{complete}; add c@3.1; log; {late}"), &fenced);
    }
    check(&format!("{ONGOING}; commit2@3.0; commit2@3.0"), &concurrent);
}

#[test]
fn an_id_that_is_not_used_is_forgotten() {
    let mapping = code(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    for state in [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT] {
        check(&format!("{state}; wait 99999; wait 1; log; add a@3.0"), &mapping);
        check(&format!("{state}; wait 100000; log; init; log"), "=4.0");
        check(&format!("{state}; wait 100000; log; fail-over; init; log"), "=4.0");
        // Until that is written down it is there, and who comes has to come again.
        check(&format!("{state}; wait 99999; add a@3.0; log"), "ok");
        check(&format!("{state}; wait 100000; add a@3.0"), &concurrent);
        check(&format!("{state}; wait 100000; fail-over; add a@3.0; log"), "ok");
        check(&format!("{state}; wait 100000; refuse; add a@3.0; log"), "ok");
        check(&format!("{state}; wait 100000; refuse; wait 50; log; add a@3.0"), &mapping);
    }
    for state in [PREPARE_COMMIT, PREPARE_ABORT] {
        check(&format!("{state}; wait 100000; marked; log; add a@3.0; log"), "ok");
    }
}

#[test]
fn an_epoch_that_is_used_up_is_followed_by_another_id() {
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    let with_epoch = |epoch, previous: Option<Producer>, state| {
        let mut play = Play::new(None);
        let producer = Producer { id: 3, epoch };
        let partitions = partitions("a");
        let transaction =
            Transaction { producer, previous, next_id: None, timeout_ms: 1000, state, partitions };
        let partitions =
            if state == State::Ongoing { transaction.partitions.clone() } else { BTreeSet::new() };
        play.log = vec![record::to_record(ID, Some(&Transaction { partitions, ..transaction }))];
        play.next_producer_id = 4;
        play.act("fail-over");
        play
    };
    let run = |mut play: Play, acts: &str| {
        let mut seen = Vec::new();
        for act in acts.split("; ") {
            play.act(act);
            seen = play.outputs();
        }
        seen.join(" ")
    };
    let last = transaction::LAST_EPOCH;
    let check = |epoch, state, acts, expect: &str| {
        assert_eq!(run(with_epoch(epoch, None, state), acts), expect, "{epoch} {state:?} {acts}");
    };
    check(last - 1, State::Empty, "init; log", "=3.32766");
    check(last, State::Empty, "init; log", "=4.0");
    check(last, State::CompleteAbort, "init@3.32766; log; init@3.32766", "=4.0");
    check(last, State::CompleteAbort, "init@3.32766; log; fail-over; init@3.32766", "=4.0");
    // What is open is aborted under the one epoch that is left, once.
    check(last, State::Ongoing, "wait 1000; log", "!abort a@3.32767");
    check(last, State::Ongoing, "wait 1000; log; abort@3.32766", &code(ErrorCode::PRODUCER_FENCED));
    check(last, State::Ongoing, "wait 1000; log; marked; log; init; log", "=4.0");
    check(last, State::Ongoing, "init@3.32766; log; marked; log; init@3.32766; log", "=4.0");
    // Where each end raises the epoch, the producer goes on under another id, and the markers have the last epoch.
    check(last, State::Ongoing, "commit2@3.32766; log", "=4.0 !commit a@3.32767");
    check(last, State::Ongoing, "commit2@3.32766; log; fail-over; add a@4.0", &concurrent);
    check(last, State::Ongoing, "commit2@3.32766; log; marked; log; fail-over; commit2@3.32766", "=4.0");
    check(last, State::Ongoing, "commit2@3.32766; log; marked; log; add a@4.0; log", "ok");
    check(last, State::Ongoing, "wait 1000; refuse; wait 50; log", "!abort a@3.32767");
}

#[test]
fn a_transaction_that_is_open_for_too_long_is_aborted_under_another_epoch() {
    let fenced = code(ErrorCode::PRODUCER_FENCED);
    check(&format!("{ONGOING}; wait 999"), "");
    check(&format!("{ONGOING}; wait 999; wait 1; log"), "!abort a,b@3.1");
    check(&format!("{ONGOING}; wait 999; add c@3.0; log; wait 1; log"), "!abort a,b,c@3.1");
    check(&format!("{ONGOING}; wait 1000; commit@3.0"), &code(ErrorCode::CONCURRENT_TRANSACTIONS));
    check(&format!("{ONGOING}; wait 1000; log; commit@3.0"), &fenced);
    check(&format!("{ONGOING}; wait 1000; log; marked; log; init@3.0"), &fenced);
    check(&format!("{ONGOING}; wait 1000; refuse; commit@3.0; log"), "ok !commit a,b@3.0");
    // The next coordinator counts anew.
    check(&format!("{ONGOING}; wait 999; fail-over; wait 999"), "");
    check(&format!("{ONGOING}; wait 999; fail-over; wait 1000; log"), "!abort a,b@3.1");
    // So does the next transaction.
    check(&format!("{COMPLETE_COMMIT}; wait 5000; add a@3.0; log; wait 999"), "");
}

#[test]
fn markers_are_ordered_until_all_are_written() {
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    check(&format!("{PREPARE_COMMIT}; unmarked; wait 49"), "");
    check(&format!("{PREPARE_COMMIT}; unmarked; wait 50"), "!commit a,b@3.0");
    check(&format!("{PREPARE_COMMIT}; marked b; wait 50"), "!commit b@3.0");
    check(&format!("{PREPARE_COMMIT}; marked b; wait 50; marked; log; add a@3.0; log"), "ok");
    check(&format!("{PREPARE_COMMIT}; marked; add a@3.0"), &concurrent);
    // The completion is written down again if it was refused; the order is not repeated.
    check(&format!("{PREPARE_COMMIT}; marked; refuse; commit@3.0"), &concurrent);
    check(&format!("{PREPARE_COMMIT}; marked; refuse; wait 50; log; commit@3.0"), "ok");
    // An answer to the coordinator before tells this one nothing.
    let mut play = Play::new(None);
    for act in PREPARE_COMMIT.split("; ") {
        play.act(act);
        play.outputs();
    }
    let old = play.ordered[0].clone();
    play.act("fail-over");
    assert_eq!(play.outputs(), ["!commit a,b@3.0"]);
    play.coordinator.markers_written(0, &old, &partitions("a,b"));
    assert_eq!((play.outputs().len(), play.on_their_way.len()), (0, 0));
}

#[test]
fn what_the_log_refuses_or_delays_has_not_happened() {
    let again = code(ErrorCode::COORDINATOR_NOT_AVAILABLE);
    let concurrent = code(ErrorCode::CONCURRENT_TRANSACTIONS);
    check("init; refuse", &again);
    check("init; refuse; add a@3.0", &code(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    check("init; refuse; init; log", "=4.0");
    check("init; log; add a@3.0; refuse; commit@3.0", &code(ErrorCode::INVALID_TXN_STATE));
    check(&format!("{ONGOING}; commit@3.0; refuse; abort@3.0; log"), "ok !abort a,b@3.0");
    // It still counts when it comes; nobody is answered twice.
    check("init; wait 5000", &again);
    check("init; wait 5000; init", &concurrent);
    check("init; wait 5000; log", "");
    check("init; wait 5000; log; init; log", "=3.1");
    check(&format!("{ONGOING}; commit@3.0; wait 5000; log"), "!commit a,b@3.0");
    // A coordinator that resigns sends everybody on.
    check("init; fail-over", &code(ErrorCode::NOT_COORDINATOR));
    check(&format!("{ONGOING}; commit@3.0; fail-over; commit@3.0; log"), "ok !commit a,b@3.0");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let init = |id: &str, timeout_ms| {
        let mut play = Play::new(None);
        play.init_as(id, timeout_ms, None);
        play.outputs().join(" ")
    };
    assert_eq!(init("", 1000), code(ErrorCode::INVALID_REQUEST));
    let max_ms = TxnConfig::default().max_timeout_ms;
    for (timeout_ms, is_right) in [(-1, false), (0, false), (1, true), (max_ms, true), (max_ms + 1, false)] {
        let expect = if is_right { String::new() } else { code(ErrorCode::INVALID_TRANSACTION_TIMEOUT) };
        assert_eq!(init(ID, timeout_ms), expect, "{timeout_ms}");
    }
    check("init; log; add a,b,c,d@3.0", &code(ErrorCode::POLICY_VIOLATION));

    let mut play = Play::new(None);
    for id in ["x", "y"] {
        play.init_as(id, 1000, None);
        assert!(play.outputs().is_empty());
        play.act("log");
        assert!(play.outputs()[0].starts_with('='));
    }
    play.init_as("z", 1000, None);
    assert_eq!(play.outputs(), [code(ErrorCode::POLICY_VIOLATION)]);
    assert_eq!(play.coordinator.id_count(), 2);

    let mut loading = Coordinator::new(TxnConfig::default(), 0);
    assert!(loading.is_loading());
    let mut no_id = || None;
    loading.end(0, ReplyTo(1), ID, producer("3.0"), TxnResult::Commit, Epochs::Raised, &mut no_id);
    let response = Response::End(Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert_eq!(loading.take_outputs(), [Output::Reply { to: ReplyTo(1), response }]);
    let verified = loading.verify(ID, producer("3.0"), &TopicPartition { topic: "a".to_owned(), index: 0 });
    assert_eq!(verified, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));

    // No producer id is at hand: the client comes again, and the id is not taken.
    let mut coordinator = Play::new(None).coordinator;
    coordinator.init_producer_id(0, ReplyTo(1), ID, 1000, None, &mut || None);
    let response = Response::Init(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(coordinator.take_outputs(), [Output::Reply { to: ReplyTo(1), response }]);
    assert_eq!(coordinator.id_count(), 0);
}

#[test]
fn a_partition_is_in_a_transaction_while_it_is_open() {
    let check = |acts: &str, who: &str, topic: &str, expect: Result<(), ErrorCode>| {
        let mut play = Play::new(None);
        for act in acts.split("; ") {
            play.act(act);
            play.outputs();
        }
        let partition = TopicPartition { topic: topic.to_owned(), index: 0 };
        let got = play.coordinator.verify(ID, producer(who), &partition);
        assert_eq!(got, expect, "{acts}: {topic} of {who}");
    };
    let not_in = Err(ErrorCode::TRANSACTION_ABORTABLE);
    let concurrent = Err(ErrorCode::CONCURRENT_TRANSACTIONS);
    check(EMPTY, "3.0", "a", not_in);
    check("init; log; add a@3.0", "3.0", "a", not_in);
    check(ONGOING, "3.0", "a", Ok(()));
    check(ONGOING, "3.0", "c", not_in);
    check(&format!("{ONGOING}; add c@3.0"), "3.0", "a", Ok(()));
    check(&format!("{ONGOING}; commit@3.0"), "3.0", "a", concurrent);
    check(PREPARE_COMMIT, "3.0", "a", concurrent);
    // The transaction before counts for nothing (KAFKA-18575).
    check(COMPLETE_COMMIT, "3.0", "a", not_in);
    check(&format!("{COMPLETE_COMMIT}; add c@3.0; log"), "3.0", "a", not_in);
    check(FENCED, "3.0", "a", Err(ErrorCode::PRODUCER_FENCED));
    check(ONGOING, "9.0", "a", Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    check("wait 1", "3.0", "a", Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
}

#[test]
fn planted_bugs_leave_the_epoch_as_it_is() {
    let fenced = code(ErrorCode::PRODUCER_FENCED);
    for (defect, act, right, wrong) in [
        (DefectKind::AmnesiacCoordinator, "fail-over", "", "!abort a,b@3.0"),
        (DefectKind::ZombieCommit, "wait 1000; log", "!abort a,b@3.1", "!abort a,b@3.0"),
    ] {
        let acts = format!("{ONGOING}; {act}");
        check(&acts, right);
        check_with(Some(defect), &acts, wrong);
        check_with(Some(defect), &format!("{acts}; marked; log; add a@3.0; log"), "ok");
    }
    check(&format!("{ONGOING}; wait 1000; log; marked; log; add a@3.0"), &fenced);
}
