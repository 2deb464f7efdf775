//! Segments and the records in them: formats, accounts, appenders and the supply of free segments.

pub(crate) mod allocator;
pub(crate) mod appender;
pub(crate) mod header;
pub(crate) mod record;
pub(crate) mod stream;
pub(crate) mod used;
