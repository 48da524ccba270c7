//! Tables in a mini-language: brokers are letters, a state is `replicas/isr/elr/leader@epoch`, `-` is nobody; behind
//! the replicas those that a reassignment adds and removes, `+a!b`.

use super::*;
use crate::ids::TopicId;
use riprap_protocol::Uuid;

pub(in crate::controller) const TOPIC: TopicId = TopicId(Uuid([1; 16]));
pub(in crate::controller) const KEY: PartitionKey = PartitionKey { topic: TOPIC, index: 0 };

pub(in crate::controller) fn id(letter: char) -> BrokerId {
    BrokerId(letter as i32)
}

pub(in crate::controller) fn ids(text: &str) -> Vec<BrokerId> {
    text.chars().filter(|c| *c != '-').map(id).collect()
}

pub(in crate::controller) fn state(text: &str) -> PartitionState {
    let (parts, epoch) = text.split_once('@').expect("a state ends with its epoch");
    let parts: Vec<&str> = parts.split('/').collect();
    let (replicas, removing) = parts[0].split_once('!').unwrap_or((parts[0], ""));
    let (replicas, adding) = replicas.split_once('+').unwrap_or((replicas, ""));
    PartitionState {
        replicas: ids(replicas),
        adding: ids(adding),
        removing: ids(removing),
        isr: ids(parts[1]),
        elr: ids(parts[2]),
        leader: ids(parts[3]).first().copied(),
        leader_epoch: LeaderEpoch(epoch.parse().expect("an epoch is a number")),
        partition_epoch: PartitionEpoch(10),
    }
}

pub(in crate::controller) fn print(state: &PartitionState) -> String {
    let text = |ids: &[BrokerId]| {
        let letters: String =
            ids.iter().map(|id| char::from(u8::try_from(id.0).expect("letters are small"))).collect();
        if letters.is_empty() { "-".to_owned() } else { letters }
    };
    let leader: Vec<BrokerId> = state.leader.into_iter().collect();
    let beside = |mark: &str, ids: &[BrokerId]| {
        if ids.is_empty() { String::new() } else { format!("{mark}{}", text(ids)) }
    };
    format!(
        "{}{}{}/{}/{}/{}@{}",
        text(&state.replicas),
        beside("+", &state.adding),
        beside("!", &state.removing),
        text(&state.isr),
        text(&state.elr),
        text(&leader),
        state.leader_epoch
    )
}

/// `live` are the brokers that take part; `a` to `e` are registered.
pub(in crate::controller) fn image(
    before: &str,
    live: &str,
    min_insync_replicas: u16,
    unclean_leader_election: bool,
) -> Image {
    let mut image = Image::default();
    for letter in "abcde".chars() {
        image.apply(&Record::RegisterBroker {
            id: id(letter),
            incarnation: Incarnation(1),
            host: "h".to_owned(),
            port: 1,
        });
    }
    ids(live).into_iter().for_each(|id| image.apply(&Record::UnfenceBroker { id }));
    image.apply(&Record::CreateTopic {
        id: TOPIC,
        name: "t".to_owned(),
        min_insync_replicas,
        unclean_leader_election,
        configs: vec![],
    });
    image.apply(&Record::SetPartition { topic: TOPIC, index: 0, state: state(before) });
    image
}

/// What becomes of the partition once `records` are applied.
fn after(mut image: Image, records: &[Record]) -> String {
    records.iter().for_each(|record| image.apply(record));
    let state = image.partition(KEY).expect("the partition stays").state;
    let changed = records.iter().any(|record| matches!(record, Record::SetPartition { .. }));
    assert_eq!(state.partition_epoch.0, if changed { 11 } else { 10 }, "each change raises the epoch by one");
    print(state)
}

#[derive(Clone, Copy, Debug)]
enum Do {
    Fence(char),
    Register(char),
    RegisterLacking(char),
    RegisterEmpty(char),
    Unregister(char),
    Unfence(char),
}

fn decide(image: &Image, what: Do) -> Vec<Record> {
    match what {
        Do::Fence(letter) => fence(image, id(letter)),
        Do::Register(letter) => register(image, id(letter), Incarnation(2), Leaving::Synced, "h", 1),
        Do::RegisterLacking(letter) => register(image, id(letter), Incarnation(2), Leaving::Lacking, "h", 1),
        Do::RegisterEmpty(letter) => register(image, id(letter), Incarnation(2), Leaving::Gone, "h", 1),
        Do::Unregister(letter) => unregister(image, id(letter)),
        Do::Unfence(letter) => unfence(image, id(letter)),
    }
}

