//! Measurements of the cache, each a bench of its own in `benches/` and a verb of the Makefile:
//! `engine` beside other caches of a process, `dialects` of what a session costs, `local` of what it costs to read in a server's memory, `capacity` and `traces` beside memcached, `soak` and `ttl` of
//! what only time shows. docs/benchmarks.md says what each prints.
//!
//! The library holds what they share. It depends on nothing, so that the other caches are built for
//! benchmarks only.
#![forbid(unsafe_code)]

pub mod binary;
pub mod draw;
pub mod resident;
pub mod waiting;

pub use binary::binary;
pub use draw::{Draws, mix};
pub use resident::resident_bytes;
pub use waiting::waited_for_processor;

/// Was this bench started by cargo bench, which adds `--bench`? Otherwise, by `cargo test --benches` for
/// one, it only has to show that it works.
pub fn is_measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Is this part of a bench asked for? All are where none is named: `cargo bench --bench engine -- sharing`.
pub fn is_asked_for(part: &str) -> bool {
    let mut named =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|name| name == part)
}
