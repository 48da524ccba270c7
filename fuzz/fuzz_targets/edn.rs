//! Bytes as EDN.
#![no_main]

use libfuzzer_sys::fuzz_target;
use riprap_checker::read_edn;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((history, _)) = read_edn(bytes) {
        riprap_fuzz::round_trip::check(&history);
    }
});
