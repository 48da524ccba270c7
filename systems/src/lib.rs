//! Systems under test, one folder each, and their registry.
