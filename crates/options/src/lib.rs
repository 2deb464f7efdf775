//! The options of larderd and of the library, as a table.
//!
//! Each row describes an option: its name, its letter or its word after `-o`, its values, and its
//! effect. Everything else is derived from the rows: the command line in memcached's grammar, the
//! `LARDER_*` variables, the TOML file, the string map of the bindings, `-h`, `--print-config` and
//! docs/options.md. A *string map* contains options by name, with texts as values: see
//! [`Options::from_map`].
//!
//! The modules from the top down. Each module imports only modules below it:
//!
//! | module | contents |
//! |---|---|
//! | `source` | the command line, the environment, the file, and the invocation |
//! | `show` | help, `--print-config`, `stats settings`, docs/options.md |
//! | `typed` | the options in effect, as types of Rust, checked against each other |
//! | `given` | the values that the user gave, with their sources |
//! | `table` | the rows, and the kinds of values |
//! | `value` | the values of single options |
//! | `error`, `identity` | an option that cannot be accepted; the version of the build |
//!
//! Only `source/process.rs` reads the arguments, the environment and the files of the process.
#![forbid(unsafe_code)]

mod error;
mod given;
mod identity;
mod show;
mod source;
mod table;
mod typed;
mod value;

pub use error::OptionError;
pub use identity::{LARDER_BUILD, LARDER_COMMIT, LARDER_VERSION, LARDERD_BUILD};
pub use show::configured::{ConfiguredOption, configured};
pub use show::described::{DescribedOption, described};
pub use show::docs;
pub use show::sample::sample;
pub use show::settings::settings;
pub use source::invocation::{Invocation, Sources};
pub use source::process::from_process;
pub use typed::addresses::{ListenAt, UnixListenAt};
pub use typed::discovery::Discovery;
pub use typed::disk_tier::{DiskTier, TierAdmission, TierMode};
pub use typed::log::{LogFormat, LogOptions, LogTime};
pub use typed::memory::{
    BUFFER_BYTES_DEFAULT, MemoryBound, MemoryShare, fixed_bytes as fixed_memory_bytes,
};
pub use typed::near::Near;
pub use typed::options::{AnswersAs, IgnoredOptions, Io, Options};
pub use typed::prefixes::Prefixes;
pub use typed::restore::Restore;
pub use typed::slabs::Slabs;
pub use typed::tls::{ClientCertificates, KeyFormat, Tls};
pub use typed::tuning::Tuning;
pub use value::admin::{AdminAddress, AdminListen, Role};
pub use value::cluster::ClusterName;
pub use value::durability::Durability;
pub use value::listen::{Listen, ListenPlace, Security};
pub use value::origin::{Origin, OriginAddress};
pub use value::protocol::Protocol;
pub use value::readers::LocalReaders;
