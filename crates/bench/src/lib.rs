//! Measurements of the cache. Each is a bench in `benches/` and a verb of the Makefile: `engine`
//! measures the library beside other caches of a process, `dialects` a session, `local` reads in a
//! server's memory, `capacity` and `traces` larderd beside memcached, `tier` the disk tier, `soak`
//! and `ttl` long runs. `rocksdb/` has a server in C that the disk tier is compared with.
//! docs/benchmarks.md describes the output of each.
//!
//! The library holds the parts that benches share. It depends on nothing, so that the other caches
//! are built for benchmarks only.
#![forbid(unsafe_code)]

pub mod binary;
pub mod draw;
pub mod resident;
pub mod versions;

pub use binary::binary;
pub use draw::{Draws, mix};
pub use resident::resident_bytes;
pub use versions::package;

/// True if cargo bench, which adds `--bench`, started this bench. Otherwise, under `cargo test
/// --benches` for example, the bench only has to show that it works.
pub fn is_measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// True if the command line names this part of a bench, or none: `cargo bench --bench engine --
/// sharing`.
pub fn is_asked_for(part: &str) -> bool {
    let mut named =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|name| name == part)
}

/// Returns the number that an environment variable holds, or else `usual`. It makes a measurement
/// smaller or longer.
///
/// # Panics
/// The variable holds something else.
pub fn setting(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => panic!("{variable} is {text:?}: set it to a number, or not at all"),
        },
        Err(_) => usual,
    }
}
