//! The user's view of options: help, `--print-config`, `stats settings` and docs/options.md.

pub(crate) mod config;
pub mod docs;
pub(crate) mod help;
pub(crate) mod settings;
