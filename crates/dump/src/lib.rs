//! The dump format: items in a file or a pipe, with their values, flags and absolute deadlines.
//!
//! A dump is a sequence of *blocks*: the bytes of the items, cut into payloads of at most 64 KiB,
//! each with a header and a checksum. [`Writer`] and [`Reader`] hold at most one block in memory,
//! regardless of the length of a value. The last block contains the number of items, so a reader
//! detects a dump that is damaged or cut off. An item can become *void*: the exporter has written
//! its header, but could not read the rest of its value. docs/dump-format.md is a diagram of the
//! bytes.
//!
//! The crate is independent of servers and caches, opens no file and reads no clock.
//!
//! ```
//! use larder_dump::{Entry, Piece, Reader, Writer};
//!
//! let mut writer = Writer::new(Vec::new(), 1_700_000_000)?;
//! let entry = Entry { key: b"greeting", flags: 7, deadline_unix_secs: None, value_bytes: 5 };
//! writer.item(&entry, b"hello")?;
//! let dump = writer.finish()?;
//!
//! let mut reader = Reader::new(&dump[..])?;
//! let entry = reader.next_entry()?.expect("an item");
//! assert_eq!((entry.key(), entry.flags, entry.value_bytes), (&b"greeting"[..], 7, 5));
//! assert_eq!(reader.next_piece()?, Piece::Bytes(b"hello"));
//! assert_eq!(reader.next_piece()?, Piece::End);
//! assert_eq!(reader.next_entry()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files in reading order: `format`, `writer`, `reader`, `error`.
#![forbid(unsafe_code)]

mod error;
mod format;
mod reader;
mod writer;

pub use error::{ReadError, WriteError};
pub use format::{BLOCK_BYTES_MAX, Entry, VALUE_BYTES_MAX, VERSION};
pub use reader::{Piece, ReadEntry, Reader};
pub use writer::Writer;
