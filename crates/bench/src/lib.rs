//! Micro-benchmarks of the cache beside others: `benches/engine.rs`, run by
//! `cargo bench -p larder-bench`. The library itself is empty, so that the other caches are built for
//! benchmarks only.
#![forbid(unsafe_code)]
