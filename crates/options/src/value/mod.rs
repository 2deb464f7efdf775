//! The values of single options: their forms and their meaning.

pub(crate) mod admin;
pub(crate) mod cluster;
pub(crate) mod durability;
pub(crate) mod duration;
pub(crate) mod file_size;
pub(crate) mod forms;
pub(crate) mod listen;
pub(crate) mod origin;
pub(crate) mod prefixes;
pub(crate) mod protocol;
pub(crate) mod readers;
