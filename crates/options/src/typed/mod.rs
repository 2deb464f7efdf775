//! The options in effect, checked against each other.

pub(crate) mod addresses;
pub(crate) mod check;
pub(crate) mod discovery;
pub(crate) mod disk_tier;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod near;
pub(crate) mod options;
pub(crate) mod paths;
pub(crate) mod prefixes;
pub(crate) mod restore;
pub(crate) mod slabs;
pub(crate) mod tls;
pub(crate) mod tuning;
