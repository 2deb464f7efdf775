//! Segments: the records in them, their headers, the appenders that write to them, and the
//! allocator.

pub(crate) mod allocator;
pub(crate) mod appender;
pub(crate) mod header;
pub(crate) mod record;
pub(crate) mod stream;
pub(crate) mod used;
