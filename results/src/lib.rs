//! The store, the report, plots and progress.
