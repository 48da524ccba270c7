//! What a broker gives to connections that ask for more than they take.

use super::super::tests::{FETCH, Play, fetch_request, frame};
use super::*;
use riprap_env::Event;
use riprap_protocol::records::BatchBuilder;
use std::collections::BTreeMap;

/// Of one batch, and of all that is around records in an answer.
const VALUE_BYTES: usize = 16 << 10;
const AROUND_BYTES: usize = 256;

/// A broker with a log of so many batches, and connections of whom nobody takes anything by itself.
struct Crowd {
    play: Play,
    conns: Vec<ConnId>,
    /// How many sends were looked at.
    seen: usize,
    /// Who was ever given something.
    given: BTreeSet<ConnId>,
}

impl Crowd {
    fn new(max_unsent_bytes: usize, batches: usize, conns: u64) -> Crowd {
        let mut play = Play::new();
        play.running.fetch_room = Room::new(max_unsent_bytes);
        for _ in 0..batches {
            play.append(BatchBuilder::new().record(0, None, Some(&[7; VALUE_BYTES])));
        }
        let conns: Vec<ConnId> = (1..=conns).map(ConnId::accepted_by_driver).collect();
        for conn in &conns {
            play.happen(Some(Event::Accepted { conn: *conn, peer: format!("client {}", conn.0) }));
        }
        let seen = play.sends.len();
        Crowd { play, conns, seen, given: BTreeSet::new() }
    }

    /// Has a connection send so many fetches at once, and the broker do what it can; others may only wait.
    fn ask(&mut self, conn: ConnId, fetches: usize, max_bytes: i32) {
        let fetch = frame(FETCH, &fetch_request(0, 0, 0, max_bytes));
        let bytes = fetch.repeat(fetches).into();
        self.play.happen(Some(Event::Received { conn, bytes }));
        self.carry_out();
    }

    /// One turn, in which something may happen.
    fn turn(&mut self, event: Option<Event>) {
        self.play.happen(event);
        self.carry_out();
    }

    /// What was sent waits at its connection.
    fn carry_out(&mut self) {
        for (conn, bytes) in self.play.sends.drain(..).skip(std::mem::take(&mut self.seen)) {
            self.given.insert(conn);
            *self.play.env.unsent.entry(conn).or_default() += bytes;
        }
    }

    fn has(&self, conn: ConnId) -> usize {
        self.play.env.unsent_bytes(conn)
    }

    /// A connection takes all that waits for it. Returns how much that was.
    fn take(&mut self, conn: ConnId) -> usize {
        let taken = self.play.env.unsent.remove(&conn).unwrap_or(0);
        self.turn(Some(Event::Drained { conn }));
        taken
    }
}

#[test]
fn what_those_have_that_read_nothing_is_bounded() {
    const MOST_BYTES: usize = 1 << 20;
    let mut crowd = Crowd::new(MOST_BYTES, 32, 200);
    for conn in crowd.conns.clone() {
        crowd.ask(conn, 20, 1 << 20);
    }
    for _ in 0..100 {
        crowd.turn(None);
    }
    let per_answer = VALUE_BYTES + AROUND_BYTES;
    let in_all = crowd.play.env.unsent_in_all_bytes();
    let holders = crowd.play.env.unsent.values().filter(|bytes| **bytes > 0).count();
    assert!((MOST_BYTES..MOST_BYTES + per_answer).contains(&in_all), "{in_all} bytes of {MOST_BYTES}");
    assert!(holders > SHARE, "{holders} have it all");
    for conn in &crowd.conns {
        let bytes = crowd.has(*conn);
        assert!(bytes <= MOST_BYTES / SHARE + per_answer, "{conn:?} has {bytes} bytes");
    }
}

#[test]
fn who_takes_what_it_has_is_given_more() {
    let mut crowd = Crowd::new(1 << 20, 32, 200);
    let reader = crowd.conns[0];
    for conn in crowd.conns.clone() {
        crowd.ask(conn, 20, 1 << 20);
    }
    let (first, in_all) = (crowd.has(reader), crowd.play.env.unsent_in_all_bytes());
    crowd.turn(None);
    assert_eq!(crowd.has(reader), first, "nothing is added to what it has not taken");
    assert_eq!(crowd.take(reader), first);
    assert!(crowd.play.env.unsent_in_all_bytes() + VALUE_BYTES > in_all, "others get what it made room for");
    // Those who come when there is no room get it from those who leave.
    let late = ConnId::accepted_by_driver(1000);
    crowd.turn(Some(Event::Accepted { conn: late, peer: "late".to_owned() }));
    crowd.ask(late, 1, 1 << 20);
    assert_eq!(crowd.has(late), 0, "there is no room");
    // Others have waited for longer: when those have left too, it is its turn.
    for _ in 0..10 {
        for conn in std::mem::take(&mut crowd.play.env.unsent).into_keys() {
            crowd.turn(Some(Event::Closed { conn }));
        }
    }
    assert!(crowd.given.contains(&late), "there is room");
}

#[test]
fn a_turn_gives_to_each_before_it_gives_more_to_any() {
    let mut crowd = Crowd::new(1 << 30, 128, 30);
    let bytes = frame(FETCH, &fetch_request(0, 0, 0, 2 << 20)).repeat(6);
    for conn in crowd.conns.clone() {
        crowd.play.running.take_in(
            Event::Received { conn, bytes: bytes.clone().into() },
            &mut crate::node::Cx {
                now_ns: 0,
                env: &mut crowd.play.env,
                effects: &mut Vec::new(),
                fatal: None,
            },
        );
    }
    let mut answers: BTreeMap<ConnId, usize> = crowd.conns.iter().map(|conn| (*conn, 0)).collect();
    crowd.play.sends.clear();
    for _ in 0..40 {
        crowd.play.happen(None);
        let sent: usize = crowd.play.sends.iter().map(|(_, bytes)| bytes).sum();
        assert!(sent <= TURN_BYTES + (2 << 20) + 20 * AROUND_BYTES, "{sent} bytes in a turn");
        for (conn, _) in crowd.play.sends.drain(..) {
            *answers.get_mut(&conn).expect("one of them") += 1;
        }
        let (least, most) = (answers.values().min(), answers.values().max());
        assert!(most.copied() <= least.map(|least| least + 1), "{answers:?}");
    }
    assert!(answers.values().all(|answers| *answers == 6), "{answers:?}");
}
