//! Micro-benchmarks of the cache beside others.
#![forbid(unsafe_code)]
