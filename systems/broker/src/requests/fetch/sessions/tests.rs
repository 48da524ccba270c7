//! Sessions against fetches without them, and who gets one where there is not room for all.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use riprap_protocol::messages::{FetchResponsePartition, FetchResponseTopic};

const SECOND_NS: u64 = 1_000_000_000;

/// Partitions of one topic, by index; each is where its fetcher would go on.
fn topics(offsets: &[(i32, i64)]) -> Vec<FetchRequestTopic> {
    let partition = |(index, fetch_offset): &(i32, i64)| FetchRequestPartition {
        index: *index,
        fetch_offset: *fetch_offset,
        ..Default::default()
    };
    let partitions: Vec<_> = offsets.iter().map(partition).collect();
    if partitions.is_empty() { Vec::new() } else { vec![topic(partitions)] }
}

fn topic(partitions: Vec<FetchRequestPartition>) -> FetchRequestTopic {
    FetchRequestTopic { topic_id: Uuid([7; 16]), partitions, ..Default::default() }
}

fn forgotten(indexes: &[i32]) -> Vec<FetchRequestForgottenTopic> {
    let all = FetchRequestForgottenTopic {
        topic_id: Uuid([7; 16]),
        partitions: indexes.to_vec(),
        ..Default::default()
    };
    if indexes.is_empty() { Vec::new() } else { vec![all] }
}

/// What a partition is at the broker.
#[derive(Clone, Copy, Default, Debug)]
struct Truth {
    end: i64,
    high_watermark: i64,
    start: i64,
    is_gone: bool,
}

/// What a broker says of all that a request names; records are the offsets that follow, one byte each.
fn answer(request: &FetchRequest, truths: &[Truth], mut room: usize) -> FetchResponse {
    let mut response = FetchResponse::default();
    for topic in &request.topics {
        let mut answered =
            FetchResponseTopic { topic_id: topic.topic_id, name: topic.name.clone(), partitions: Vec::new() };
        for asked in &topic.partitions {
            let truth = truths[asked.index as usize];
            let mut partition = FetchResponsePartition { index: asked.index, ..Default::default() };
            if truth.is_gone {
                partition.error_code = ErrorCode::UNKNOWN_TOPIC_ID;
                partition.high_watermark = -1;
            } else {
                let records: Vec<u8> =
                    (asked.fetch_offset..truth.high_watermark).take(room).map(|at| at as u8).collect();
                room -= records.len();
                partition.high_watermark = truth.high_watermark;
                partition.last_stable_offset = truth.high_watermark;
                partition.log_start_offset = truth.start;
                partition.records = Some(records.into());
            }
            answered.partitions.push(partition);
        }
        response.topics.push(answered);
    }
    response
}

/// A broker's sessions, and a fetcher's side of one.
struct Pair {
    sessions: Sessions,
    now_ns: u64,
    draws: u64,
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        Pair { sessions: Sessions { limits, ..Sessions::default() }, now_ns: 0, draws: 0 }
    }

    fn fetch(
        &mut self,
        (session_id, session_epoch): (i32, i32),
        topics: Vec<FetchRequestTopic>,
        forgotten_topics: Vec<FetchRequestForgottenTopic>,
        follower: Option<BrokerId>,
        (truths, room): (&[Truth], usize),
    ) -> (FetchRequest, FetchResponse) {
        let mut request =
            FetchRequest { session_id, session_epoch, topics, forgotten_topics, ..Default::default() };
        let used = match self.sessions.take_in(&mut request, true, self.now_ns) {
            Ok(used) => used,
            Err(error_code) => {
                return (request, FetchResponse { error_code, ..Default::default() });
            }
        };
        let mut response = answer(&request, truths, room);
        let draws = &mut self.draws;
        let mut random = || {
            *draws += 1;
            *draws << 33
        };
        let luck = (self.now_ns, &mut random as &mut dyn FnMut() -> u64);
        self.sessions.settle(used, &request, &mut response, follower, true, luck);
        let counted: usize = self.sessions.open.values().map(|session| session.partitions.len()).sum();
        assert_eq!(self.sessions.partitions, counted);
        (request, response)
    }

    /// Begins a session with so many partitions; 0 if there is no room.
    fn begin(&mut self, partitions: i32, follower: Option<BrokerId>) -> i32 {
        let offsets: Vec<(i32, i64)> = (0..partitions).map(|index| (index, 0)).collect();
        let truths = vec![Truth::default(); offsets.len()];
        self.fetch((0, 0), topics(&offsets), Vec::new(), follower, (&truths, 0)).1.session_id
    }

    fn go(&mut self, id: i32, epoch: i32, named: &[(i32, i64)], forget: &[i32]) -> (ErrorCode, i32) {
        let truths = [Truth::default(); 10];
        let (_, response) = self.fetch((id, epoch), topics(named), forgotten(forget), None, (&truths, 0));
        (response.error_code, response.session_id)
    }
}

