//! Systems under test, and their registry.
//!
//! A system says how its nodes are started, when they serve, how clients reach it and what its errors prove; see
//! [`riprap_core::system`]. To add one: a folder or file here, and a line in [`ALL`].

mod bundled;
mod cache;
pub mod described;
mod external;
mod kafka;
pub mod librdkafka;
mod members;
mod nats;
pub mod objects;
mod prepare;
mod probe;
mod redpanda;
#[cfg(test)]
mod sample;
pub mod simulated;
mod tansu;
mod version;

pub use cache::root as cache_root;
use librdkafka::Admin;
use riprap_core::system::System;
use simulated::Simulated;

/// A system, and how to simulate it.
pub trait Registered: System {
    /// `None` if it runs live only.
    fn simulated(&self) -> Option<&'static dyn Simulated> {
        None
    }

    /// How to reach it, if it is a cluster that is there already: its nodes are not deployed, and none of the methods that
    /// are about nodes is called.
    fn existing(&self) -> Option<Reach> {
        None
    }
}

/// Makes an administrator of the cluster that these addresses (`HOST:PORT`) are of, with these properties of the client
/// library. Errors: one line.
pub type Reach = fn(&[String], &[(String, String)]) -> Result<Admin, String>;

/// All systems, sorted by name.
pub static ALL: &[&dyn Registered] =
    &[&bundled::Bundled, &external::External, &kafka::Kafka, &nats::Nats, &redpanda::Redpanda, &tansu::Tansu];

/// The system of that name.
pub fn find(name: &str) -> Option<&'static dyn Registered> {
    ALL.iter().copied().find(|system| system.info().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// House rules: sorted, found by name, every defect sourced and explained.
    #[test]
    fn the_registry_is_sorted_and_documented() {
        assert!(ALL.windows(2).all(|pair| pair[0].info().name < pair[1].info().name));
        for system in ALL {
            let info = system.info();
            assert!(find(info.name).is_some() && !info.doc.is_empty(), "{}", info.name);
            assert!(
                info.defects.windows(2).all(|pair| pair[0].name < pair[1].name),
                "{}: defects",
                info.name
            );
            assert!(info.errors.windows(2).all(|pair| pair[0].code < pair[1].code), "{}: errors", info.name);
            for defect in &info.defects {
                let texts = [defect.source, defect.mechanism, defect.trigger];
                assert!(texts.iter().all(|text| !text.is_empty()), "{}", defect.name);
                assert!(!defect.anomalies.is_empty(), "{}", defect.name);
            }
            for rule in info.errors {
                assert!(
                    !rule.definite || !rule.reason.is_empty(),
                    "{}: a definite error cites its source",
                    rule.code
                );
            }
        }
    }
}
