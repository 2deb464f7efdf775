//! The `larderd` binary.
#![forbid(unsafe_code)]
fn main() {}