#[test]
fn epochs_follow_each_other() {
    let mut pair = Pair::new(Limits::default());
    let mut check = |id: i32, epoch: i32, named: &[(i32, i64)], forget: &[i32], expect: (ErrorCode, i32)| {
        assert_eq!(pair.go(id, epoch, named, forget), expect, "session {id}, epoch {epoch}");
    };
    const OK: ErrorCode = ErrorCode::NONE;
    const UNKNOWN: ErrorCode = ErrorCode::FETCH_SESSION_ID_NOT_FOUND;
    const WRONG: ErrorCode = ErrorCode::INVALID_FETCH_SESSION_EPOCH;
    check(0, -1, &[(0, 0)], &[], (OK, 0));
    check(0, 3, &[(0, 0)], &[], (UNKNOWN, 0));
    check(9, 1, &[], &[], (UNKNOWN, 0));
    // Nothing to hold on to.
    check(0, 0, &[], &[], (OK, 0));
    check(0, 0, &[(0, 0)], &[], (OK, 1));
    check(1, 1, &[], &[], (OK, 1));
    check(1, 1, &[], &[], (WRONG, 0));
    check(1, 3, &[], &[], (WRONG, 0));
    check(1, -7, &[], &[], (WRONG, 0));
    // A refusal changes nothing.
    check(1, 2, &[(1, 5)], &[0], (OK, 1));
    // A new one ends the one before.
    check(1, 0, &[(0, 0)], &[], (OK, 2));
    check(1, 3, &[], &[], (UNKNOWN, 0));
    // One that names nothing any more ends.
    check(2, 1, &[], &[0], (OK, 0));
    check(2, 2, &[], &[], (UNKNOWN, 0));
    // A fetch by itself ends it too.
    check(0, 0, &[(0, 0)], &[], (OK, 3));
    check(3, -1, &[(0, 0)], &[], (OK, 0));
    check(3, 1, &[], &[], (UNKNOWN, 0));
    assert_eq!([next_epoch(0), next_epoch(1), next_epoch(i32::MAX)], [1, 2, 1]);
}

#[test]
fn a_session_keeps_to_names_or_to_ids() {
    let mut pair = Pair::new(Limits::default());
    let id = pair.begin(1, None);
    let mut request = FetchRequest { session_id: id, session_epoch: 1, ..Default::default() };
    let used = pair.sessions.take_in(&mut request, false, 0);
    assert_eq!(used, Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR));
}

