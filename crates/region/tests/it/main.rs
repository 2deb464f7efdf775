//! The integration tests of a region, in one program: each file is a module. The tests fork and
//! open files with locks, and must tolerate each other: a lock is released late if another test
//! forks.
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod locks;
mod shared;
