//! What every check needs to know of a history, gathered once.

use riprap_core::History;

/// A history and what was gathered from it.
pub(crate) struct Index<'h> {
    pub(crate) history: &'h History,
}

impl<'h> Index<'h> {
    pub(crate) fn new(history: &'h History) -> Index<'h> {
        Index { history }
    }
}
