//! The client's side of the text protocol: [`request`] writes requests, [`reply`] reads replies.
//! Like the rest of this crate it does no I/O.
//!
//! ```
//! use larder_protocol::text::client::{ParsedReply, Reply, read_reply, request};
//!
//! let mut out = Vec::new();
//! request::get(&mut out, &[b"first", b"second"], false, None)?;
//! assert_eq!(out, b"get first second\r\n");
//!
//! let received = b"VALUE first 0 5\r\nhello\r\nEND\r\n";
//! let ParsedReply::Reply { reply: Reply::Value(hit), consumed } = read_reply(received) else {
//!     panic!("a hit comes first");
//! };
//! assert_eq!((hit.key, hit.value), (&b"first"[..], &b"hello"[..]));
//! assert_eq!(read_reply(&received[consumed..]), ParsedReply::Reply { reply: Reply::End, consumed: 5 });
//! # Ok::<(), larder_protocol::text::client::UnsendableKey>(())
//! ```

mod admin;
pub mod reply;
pub mod request;

pub use crate::lines::key::UnsendableKey;
pub use reply::{Hit, ParsedReply, Reply, read_reply};
