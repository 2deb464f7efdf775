//! The meta protocol: commands of the text protocol whose names have two letters, such as
//! `mg key v T60`. The words after the key are *flags*: a letter, and for some letters a *token*
//! directly after it, here `60`. A flag may ask for information; the response repeats such flags,
//! with the information, in the order of the request. The flag `O` is an *opaque*: its token is
//! only repeated, so that a client can find out which request a response belongs to.
//!
//! Source: memcached's doc/protocol.txt, "Meta Commands". Files in reading order: [`flags`],
//! `parse`, [`render`], [`client`].

pub mod client;
pub mod flags;
pub(crate) mod parse;
pub mod render;

pub use crate::frame::meta::{Frame, OwnedMetaFrame};
