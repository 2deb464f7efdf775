//! The client's side of the binary protocol: [`request`] writes requests, [`reply`] reads replies.
//! Like the rest of this crate it does no I/O.
//!
//! ```
//! use larder_protocol::binary::client::{Manner, ParsedReply, read_reply, request};
//! use larder_protocol::{Command, binary};
//!
//! let mut out = Vec::new();
//! let get = Command::Get { key: b"first", with_cas: true, exptime: None };
//! request::command(&mut out, &get, Manner { opaque: 7, ..Manner::default() })?;
//! assert_eq!(out.len(), binary::HEADER_BYTES + b"first".len());
//!
//! let mut received = vec![0x81, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 7];
//! received.extend_from_slice(&99_u64.to_be_bytes());
//! received.extend_from_slice(b"\0\0\0\x05hello");
//! let ParsedReply::Reply { reply, consumed } = read_reply(&received) else { panic!("a hit") };
//! assert_eq!((reply.opaque, reply.status, reply.cas), (7, binary::status::SUCCESS, 99));
//! assert_eq!((reply.flags(), reply.value), (Some(5), &b"hello"[..]));
//! assert_eq!(consumed, received.len());
//! # Ok::<(), request::Unsendable>(())
//! ```

pub mod reply;
pub mod request;

pub use reply::{ParsedReply, Reply, read_reply};
pub use request::{Manner, Unsendable};