#[test]
fn leaders_and_in_sync_replicas() {
    let check = |what: Do, before: &str, live: &str, expect: &str| {
        let image = image(before, live, 2, false);
        let records = decide(&image, what);
        assert_eq!(after(image, &records), expect, "{what:?} of {before}, live {live}");
    };
    // A follower that goes leaves the ISR, and the leader stays.
    check(Do::Fence('b'), "abc/abc/-/a@5", "abc", "abc/ac/-/a@5");
    // A leader that goes is followed by the next in the order of the replicas.
    check(Do::Fence('a'), "abc/abc/-/a@5", "abc", "abc/bc/-/b@6");
    check(Do::Fence('a'), "acb/abc/-/a@5", "abc", "acb/bc/-/c@6");
    // Below the minimum who left may still lead.
    check(Do::Fence('a'), "abc/ab/-/a@5", "abc", "abc/b/a/b@6");
    check(Do::Fence('b'), "abc/b/a/b@6", "abc", "abc/a/b/a@7");
    // But only if it lives; the last one stays in the ISR.
    check(Do::Fence('b'), "abc/b/a/b@6", "bc", "abc/b/a/-@7");
    check(Do::Fence('b'), "abc/b/-/b@6", "abc", "abc/b/-/-@7");
    // Who is not in sync changes nothing when it goes.
    check(Do::Fence('c'), "abc/ab/-/a@5", "abc", "abc/ab/-/a@5");
    check(Do::Fence('e'), "abc/ab/-/a@5", "abc", "abc/ab/-/a@5");
    // A new life on a disk that has all is as good as a fence.
    check(Do::Register('b'), "abc/abc/-/a@5", "abc", "abc/ac/-/a@5");
    check(Do::Register('a'), "abc/ab/-/a@5", "abc", "abc/b/a/b@6");
    check(Do::Register('c'), "abc/a/bc/a@5", "abc", "abc/a/bc/a@5");
    check(Do::Register('a'), "abc/a/-/a@5", "abc", "abc/a/-/-@6");
    check(Do::Register('a'), "abc/a/b/a@5", "abc", "abc/b/a/b@6");
    check(Do::RegisterLacking('a'), "abc/ab/-/a@5", "abc", "abc/b/-/b@6");
    check(Do::RegisterLacking('c'), "abc/a/bc/a@5", "abc", "abc/a/b/a@5");
    // All go at once, and the last to come back has lost its disk.
    check(Do::Register('a'), "abc/ab/-/-@5", "", "abc/b/a/-@5");
    check(Do::RegisterEmpty('b'), "abc/b/a/-@5", "a", "abc/a/-/a@6");
    // Who may lack what was committed is the last one only if there is no other.
    check(Do::RegisterLacking('b'), "abc/abc/-/a@5", "abc", "abc/ac/-/a@5");
    check(Do::RegisterLacking('a'), "abc/a/b/a@5", "abc", "abc/b/-/b@6");
    check(Do::RegisterLacking('a'), "abc/a/bc/a@5", "a", "abc/bc/-/-@6");
    check(Do::RegisterLacking('a'), "abc/a/b/-@5", "c", "abc/b/-/-@5");
    check(Do::RegisterLacking('b'), "abc/b/-/-@6", "c", "abc/b/-/-@6");
    check(Do::Register('a'), "abc/a/b/-@5", "c", "abc/a/b/-@5");
    // Who has nothing is no member at all, not even the last.
    for what in [Do::RegisterEmpty('a'), Do::Unregister('a')] {
        check(what, "abc/abc/-/a@5", "abc", "abc/bc/-/b@6");
        check(what, "abc/a/b/a@5", "a", "abc/b/-/-@6");
        check(what, "abc/a/-/a@5", "abc", "abc/-/-/-@6");
        check(what, "abc/a/-/-@5", "bc", "abc/-/-/-@5");
    }
    check(Do::Unfence('a'), "abc/-/-/-@6", "", "abc/-/-/-@6");
    // Who comes back leads what has no leader, if it may.
    check(Do::Unfence('b'), "abc/b/-/-@6", "c", "abc/b/-/b@7");
    check(Do::Unfence('a'), "abc/b/a/-@6", "c", "abc/a/b/a@7");
    check(Do::Unfence('c'), "abc/b/-/-@6", "", "abc/b/-/-@6");
    check(Do::Unfence('c'), "abc/a/-/a@6", "a", "abc/a/-/a@6");
}

