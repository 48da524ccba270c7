//! The program from outside, as a user, a script or a CI system meets it: exit codes, the one line that says why, what
//! is printed where, what is left on disk, and that nothing is left running.
//!
//! Live runs need a kernel that grants a sandbox, as `riprap test` itself does; they take turns. Root runs them as itself
//! and as nobody.

mod arguments;
mod broken;
mod compare;
mod external;
mod histories;
mod hosts;
mod runs;
mod simulated;
mod support;
