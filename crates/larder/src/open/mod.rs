//! Opening a cache: in private memory, in memory that forked children share, or in a file.

pub(crate) mod builder;
pub(crate) mod inspect;
pub(crate) mod share;
