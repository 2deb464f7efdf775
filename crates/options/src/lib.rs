//! The one table of options.
//!
//! An option is a row of the table: its name, its letter or `-o` word, the values it takes and what
//! Larder does with it. Everything else is derived from the rows: the command line as memcached reads
//! it, `LARDER_*` variables, the TOML file, the string map of the bindings, `-h`, `--print-config`
//! and docs/options.md.
//!
//! Files in reading order:
//!
//! - what an option is: `row`, `kind`, [`listen`], `table`;
//! - what was given: `values`, [`error`];
//! - where it was given: `getopt` and `command_line`, `environment`, `file`;
//! - what comes of it: `check`, [`mod@options`] with [`tls`], [`slabs`], [`readers`] and
//!   [`tuning`], [`request`], and `process`, which alone touches the process;
//! - what is shown of it: `help`, `config`, [`mod@settings`], [`docs`].
#![forbid(unsafe_code)]

mod error;
mod identity;
mod show;
mod source;
mod table;
mod typed;

pub use error::OptionError;
pub use identity::{LARDER_BUILD, LARDER_COMMIT, LARDER_VERSION};
pub use show::docs;
pub use show::settings::settings;
pub use source::invocation::{Invocation, Sources};
pub use source::process::from_process;
pub use typed::listen::{Listen, Security};
pub use typed::options::{Accepted, AnswersAs, Io, ListenAt, Options, Protocol};
pub use typed::readers::LocalReaders;
pub use typed::slabs::Slabs;
pub use typed::tls::{ClientCertificates, KeyFormat, Tls};
pub use typed::tuning::Tuning;
