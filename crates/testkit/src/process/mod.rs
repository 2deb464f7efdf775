//! Processes of tests: programs that cargo has built, child processes, and processor time.

pub mod built;
pub mod children;
pub mod stopwatch;
pub mod waiting;