#[test]
fn an_answer_that_was_overtaken_is_an_error() {
    let mut pair = Pair::new(Limits::default());
    let id = pair.begin(1, None);
    let fetch = |epoch| FetchRequest { session_id: id, session_epoch: epoch, ..Default::default() };
    let mut check = |next: (i32, i32), expect: ErrorCode| {
        let mut request = fetch(next.0);
        let used = pair.sessions.take_in(&mut request, true, 0).expect("it is the next");
        let _overtakes = pair.sessions.take_in(&mut fetch(next.1), true, 0);
        let mut response = answer(&request, &[Truth::default()], 0);
        pair.sessions.settle(used, &request, &mut response, None, true, (0, &mut || 0));
        assert_eq!((response.error_code, response.topics.len()), (expect, 0));
    };
    check((1, 2), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    check((3, -1), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn who_gets_a_session_where_not_all_can() {
    const FOLLOWER: Option<BrokerId> = Some(BrokerId(2));
    let new = || Pair::new(Limits { sessions: 2, partitions: 8 });
    // Clients that are all alike keep what they have, and a follower takes it from the smallest.
    let mut pair = new();
    assert_eq!([pair.begin(2, None), pair.begin(1, None), pair.begin(3, None)], [1, 2, 0]);
    assert_eq!(pair.begin(1, FOLLOWER), 3);
    assert_eq!(pair.go(2, 1, &[], &[]).0, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(pair.begin(1, FOLLOWER), 4);
    // Nobody takes it from a follower that uses it.
    assert_eq!([pair.begin(5, None), pair.begin(5, FOLLOWER)], [0, 0]);
    // One that has had its time goes for a larger one, though it is in use.
    let mut pair = new();
    assert_eq!([pair.begin(2, None), pair.begin(3, None)], [1, 2]);
    pair.now_ns = KEPT_NS + SECOND_NS;
    assert_eq!([pair.go(1, 1, &[], &[]).1, pair.go(2, 1, &[], &[]).1], [1, 2]);
    assert_eq!([pair.begin(2, None), pair.begin(4, None)], [0, 3]);
    assert_eq!(pair.go(1, 2, &[], &[]).0, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    // One that is not used goes for any.
    pair.now_ns += KEPT_NS + SECOND_NS;
    assert_eq!(pair.go(3, 1, &[], &[]).1, 3);
    assert_eq!(pair.begin(1, None), 4);
    assert_eq!(pair.go(2, 2, &[], &[]).0, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    // Partitions are limited too, at the start and later.
    let mut pair = new();
    assert_eq!([pair.begin(9, None), pair.begin(8, None), pair.begin(1, None)], [0, 1, 0]);
    assert_eq!(pair.go(1, 1, &[(8, 0)], &[]), (ErrorCode::NONE, 0));
    assert_eq!(pair.sessions.partitions, 0);
}

#[test]
fn each_partition_has_its_turn() {
    let mut pair = Pair::new(Limits::default());
    let truths = vec![Truth { high_watermark: 200, end: 200, ..Truth::default() }; 5];
    let offsets: Vec<(i32, i64)> = (0..5).map(|index| (index, 0)).collect();
    let (_, first) = pair.fetch((0, 0), topics(&offsets), Vec::new(), None, (&truths, 2));
    let with_records = |response: &FetchResponse| -> Vec<i32> {
        let all = response.topics.iter().flat_map(|topic| &topic.partitions);
        let filled = all.filter(|p| p.records.as_ref().is_some_and(|records| !records.is_empty()));
        filled.map(|p| p.index).collect()
    };
    let mut served = with_records(&first);
    for epoch in 1..5 {
        served.extend(with_records(&pair.fetch((1, epoch), vec![], vec![], None, (&truths, 2)).1));
    }
    assert_eq!(served, [0, 1, 2, 3, 4]);
}

#[derive(Clone, Debug)]
enum Do {
    Append { partition: usize, records: i64 },
    Commit { partition: usize },
    DeleteRecords { partition: usize },
    Vanish { partition: usize, is_gone: bool },
    Want { partition: usize, wanted: bool },
    Seek { partition: usize, offset: i64 },
    Fetch { room: usize },
    LoseAnswer,
    BeginAnew,
}

fn doing() -> impl Strategy<Value = Do> {
    let partition = 0..5_usize;
    prop_oneof![
        (partition.clone(), 1..9_i64).prop_map(|(partition, records)| Do::Append { partition, records }),
        partition.clone().prop_map(|partition| Do::Commit { partition }),
        partition.clone().prop_map(|partition| Do::DeleteRecords { partition }),
        (partition.clone(), any::<bool>()).prop_map(|(partition, is_gone)| Do::Vanish { partition, is_gone }),
        (partition.clone(), any::<bool>()).prop_map(|(partition, wanted)| Do::Want { partition, wanted }),
        (partition, 0..9_i64).prop_map(|(partition, offset)| Do::Seek { partition, offset }),
        prop_oneof![
            (0..20_usize).prop_map(|room| Do::Fetch { room }),
            (0..20_usize).prop_map(|room| Do::Fetch { room }),
            (0..20_usize).prop_map(|room| Do::Fetch { room }),
            Just(Do::LoseAnswer),
            Just(Do::BeginAnew),
        ],
    ]
}

/// What a fetcher knows of a partition: the error or the marks that it heard last.
type Known = BTreeMap<i32, Result<(i64, i64, i64), ErrorCode>>;

fn learn(known: &mut Known, response: &FetchResponse) {
    for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
        let marks = (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset);
        let said = if partition.error_code.is_none() { Ok(marks) } else { Err(partition.error_code) };
        known.insert(partition.index, said);
    }
}

fn records(response: &FetchResponse) -> BTreeMap<i32, Bytes> {
    let all = response.topics.iter().flat_map(|topic| &topic.partitions);
    let filled = all.filter(|p| p.records.as_ref().is_some_and(|records| !records.is_empty()));
    filled.map(|p| (p.index, p.records.clone().unwrap_or_default())).collect()
}

proptest! {
    /// Whatever happens, a fetcher with a session asks for, gets and knows what one without would that names the same
    /// partitions in the same order.
    #[test]
    fn a_session_says_what_fetches_by_themselves_say(steps in proptest::collection::vec(doing(), 1..120)) {
        let mut pair = Pair::new(Limits::default());
        let mut truths = [Truth::default(); 5];
        let mut wanted: BTreeMap<i32, i64> = [(0, 0), (1, 0)].into();
        let mut told: BTreeMap<i32, i64> = BTreeMap::new();
        let mut known = Known::new();
        let (mut id, mut epoch) = (0, 0);
        for step in steps {
            match step {
                Do::Append { partition, records } => truths[partition].end += records,
                Do::Commit { partition } => truths[partition].high_watermark = truths[partition].end,
                Do::DeleteRecords { partition } => truths[partition].start = truths[partition].high_watermark,
                Do::Vanish { partition, is_gone } => truths[partition].is_gone = is_gone,
                Do::Want { partition, wanted: true } => drop(wanted.entry(partition as i32).or_insert(0)),
                Do::Want { partition, wanted: false } => drop(wanted.remove(&(partition as i32))),
                Do::Seek { partition, offset } => {
                    wanted.entry(partition as i32).and_modify(|at| *at = offset);
                }
                Do::BeginAnew => epoch = 0,
                Do::Fetch { .. } | Do::LoseAnswer => {
                    let room = if let Do::Fetch { room } = step { room } else { 3 };
                    let is_lost = matches!(step, Do::LoseAnswer);
                    let is_new = |(index, at): &(&i32, &i64)| epoch == 0 || told.get(index) != Some(at);
                    let named: Vec<(i32, i64)> =
                        wanted.iter().filter(is_new).map(|(index, at)| (*index, *at)).collect();
                    let forget: Vec<i32> =
                        told.keys().filter(|index| epoch > 0 && !wanted.contains_key(index)).copied().collect();
                    told.clone_from(&wanted);
                    let (request, response) =
                        pair.fetch((id, epoch), topics(&named), forgotten(&forget), None, (&truths, room));
                    prop_assert!(response.error_code.is_none(), "{:?}", response.error_code);

                    // The session stands for all that is wanted, as it is wanted.
                    let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
                    let asked: BTreeMap<i32, i64> = asked.map(|p| (p.index, p.fetch_offset)).collect();
                    prop_assert_eq!(&asked, &wanted);
                    let whole = answer(&request, &truths, room);
                    if is_lost {
                        epoch = 0;
                        continue;
                    }
                    prop_assert_eq!(records(&response), records(&whole));
                    learn(&mut known, &response);
                    let mut all = known.clone();
                    learn(&mut all, &whole);
                    prop_assert_eq!(&known, &all);
                    id = response.session_id;
                    epoch = if id == 0 { 0 } else { next_epoch(epoch) };
                }
            }
        }
    }
}
