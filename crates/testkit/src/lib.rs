//! What tests share: the model of a cache, a server under test, wire transcripts.
#![forbid(unsafe_code)]

pub mod model;
