//! `larder`: the tool beside the cache.
#![forbid(unsafe_code)]
fn main() {}
