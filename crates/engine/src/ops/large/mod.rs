//! Large values: pieces in many segments, and one record that names them.
//!
//! ```text
//! record of the item   │ header, fields, key │ value bytes u64 │ slot of piece 0 │ slot of piece 1 │ …
//! record of a piece    │ header │ hash of the key u64 │ part of the value │
//! ```
//!
//! A writer writes the pieces as they arrive and the record last. No reader can find any of them
//! before the record is published. A piece has its header and all its space before its first byte
//! arrives. Then the writer releases the appender, because the client that sends the value may be
//! slow. Bytes are written to the piece as they arrive. Each time, the writer first pins the
//! segment, and checks that the segment was not emptied and reused since the last time. When a
//! segment with one of the pieces is emptied, the complete item is removed.

pub(crate) mod extend;
pub(crate) mod long_part;
pub(crate) mod piece;
pub(crate) mod pinned;
pub(crate) mod upload;
pub(crate) mod value;
