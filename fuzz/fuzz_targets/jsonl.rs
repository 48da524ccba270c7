//! Bytes as JSON lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use riprap_core::history::read_jsonl;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((history, _)) = read_jsonl(bytes) {
        riprap_fuzz::round_trip::check(&history);
    }
});
