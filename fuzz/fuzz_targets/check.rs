//! Bytes as a small history and what it is judged by.
#![no_main]

use libfuzzer_sys::fuzz_target;
use riprap_checker::{Guarantees, Valid, Verdict, check, registry};
use riprap_core::history::FormFault;
use riprap_fuzz::draft::draft;

fuzz_target!(|bytes: &[u8]| {
    let (history, options) = draft(bytes);
    let verdict = check(&history, &options);
    let broke = |why: &&String| why.contains("the check itself broke");
    assert_eq!(verdict.why.iter().find(broke), None);

    let mut form = history.ill_formedness();
    if options.guarantees == Guarantees::Jepsen {
        form = form.without(FormFault::Unretired);
    }
    assert!(form.count() == 0 || verdict.valid != Valid::True, "valid, though {:?}", form.first);
    assert_eq!(verdict.valid == Valid::False, verdict.anomalies.values().any(|found| !found.allowed));
    assert_eq!(verdict.valid == Valid::True, verdict.why.is_empty(), "{:?}", verdict.why);
    for (name, found) in &verdict.anomalies {
        assert!(registry::anomaly(name).is_some(), "{name} is in no registry");
        let told = found.examples.len() as u64;
        assert!((1..=found.count).contains(&told), "{name}: {told} of {} told", found.count);
    }

    let text = serde_json::to_string(&verdict).expect("a verdict is data");
    assert_eq!(serde_json::from_str::<Verdict>(&text).expect("what was written is read"), verdict);
});
