//! The table of options.
//!
//! Each row names an option, its letter or `-o` word, its values, and its effect. Everything else
//! derives from the rows: the command line in memcached's grammar, the `LARDER_*` variables, the
//! TOML file, the string map of the bindings, `-h`, `--print-config` and docs/options.md.
//!
//! | room | what it owns |
//! |---|---|
//! | `table` | the rows, and the kinds of values |
//! | `source` | the command line, the environment, the file; the values given, and the invocation |
//! | `typed` | the options in effect, checked against each other |
//! | `show` | help, `--print-config`, `stats settings`, docs/options.md |
//!
//! Only `source/process.rs` reads the arguments, the environment and the files of the process.
#![forbid(unsafe_code)]

mod error;
mod identity;
mod show;
mod source;
mod table;
mod typed;

pub use error::OptionError;
pub use identity::{LARDER_BUILD, LARDER_COMMIT, LARDER_VERSION, LARDERD_BUILD};
pub use show::configured::{Configured, configured};
pub use show::described::{DescribedOption, described};
pub use show::docs;
pub use show::sample::sample;
pub use show::settings::settings;
pub use source::invocation::{Invocation, Sources};
pub use source::process::from_process;
pub use typed::admin::{AdminAddress, AdminListen, Role};
pub use typed::disk_tier::{DiskTier, Durability, TierAdmission, TierMode};
pub use typed::listen::{Listen, Security};
pub use typed::options::{Accepted, AnswersAs, Io, ListenAt, Options, Protocol};
pub use typed::readers::LocalReaders;
pub use typed::slabs::Slabs;
pub use typed::tls::{ClientCertificates, KeyFormat, Tls};
pub use typed::tuning::Tuning;
