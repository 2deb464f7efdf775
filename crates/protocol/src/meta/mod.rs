//! The meta protocol: lines of the text protocol whose names have two letters, with one-letter
//! flags, some with a token. Responses repeat the flags that request information, in the order of
//! the request.
//!
//! Source: memcached's doc/protocol.txt, "Meta Commands". Files in reading order: [`flags`],
//! `parse`, [`render`], [`client`].

pub mod client;
pub mod flags;
pub(crate) mod parse;
pub mod render;

pub use crate::frame::meta::{Frame, OwnedMetaFrame};
