//! The sources of options: the command line, the environment and a TOML file.

pub(crate) mod command_line;
pub(crate) mod environment;
pub(crate) mod file;
pub(crate) mod getopt;
pub(crate) mod invocation;
pub(crate) mod process;
