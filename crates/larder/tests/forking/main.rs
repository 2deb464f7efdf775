//! Tests that fork, in one program. A child inherits the files and the memory of the tests in other
//! threads, which these tests must tolerate.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod damaged;
mod forked_workers;
mod forks;
mod leases;
mod loads;
mod shared;
mod tasks;
mod tier_library;
