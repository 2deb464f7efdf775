//! The options in effect, checked against each other.

pub(crate) mod admin;
pub(crate) mod check;
pub(crate) mod disk_tier;
pub(crate) mod listen;
pub(crate) mod options;
pub(crate) mod paths;
pub(crate) mod readers;
pub(crate) mod slabs;
pub(crate) mod tls;
pub(crate) mod tuning;
