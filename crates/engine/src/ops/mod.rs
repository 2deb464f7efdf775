//! The operations: one file for each operation of the public interface, and publication, which they
//! share.

pub(crate) mod arithmetic;
pub(crate) mod extend;
pub(crate) mod large;
pub(crate) mod listen;
pub(crate) mod load;
pub(crate) mod long_part;
pub(crate) mod look;
pub(crate) mod pinned;
pub(crate) mod publish;
pub(crate) mod read;
pub(crate) mod store;
pub(crate) mod update_meta;
pub(crate) mod update_value;
