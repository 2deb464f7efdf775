//! Segments: the records in them, their headers, the appenders that write to them, and the
//! allocator.

pub(crate) mod allocator;
pub(crate) mod appender;
pub(crate) mod flush;
pub(crate) mod header;
pub(crate) mod record;
pub(crate) mod shortage;
pub(crate) mod slot;
pub(crate) mod stream;
pub(crate) mod suspect;
pub(crate) mod used;