#[test]
fn unclean_elections() {
    let check = |what: Do, before: &str, live: &str, expect: &str| {
        let image = image(before, live, 1, true);
        let records = decide(&image, what);
        assert_eq!(after(image, &records), expect, "{what:?} of {before}, live {live}");
    };
    check(Do::Fence('a'), "abc/ab/-/a@5", "abc", "abc/b/-/b@6");
    check(Do::Fence('a'), "abc/a/-/a@5", "abc", "abc/b/-/b@6");
    check(Do::Fence('a'), "abc/a/-/a@5", "a", "abc/a/-/-@6");
    check(Do::Unfence('c'), "abc/a/-/-@6", "", "abc/c/-/c@7");
}

#[test]
fn wishes_for_another_isr() {
    let check =
        |before: &str, live: &str, leader: char, epoch: i32, isr: &str, expect: Result<&str, ErrorCode>| {
            let image = image(before, live, 2, false);
            let wish = AlterPartition {
                leader: id(leader),
                leader_epoch: LeaderEpoch(epoch),
                partition_epoch: PartitionEpoch(10),
                isr: ids(isr).into_iter().map(|id| (id, Incarnation(1))).collect(),
            };
            let decided = alter(&image, KEY, &wish);
            if let Ok(state) = &decided {
                assert_eq!(state.partition_epoch, PartitionEpoch(11));
            }
            assert_eq!(
                decided.map(|s| print(&s)),
                expect.map(str::to_owned),
                "{isr} instead of {before}, live {live}"
            );
        };
    check("abc/abc/-/a@5", "abc", 'a', 5, "ac", Ok("abc/ac/-/a@5"));
    check("abc/ac/-/a@5", "abc", 'a', 5, "bca", Ok("abc/abc/-/a@5"));
    // Below the minimum who is left out may still lead; once it is reached again, nobody else may.
    check("abc/abc/-/a@5", "abc", 'a', 5, "a", Ok("abc/a/bc/a@5"));
    check("abc/a/bc/a@5", "abc", 'a', 5, "ac", Ok("abc/ac/-/a@5"));
    check("abc/a/b/a@5", "abc", 'a', 5, "a", Ok("abc/a/b/a@5"));
    // The same again is granted: it ends all doubt about earlier wishes.
    check("abc/ab/-/a@5", "abc", 'a', 5, "ab", Ok("abc/ab/-/a@5"));
    // Who is fenced cannot join, but need not be thrown out at once.
    check("abc/ab/-/a@5", "ab", 'a', 5, "abc", Err(ErrorCode::INELIGIBLE_REPLICA));
    check("abc/abc/-/a@5", "ab", 'a', 5, "abc", Ok("abc/abc/-/a@5"));
    check("abc/abc/-/a@5", "abc", 'b', 5, "b", Err(ErrorCode::FENCED_LEADER_EPOCH));
    check("abc/abc/-/a@5", "abc", 'a', 4, "a", Err(ErrorCode::FENCED_LEADER_EPOCH));
    check("abc/abc/-/a@5", "abc", 'a', 5, "bc", Err(ErrorCode::INVALID_REQUEST));
    check("abc/abc/-/a@5", "abcd", 'a', 5, "ad", Err(ErrorCode::INVALID_REQUEST));
}

#[test]
fn who_joins_must_be_the_one_that_was_seen_to_have_caught_up() {
    let mut image = image("abc/ab/-/a@5", "abc", 2, false);
    for what in [Do::Register('c'), Do::Unfence('c')] {
        decide(&image, what).iter().for_each(|record| image.apply(record));
    }
    for (incarnation, expect) in
        [(1, Err(ErrorCode::INELIGIBLE_REPLICA)), (2, Ok("abc/abc/-/a@5".to_owned()))]
    {
        let wish = AlterPartition {
            leader: id('a'),
            leader_epoch: LeaderEpoch(5),
            partition_epoch: PartitionEpoch(10),
            isr: vec![
                (id('a'), Incarnation(1)),
                (id('b'), Incarnation(1)),
                (id('c'), Incarnation(incarnation)),
            ],
        };
        assert_eq!(alter(&image, KEY, &wish).map(|state| print(&state)), expect);
    }
}

#[test]
fn a_wish_against_an_old_state_is_refused() {
    let image = image("abc/abc/-/a@5", "abc", 2, false);
    for (epoch, expect) in [
        (9, Err(ErrorCode::INVALID_UPDATE_VERSION)),
        (10, Ok(())),
        (11, Err(ErrorCode::INVALID_UPDATE_VERSION)),
    ] {
        let wish = AlterPartition {
            leader: id('a'),
            leader_epoch: LeaderEpoch(5),
            partition_epoch: PartitionEpoch(epoch),
            isr: ids("ab").into_iter().map(|id| (id, Incarnation(1))).collect(),
        };
        assert_eq!(alter(&image, KEY, &wish).map(|_| ()), expect);
    }
}
