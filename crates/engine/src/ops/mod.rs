//! The operations: one file for each operation of the public interface, and the publication of
//! records, which all stores share.

pub(crate) mod arithmetic;
pub(crate) mod basis;
pub(crate) mod condition;
pub(crate) mod journaled;
pub(crate) mod large;
pub(crate) mod listen;
pub(crate) mod load;
pub(crate) mod look;
pub(crate) mod publish;
pub(crate) mod read;
pub(crate) mod remove_prefix;
pub(crate) mod request;
pub(crate) mod store;
pub(crate) mod update_meta;
pub(crate) mod update_value;
