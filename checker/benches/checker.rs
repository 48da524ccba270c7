//! How fast histories are read and judged: `cargo bench -p riprap-checker`, in completed ops a second.
//!
//! The history is that of `examples/generate`: like Kafka's, 20 processes, 20 keys in use, some 300 bytes and 4.5 records
//! for each completed op. What a whole process takes, and in memory, says `examples/judge.rs`.

#[allow(dead_code)]
#[path = "../examples/generate/log.rs"]
mod log;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use log::{Config, Mode, generate};
use riprap_checker::{Guarantees, Options, check, read_edn, write_edn_op};
use riprap_core::History;
use riprap_core::history::{read_jsonl, write_op};
use riprap_core::op::Kind;

/// Two sizes, so that what is not linear shows.
const OPS: &[u64] = &[10_000, 50_000];
/// Each sample takes about a second at most.
const SAMPLES: u32 = 20;

fn main() {
    divan::main();
}

fn history(ops: u64, mode: Mode) -> History {
    let mut history = History::new();
    generate(&Config { ops, mode, ..Config::default() }, |op| history.push(op));
    history
}

fn completed(history: &History) -> ItemsCount {
    ItemsCount::new(history.ops().filter(|op| op.kind() != Kind::Invoke).count())
}

#[divan::bench(args = OPS, sample_count = SAMPLES)]
fn json_lines(bencher: Bencher<'_, '_>, ops: u64) {
    let history = history(ops, Mode::Kafka);
    let mut text = Vec::new();
    history.ops().for_each(|op| write_op(&mut text, &op.to_op()).expect("a vector takes all"));
    bencher
        .counter(completed(&history))
        .counter(BytesCount::of_slice(&text))
        .bench(|| read_jsonl(black_box(&text[..])).expect("what was written is read"));
}

#[divan::bench(args = OPS, sample_count = SAMPLES)]
fn edn(bencher: Bencher<'_, '_>, ops: u64) {
    let history = history(ops, Mode::Kafka);
    let mut text = Vec::new();
    history.ops().for_each(|op| write_edn_op(&mut text, &op.to_op()).expect("a vector takes all"));
    bencher
        .counter(completed(&history))
        .counter(BytesCount::of_slice(&text))
        .bench(|| read_edn(black_box(&text[..])).expect("what was written is read"));
}

fn judge(bencher: Bencher<'_, '_>, history: &History, options: &Options) {
    bencher.counter(completed(history)).bench(|| check(black_box(history), options));
}

/// Nothing is to be found.
#[divan::bench(args = OPS, sample_count = SAMPLES)]
fn check_serial(bencher: Bencher<'_, '_>, ops: u64) {
    judge(bencher, &history(ops, Mode::Serial), &Options::default());
}

/// Cycles are found, and told.
#[divan::bench(args = OPS, sample_count = SAMPLES)]
fn check_kafka(bencher: Bencher<'_, '_>, ops: u64) {
    judge(bencher, &history(ops, Mode::Kafka), &Options::default());
}

/// The same without the edges between writers, and by the other table.
#[divan::bench(args = OPS, sample_count = SAMPLES)]
fn check_kafka_without_ww(bencher: Bencher<'_, '_>, ops: u64) {
    judge(bencher, &history(ops, Mode::Kafka), &Options { ww: false, ..Options::default() });
}

/// As it is judged beside Jepsen.
#[divan::bench(args = OPS, sample_count = SAMPLES)]
fn check_kafka_as_jepsen(bencher: Bencher<'_, '_>, ops: u64) {
    judge(
        bencher,
        &history(ops, Mode::Kafka),
        &Options { guarantees: Guarantees::Jepsen, ..Options::default() },
    );
}

/// Whether it contradicts itself.
#[divan::bench(args = OPS, sample_count = SAMPLES)]
fn form(bencher: Bencher<'_, '_>, ops: u64) {
    let history = history(ops, Mode::Kafka);
    bencher.counter(completed(&history)).bench(|| black_box(&history).ill_formedness());
}
