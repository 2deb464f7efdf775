//! The index: a hash table whose groups of 15 slots name records. It grows by splitting groups.

pub(crate) mod chain;
pub(crate) mod cursor;
pub(crate) mod find;
pub(crate) mod ghost;
pub(crate) mod group;
pub(crate) mod grow;
pub(crate) mod hash;
pub(crate) mod item;
pub(crate) mod life;
pub(crate) mod prefetch;
pub(crate) mod removal;
pub(crate) mod unlink;
