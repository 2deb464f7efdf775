//! The memcached wire protocol: parses bytes into [`Command`]s and renders [`Response`]s into
//! bytes.
//!
//! ```text
//! bytes ─▶ Parser ─▶ Command + Frame ─▶ (execute) ─▶ Response + Frame ─▶ render ─▶ bytes
//! ```
//!
//! This crate does no I/O, does not depend on the cache, does not read a clock, and never allocates
//! memory by a length that a peer announced.
//!
//! memcached has three *dialects*: the classic text protocol, the meta protocol, whose commands are
//! also lines of text, and the binary protocol. All of them share [`Command`], the request of a
//! client, and [`Response`], its outcome. [`Frame`] describes the form in which the response must
//! be written: the dialect, and options of the request in this dialect, such as `noreply`.
//!
//! Other terms: The *peer* is the program at the other end of a connection. An *exptime* is the
//! number by which a request sets the time when an item expires: seconds from now or a Unix time. A
//! *cas token* is a number that changes with each store of an item, so that a client can store only
//! if no other client has stored it. A *recache token* is given to one client that should store an
//! item again.
//!
//! Files do not import each other in cycles: `text` passes meta commands to `meta`, which uses the
//! code that both share (`lines`) and the text of errors (`text::render`).
//!
//! Files in reading order: [`command`], [`admin`], [`permission`], [`frame`], [`response`],
//! [`parsed`], [`parser`], [`render`], then the dialects, [`text`], [`meta`] and [`binary`];
//! [`local`], [`follow`], [`cluster`], [`base64`], `lines`, `number`, [`version`], [`docs`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod admin;
pub mod base64;
pub mod binary;
pub mod cluster;
pub mod command;
pub mod docs;
pub mod follow;
pub mod frame;
mod lines;
pub mod local;
pub mod meta;
mod number;
pub mod parsed;
mod parsed_reply;
pub mod parser;
pub mod permission;
pub mod render;
pub mod response;
pub mod text;
pub mod version;

pub use admin::{Admin, Refusal, Topics, WarmEnd, WarmRefusal};
pub use command::{
    Arithmetic, Command, Copied, Delete, Fetch, Initial, KillTarget, NAME_BYTES_MAX, OwnedCommand,
    Remains, StatsSection, Store, Warm,
};
pub use frame::{Frame, OwnedFrame};
pub use parsed::{Bad, Parsed};
pub use parsed_reply::ParsedReply;
pub use parser::{Dialects, Parser, names_command};
pub use permission::{Denial, Permission, Right, Scope};
pub use response::{
    ClientError, Counted, Response, ServerError, Shown, Stored, TokenHolder, Touched,
};
pub use version::WIRE_VERSION;
