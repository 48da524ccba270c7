//! From a history to the numbers that a plot shows: rates and latencies by time. Pure, and small however long the run.

use riprap_core::op::{Kind, Process};
use riprap_core::{F, History};
use std::collections::BTreeMap;

/// Points along the time axis: one for some eight pixels.
const MAX_BUCKETS: i64 = 120;
/// Nothing is learnt from shorter buckets, as one op takes longer.
const MIN_BUCKET_NS: i64 = 1_000_000;
/// Words of ops that get a line of their own; the rest, the rarest, share one.
const MAX_WORDS: usize = 5;
/// What the rest is called.
const OTHER: &str = "other";

/// Equal pieces of a run's time, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Buckets {
    pub(super) width_ns: i64,
    pub(super) count: usize,
}

impl Buckets {
    /// At most [`MAX_BUCKETS`] of them, of a round width: 1, 2 or 5 times a power of ten.
    pub(super) fn over(duration_ns: i64) -> Buckets {
        let mut width_ns = MIN_BUCKET_NS;
        for factor in [2, 5, 10].into_iter().cycle() {
            if duration_ns / width_ns < MAX_BUCKETS {
                break;
            }
            let power = 10_i64.pow(width_ns.ilog10());
            width_ns = power * factor;
        }
        let count = usize::try_from(duration_ns / width_ns + 1).expect("a run has few buckets");
        Buckets { width_ns, count }
    }

    fn of(self, time_ns: i64) -> usize {
        usize::try_from(time_ns / self.width_ns).unwrap_or(0).min(self.count - 1)
    }

    /// The middle of a bucket.
    pub(super) fn middle_ns(self, bucket: usize) -> i64 {
        self.width_ns * bucket as i64 + self.width_ns / 2
    }
}

/// The words that ops are told apart by, the most frequent first.
pub(super) struct Words {
    own: Vec<F>,
    has_rest: bool,
}

impl Words {
    pub(super) fn of(history: &History) -> Words {
        let mut counts: BTreeMap<&F, u64> = BTreeMap::new();
        for op in history.ops().filter(|op| is_completion(op.process(), op.kind())) {
            *counts.entry(op.f()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let has_rest = counts.len() > MAX_WORDS;
        Words { own: counts.into_iter().take(MAX_WORDS).map(|(f, _)| f.clone()).collect(), has_rest }
    }

    fn of_op(&self, f: &F) -> usize {
        self.own.iter().position(|own| own == f).unwrap_or(self.own.len())
    }

    /// All of them; the last may be that of the rest.
    pub(super) fn names(&self) -> Vec<&str> {
        self.own.iter().map(F::name).chain(self.has_rest.then_some(OTHER)).collect()
    }
}

fn is_completion(process: Process, kind: Kind) -> bool {
    process != Process::Nemesis && kind != Kind::Invoke
}

/// Completions in each bucket, by how they ended and by word.
pub(super) struct Rates {
    /// Kinds and words without any completion are left out.
    pub(super) by_kind: BTreeMap<Kind, BTreeMap<usize, Vec<u64>>>,
}

pub(super) fn rates(history: &History, words: &Words, buckets: Buckets) -> Rates {
    let mut by_kind: BTreeMap<Kind, BTreeMap<usize, Vec<u64>>> = BTreeMap::new();
    for op in history.ops().filter(|op| is_completion(op.process(), op.kind())) {
        let by_word = by_kind.entry(op.kind()).or_default();
        let counts = by_word.entry(words.of_op(op.f())).or_insert_with(|| vec![0; buckets.count]);
        counts[buckets.of(op.time_ns())] += 1;
    }
    Rates { by_kind }
}

/// How long ops took that began in one bucket. Units: nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spread {
    /// Of the ok ones, the median, the 95th percentile and the longest.
    pub(super) ok: Option<[i64; 3]>,
    /// The longest of those that failed.
    pub(super) fail: Option<i64>,
    /// The longest of those whose end nobody knows.
    pub(super) info: Option<i64>,
}

/// By word, how long ops took in each bucket, by the time when they began: a stall shows where it began, not where it
/// ended.
pub(super) fn latencies(history: &History, words: &Words, buckets: Buckets) -> BTreeMap<usize, Vec<Spread>> {
    let mut spreads: BTreeMap<usize, Vec<Spread>> = BTreeMap::new();
    let mut ok_ns: BTreeMap<usize, Vec<Vec<i64>>> = BTreeMap::new();
    let clients = history.pairs().filter(|(op, _)| op.process() != Process::Nemesis && takes_time(op.f()));
    for (invoked, completed) in clients.filter_map(|(op, done)| Some((op, done?))) {
        let (word, bucket) = (words.of_op(invoked.f()), buckets.of(invoked.time_ns()));
        let took_ns = completed.time_ns().saturating_sub(invoked.time_ns());
        let spread =
            &mut spreads.entry(word).or_insert_with(|| vec![Spread::default(); buckets.count])[bucket];
        match completed.kind() {
            Kind::Ok => {
                ok_ns.entry(word).or_insert_with(|| vec![Vec::new(); buckets.count])[bucket].push(took_ns)
            }
            Kind::Fail => spread.fail = spread.fail.max(Some(took_ns)),
            Kind::Info => spread.info = spread.info.max(Some(took_ns)),
            Kind::Invoke => {}
        }
    }
    for (word, by_bucket) in ok_ns {
        let spreads = spreads.get_mut(&word).expect("made with the first op of the word");
        for (spread, mut took_ns) in spreads.iter_mut().zip(by_bucket) {
            took_ns.sort_unstable();
            spread.ok =
                took_ns.last().map(|longest| [percentile(&took_ns, 50), percentile(&took_ns, 95), *longest]);
        }
    }
    spreads
}

/// Whether an op's duration says something about the system: a client that is thrown away takes no time.
pub(crate) fn takes_time(f: &F) -> bool {
    *f != F::Crash && *f != F::Debug
}

/// The smallest value that at least `percent` of all do not exceed. Panics: none.
pub(crate) fn percentile(sorted: &[i64], percent: usize) -> i64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_core::op::{Extra, Op, OpValue};

