//! Tables as in `decide`'s tests: a state is `replicas+adding!removing/isr/elr/leader@epoch`.

use super::super::decide::tests::{KEY, id, ids, image, print};
use super::super::decide::{self, AlterPartition};
use super::*;
use crate::ids::{Incarnation, LeaderEpoch, PartitionEpoch};

#[test]
fn replicas_move() {
    let check = |before: &str, live: &str, target: &str, expect: Result<&str, ErrorCode>| {
        let image = image(before, live, 2, false);
        let asked = if target == "cancel" { Target::Cancel } else { Target::Replicas(ids(target)) };
        let decided = reassign(&image, KEY, &asked, true);
        if let Ok(state) = &decided {
            let changed = *state != *image.partition(KEY).expect("it is there").state;
            assert_eq!(state.partition_epoch, PartitionEpoch(if changed { 11 } else { 10 }));
        }
        let decided = decided.map(|state| print(&state)).map_err(|refusal| refusal.code);
        assert_eq!(decided, expect.map(str::to_owned), "{before} to {target}");
    };
    // Who is added follows; nobody goes before.
    check("abc/abc/-/a@5", "abcd", "abd", Ok("abdc+d!c/abc/-/a@5"));
    check("abc/abc/-/a@5", "abcde", "de", Ok("deabc+de!abc/abc/-/a@5"));
    check("abc/abc/-/a@5", "abcd", "dabc", Ok("dabc+d/abc/-/a@5"));
    // Another order is had at once, and so are fewer, if those that stay are enough.
    check("abc/abc/-/a@5", "abc", "cba", Ok("cba/cba/-/a@5"));
    check("abc/abc/-/a@5", "abc", "ab", Ok("ab/ab/-/a@6"));
    check("abc/abc/-/a@5", "abc", "bc", Ok("bc/bc/-/b@6"));
    check("abc/abc/-/a@5", "ac", "bc", Ok("bc/bc/-/c@6"));
    check("abc/abc/-/a@5", "abc", "a", Ok("a/a/-/a@6"));
    check("abc/ab/-/a@5", "abc", "bc", Ok("bca!a/ba/-/a@5"));
    check("abc/a/b/a@5", "abc", "ab", Ok("abc!c/a/b/a@5"));
    // A new target takes the old one's place: who was added and is not wanted any more goes.
    check("abdc+d!c/abc/-/a@5", "abcde", "abe", Ok("abedc+e!dc/abc/-/a@5"));
    check("abdc+d!c/abc/-/a@5", "abcd", "dab", Ok("dabc+d!c/abc/-/a@5"));
    check("abdc+d!c/abc/-/a@5", "abcd", "abc", Ok("abc/abc/-/a@6"));
    // Cancelled, all is as before, but for the order.
    check("abdc+d!c/abc/-/a@5", "abcd", "cancel", Ok("abc/abc/-/a@6"));
    check("abdc+d!c/abd/-/d@5", "abcd", "cancel", Ok("abc/ab/-/a@6"));
    check("abdc+d!c/abd/-/d@5", "d", "cancel", Ok("abc/ab/-/-@6"));
    check("abdc+d!c/a/b/a@5", "abcd", "cancel", Ok("abc/a/b/a@6"));
    check("abc!c/a/b/a@5", "abc", "cancel", Ok("abc/a/b/a@5"));
    check("abdc+d!c/ad/-/a@5", "abcd", "cancel", Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT));
    check("abdc+d!c/d/ab/d@5", "abcd", "cancel", Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT));
    check("abc/abc/-/a@5", "abc", "cancel", Err(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS));
    for wrong in ["", "aab", "abz"] {
        check("abc/abc/-/a@5", "abc", wrong, Err(ErrorCode::INVALID_REPLICA_ASSIGNMENT));
    }
    let image = image("abdc+d!c/abc/-/a@5", "abcd", 2, false);
    let smaller = reassign(&image, KEY, &Target::Replicas(ids("ab")), false);
    assert_eq!(smaller.map_err(|refusal| refusal.code), Err(ErrorCode::INVALID_REPLICATION_FACTOR));
    assert!(reassign(&image, KEY, &Target::Replicas(ids("abe")), false).is_ok());
}

