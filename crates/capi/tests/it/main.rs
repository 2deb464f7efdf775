//! The integration tests of the library for C, in one program: each file is a module.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod api;
mod c;
mod header;
