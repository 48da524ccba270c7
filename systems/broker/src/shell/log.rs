//! A node's lines as events of `tracing`: level, the module that speaks as target, the line as message, and the node's
//! name as a field, for logs of several nodes in one place.
//!
//! `tracing`'s macros make one static description for each place in the code. A node's lines come through
//! [`Env::log`](riprap_env::Env::log), where that place is not known any more, so a description is made here for each
//! pair of module and level when it first speaks: a few dozen in all, which live as long as the process.

use riprap_env::LogLevel;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use tracing::callsite::{self, Callsite, Identifier};
use tracing::field::{FieldSet, Value};
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, dispatcher};

/// The fields of every event, in this order.
const FIELDS: &[&str] = &["message", "node"];

/// Says what a node logs to whichever subscriber the thread has.
pub(super) struct NodeLog {
    node: String,
    sources: BTreeMap<(&'static str, LogLevel), &'static Source>,
}

/// What `tracing` knows of the lines of one module and level.
struct Source(OnceLock<Metadata<'static>>);

impl Callsite for Source {
    /// Not kept: lines are rare, and the subscriber is asked for each.
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.0.get().expect("filled in before anybody is told of it")
    }
}

impl Source {
    fn new(module: &'static str, level: LogLevel) -> &'static Source {
        let source: &'static Source = Box::leak(Box::new(Source(OnceLock::new())));
        let level = match level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        };
        let fields = FieldSet::new(FIELDS, Identifier(source));
        source.0.get_or_init(|| {
            Metadata::new("line", module, level, None, None, Some(module), fields, Kind::EVENT)
        });
        callsite::register(source);
        source
    }
}

impl NodeLog {
    pub(super) fn new(node: String) -> NodeLog {
        NodeLog { node, sources: BTreeMap::new() }
    }

    pub(super) fn line(&mut self, level: LogLevel, module: &'static str, line: fmt::Arguments<'_>) {
        let source = *self.sources.entry((module, level)).or_insert_with(|| Source::new(module, level));
        let metadata = source.0.get().expect("filled in when it was made");
        dispatcher::get_default(|subscriber| {
            if subscriber.enabled(metadata) {
                let mut names = metadata.fields().iter();
                let mut name = || names.next().expect("as many as `FIELDS`");
                let fields = [
                    (&name(), Some(&line as &dyn Value)),
                    (&name(), Some(&self.node.as_str() as &dyn Value)),
                ];
                subscriber.event(&Event::new(metadata, &metadata.fields().value_set(&fields)));
            }
        });
    }
}
