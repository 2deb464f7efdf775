//! Measurements of the cache. Each is a bench in `benches/` and a target of the Makefile: `engine`
//! compares the library with other in-process caches, `dialects` measures a session, `local`
//! measures reads in a server's memory, `capacity` and `traces` compare larderd with memcached,
//! `quotas` simulates quotas by prefix, `compressed` simulates compressed values, `tier` measures
//! the disk tier, `soak` and `ttl` are long runs. `rocksdb/` contains a server in C for comparison
//! with the disk tier. docs/benchmarks.md describes the output of each.
//!
//! The library contains the parts that benches share. It has no dependencies, so that the other
//! caches are built only for benchmarks.
#![forbid(unsafe_code)]

pub mod binary;
pub mod draw;
pub mod resident;
pub mod versions;

pub use binary::binary;
pub use draw::{Draws, mix};
pub use resident::resident_bytes;
pub use versions::package;

/// True if cargo bench, which adds `--bench`, started this bench. Otherwise, for example with
/// `cargo test --benches`, the bench only tests that it works.
pub fn is_measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// True if the command line names this part of a bench, or names no part. Example: `cargo bench
/// --bench engine -- sharing`.
pub fn is_asked_for(part: &str) -> bool {
    let mut named =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|name| name == part)
}

/// Returns the number in an environment variable, or `usual` if the variable is not set. The
/// variable makes a measurement shorter or longer.
///
/// # Panics
/// The variable is not a number.
pub fn setting(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => panic!("{variable} is {text:?}: set it to a number, or unset it"),
        },
        Err(_) => usual,
    }
}
