//! Shared parts of tests:
//!
//! - A [model] of a cache, which predicts the results of operations.
//! - A [server under test](server), and [connections](stream) to it.
//! - A [`scene::Scene`], in which one well-behaved client runs while others misbehave.
//! - [Transcripts](transcript): text files with the requests of clients and the responses of a
//!   server, which are played on several servers.
//! - The [scenes](api) of conformance/api, lists of operations that every binding must pass. They
//!   are unrelated to [`scene`].
//!
//! - A [judge of histories](history): whether near caches kept their promises.
//! - A [`proxy::Proxy`] that delays, cuts and damages connections.
//!
//! Files in reading order: [`model`], [`server`], [`stream`], [`http`], [`mod@stat`],
//! [`scene`], [`transcript`], [`mcrouter`], [`mod@traces`], [`fixture`], [`api`],
//! [`mod@skip`], [`mod@process`], [`cgroup`], [`proxy`], [`history`].
#![deny(unsafe_code)]

pub mod api;
pub mod cgroup;
pub mod fixture;
pub mod history;
pub mod http;
pub mod mcrouter;
pub mod model;
pub mod process;
pub mod proxy;
pub mod random;
pub mod scene;
pub mod server;
pub mod skip;
pub mod stat;
pub mod stream;
pub mod traces;
pub mod transcript;

pub use cgroup::MemoryGroup;
pub use fixture::{cache_file, memory_folder, value_of};
pub use process::built::larderd_of_this_build;
pub use process::children;
pub use process::stopwatch::Stopwatch;
pub use process::waiting::waited_for_processor;
pub use proxy::Proxy;
pub use random::Random;
pub use scene::Scene;
pub use server::{Address, ServerUnderTest, Subject, Transport};
pub use skip::skip;
pub use stat::{stat, stat_rows};
pub use stream::{Stream, uninterrupted};
pub use traces::traces;