#[test]
fn a_reassignment_is_over_when_all_that_were_added_are_in_sync() {
    let check = |before: &str, live: &str, isr: &str, expect: &str| {
        let image = image(before, live, 2, false);
        let state = image.partition(KEY).expect("it is there").state;
        let wish = AlterPartition {
            leader: state.leader.expect("somebody leads"),
            leader_epoch: LeaderEpoch(5),
            partition_epoch: PartitionEpoch(10),
            isr: ids(isr).into_iter().map(|id| (id, Incarnation(1))).collect(),
        };
        let next = decide::alter(&image, KEY, &wish).expect("the wish can be granted");
        assert_eq!(next.partition_epoch, PartitionEpoch(11));
        assert_eq!(print(&next), expect, "{isr} instead of {before}, live {live}");
    };
    check("abdc+d!c/abc/-/a@5", "abcd", "abcd", "abd/abd/-/a@6");
    check("abdc+d!c/abc/-/a@5", "abcd", "abd", "abd/abd/-/a@6");
    check("debac+de!bac/abc/-/a@5", "abcde", "abcd", "debac+de!bac/dbac/-/a@5");
    check("debac+de!bac/abcd/-/a@5", "abcde", "abcde", "de/de/-/d@6");
    check("debac+de!bac/abcd/-/a@5", "abcde", "ade", "de/de/-/d@6");
    check("abcd+d/abc/-/a@5", "abcd", "abcd", "abcd/abcd/-/a@5");
    // Whoever is added must not be the only one to have what was acknowledged.
    check("dbac+d!ac/ac/-/a@5", "acd", "acd", "dbac+d!ac/dac/-/a@5");
    check("dbac+d!ac/dac/-/a@5", "abcd", "abcd", "db/db/-/d@6");
}

#[test]
fn what_else_happens_meanwhile() {
    let check = |fenced: char, before: &str, live: &str, expect: &str| {
        let mut image = image(before, live, 2, false);
        decide::fence(&image, id(fenced)).iter().for_each(|record| image.apply(record));
        assert_eq!(print(image.partition(KEY).expect("it is there").state), expect);
    };
    check('d', "abdc+d!c/abc/-/a@5", "abcd", "abdc+d!c/abc/-/a@5");
    check('a', "abdc+d!c/abc/-/a@5", "abcd", "abdc+d!c/bc/-/b@6");
    check('c', "abdc+d!c/abc/-/c@5", "abcd", "abdc+d!c/ab/-/a@6");
}

#[test]
fn elections_on_request() {
    let check = |election: Election, before: &str, live: &str, expect: Result<&str, ErrorCode>| {
        let image = image(before, live, 2, false);
        let decided = elect_on_request(&image, KEY, election);
        if let Ok(state) = &decided {
            assert_eq!(state.partition_epoch, PartitionEpoch(11));
        }
        let decided = decided.map(|state| print(&state)).map_err(|refusal| refusal.code);
        assert_eq!(decided, expect.map(str::to_owned), "{election:?} of {before}, live {live}");
    };
    let not_needed = Err(ErrorCode::ELECTION_NOT_NEEDED);
    let unavailable = Err(ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE);
    check(Election::Preferred, "abc/abc/-/b@5", "abc", Ok("abc/abc/-/a@6"));
    check(Election::Preferred, "abc/abc/-/a@5", "abc", not_needed);
    check(Election::Preferred, "abc/bc/-/b@5", "abc", unavailable);
    check(Election::Preferred, "abc/abc/-/b@5", "bc", unavailable);
    check(Election::Preferred, "abc/a/-/-@5", "bc", unavailable);
    check(Election::Unclean, "abc/abc/-/b@5", "abc", not_needed);
    check(Election::Unclean, "abc/a/b/-@5", "c", Ok("abc/c/-/c@6"));
    check(Election::Unclean, "abc/ab/-/-@5", "b", Ok("abc/ab/-/b@6"));
    check(Election::Unclean, "abc/a/-/-@5", "d", Err(ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE));
}
