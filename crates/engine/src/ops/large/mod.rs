//! Large values: pieces in many segments, and one record that names them.
//!
//! ```text
//! record of the item   │ header, fields, key │ value bytes u64 │ slot of piece 0 │ slot of piece 1 │ …
//! record of a piece    │ header │ hash of the key u64 │ part of the value │
//! ```
//!
//! A writer writes the pieces as they arrive and the record last: before its publication no reader
//! sees anything. A piece gets all its room and its header before its first byte; then the writer
//! releases the appender, because the peer may be slow. The bytes are written in place, each part
//! under a pin of the segment, which may have been emptied and reused since the last part. When a
//! segment with one of the pieces is emptied, the whole item goes.

pub(crate) mod extend;
pub(crate) mod long_part;
pub(crate) mod piece;
pub(crate) mod pinned;
pub(crate) mod upload;
pub(crate) mod value;
