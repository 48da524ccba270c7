//! Clients against a whole simulated cluster, in good weather and in bad: what is acknowledged is read, what is said to have
//! failed is not, nothing is there twice that must not be.
//!
//! `RIPRAP_SEEDS=1..100 cargo test -p riprap-client --test cluster` tries more seeds; with
//! `RIPRAP_LOG=1` what is not done in time prints what brokers and clients have logged.

mod groups;
mod pipeline;
mod records;
mod stage;
mod transactions;

/// The seeds that a test tries.
fn seeds(usual: std::ops::RangeInclusive<u64>) -> std::ops::RangeInclusive<u64> {
    let Ok(text) = std::env::var("RIPRAP_SEEDS") else { return usual };
    let (first, last) = text.split_once("..").unwrap_or((&text, &text));
    let number = |text: &str| text.parse().expect("RIPRAP_SEEDS is FIRST..LAST");
    number(first)..=number(last)
}
