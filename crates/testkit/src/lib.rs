//! Shared parts of tests: a model of a cache, a server under test, wire transcripts.
//!
//! Files in reading order: [`model`], [`server`], [`stream`], [`http`], [`mod@stat`],
//! [`scene`], [`transcript`], [`mcrouter`], [`mod@traces`], [`fixture`], [`api`],
//! [`mod@skip`], [`mod@process`].
#![deny(unsafe_code)]

pub mod api;
pub mod fixture;
pub mod http;
pub mod mcrouter;
pub mod model;
pub mod process;
pub mod random;
pub mod scene;
pub mod server;
pub mod skip;
pub mod stat;
pub mod stream;
pub mod traces;
pub mod transcript;

pub use fixture::{cache_file, memory_folder, value_of};
pub use process::built::larderd_of_this_build;
pub use process::children;
pub use process::waiting::waited_for_processor;
pub use random::Random;
pub use scene::Scene;
pub use server::{Address, ServerUnderTest, Subject, Transport};
pub use skip::skip;
pub use stat::stat;
pub use stream::{Stream, uninterrupted};
pub use traces::traces;
