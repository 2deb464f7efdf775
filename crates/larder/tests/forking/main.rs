//! Tests that fork, in one program: a child has all that the tests of other threads have open, and
//! these tests allow for it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod damaged;
mod forked_workers;
mod forks;
mod leases;
mod loads;
mod shared;
mod tier_library;