    /// A history of words `process kind f time_ms`.
    fn history(text: &str) -> History {
        let words: Vec<_> = text.split_whitespace().collect();
        let op = |(n, word): (usize, &[&str])| Op {
            index: n as u64,
            time_ns: word[3].parse::<i64>().expect("a time") * 1_000_000,
            process: word[0].parse().map_or(Process::Nemesis, Process::Client),
            kind: Kind::ALL.into_iter().find(|kind| kind.name() == word[1]).expect("a kind"),
            f: F::from_name(word[2]),
            value: OpValue::None,
            extra: Extra::default(),
        };
        words.chunks(4).enumerate().map(op).collect()
    }

    #[test]
    fn buckets_are_few_and_round() {
        let check = |duration_ns: i64, width_ns: i64| {
            let buckets = Buckets::over(duration_ns);
            assert_eq!(buckets.width_ns, width_ns, "{duration_ns} ns");
            assert!(buckets.count <= MAX_BUCKETS as usize);
            assert_eq!(buckets.of(duration_ns), buckets.count - 1);
        };
        check(0, 1_000_000);
        check(119_999_999, 1_000_000);
        check(120_000_000, 2_000_000);
        check(30_000_000_000, 500_000_000);
        check(60_000_000_000, 1_000_000_000);
        check(86_400_000_000_000, 1_000_000_000_000);
        check(i64::MAX, 100_000_000_000_000_000);
    }

    #[test]
    fn completions_are_counted_where_they_end() {
        let history = history(
            "0 invoke send 0  1 invoke poll 0  0 ok send 2  1 info poll 3  0 invoke send 3  0 ok send 3
             nemesis invoke kill 4  nemesis info kill 4",
        );
        let words = Words::of(&history);
        assert_eq!(words.names(), ["send", "poll"]);
        let rates = rates(&history, &words, Buckets { width_ns: 2_000_000, count: 2 });
        let expected =
            [(Kind::Ok, BTreeMap::from([(0, vec![0, 2])])), (Kind::Info, BTreeMap::from([(1, vec![0, 1])]))];
        assert_eq!(rates.by_kind, BTreeMap::from(expected));
    }

    #[test]
    fn latencies_are_counted_where_they_begin() {
        let mut text = String::new();
        for n in 1..=100 {
            text.push_str(&format!("0 invoke send 0  0 ok send {n}  "));
        }
        text.push_str("1 invoke send 7  1 fail send 17  2 invoke send 7  2 info send 57  3 invoke crash 7  3 info crash 7");
        text.push_str("  4 invoke send 8");
        let history = history(&text);
        let by_word = latencies(&history, &Words::of(&history), Buckets { width_ns: 5_000_000, count: 2 });
        let ms = 1_000_000;
        let first = Spread { ok: Some([50 * ms, 95 * ms, 100 * ms]), ..Spread::default() };
        let second = Spread { ok: None, fail: Some(10 * ms), info: Some(50 * ms) };
        assert_eq!(by_word, BTreeMap::from([(0, vec![first, second])]));
    }

    #[test]
    fn the_rarest_words_share_one() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let text: String =
            names.iter().enumerate().map(|(n, name)| format!("0 ok {name} 0 ").repeat(9 - n)).collect();
        let history = history(&text);
        let words = Words::of(&history);
        assert_eq!(words.names(), ["a", "b", "c", "d", "e", "other"]);
        let rates = rates(&history, &words, Buckets { width_ns: 1, count: 1 });
        assert_eq!(rates.by_kind[&Kind::Ok][&5], [4 + 3]);
    }
}
