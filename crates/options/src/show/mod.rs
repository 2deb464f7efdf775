//! The user's view of options: help, man page, `--print-config`, a package's configuration file,
//! `stats settings` and docs/options.md.

pub(crate) mod config;
pub(crate) mod configured;
pub(crate) mod described;
pub mod docs;
pub(crate) mod help;
#[cfg(test)]
mod named_defaults;
pub(crate) mod sample;
pub(crate) mod settings;
