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

mod check;
mod command_line;
mod config;
pub mod docs;
mod environment;
pub mod error;
mod file;
mod getopt;
mod help;
pub mod identity;
mod kind;
pub mod listen;
pub mod options;
mod process;
pub mod readers;
pub mod request;
mod row;
pub mod settings;
pub mod slabs;
mod table;
pub mod tls;
pub mod tuning;
mod values;

pub use error::OptionError;
pub use identity::{LARDER_BUILD, LARDER_COMMIT, LARDER_VERSION};
pub use listen::{Listen, Security};
pub use options::{Accepted, AnswersAs, Io, ListenAt, Options, Protocol};
pub use process::from_process;
pub use readers::LocalReaders;
pub use request::{Request, Sources};
pub use settings::settings;
pub use slabs::Slabs;
pub use tls::{ClientCertificates, Tls};
pub use tuning::Tuning;
