//! The meta protocol: lines of the text protocol whose names have two letters, with flags of one
//! letter each, some with a token behind it. Answers repeat the flags that ask for something, in
//! the order of the request.
//!
//! Source: memcached's doc/protocol.txt, "Meta Commands". Files in reading order: [`flags`],
//! [`base64`], `parse`, [`render`], [`client`].

pub mod base64;
pub mod client;
pub mod flags;
pub(crate) mod parse;
pub mod render;

use larder_item::KEY_BYTES_MAX;

use crate::Response;

/// How a meta command is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The key as the peer wrote it.
    pub key: &'a [u8],
    /// Is that base64?
    pub base64: bool,
    /// The flags behind the key, and behind the length of a value.
    pub flags: &'a [u8],
    /// The length of a store's value; `None` for other commands.
    pub value_bytes: Option<usize>,
    /// The peer does not want to hear the outcome that it expects (`q`).
    pub quiet: bool,
}

impl<'a> Frame<'a> {
    /// Is the peer not told of this outcome? A quiet get is not told of a miss; the others are not
    /// told of success, unless it is a counter that was created.
    pub fn hides(&self, response: &Response) -> bool {
        let expected = match response {
            Response::Miss | Response::Stored(_) | Response::Deleted => true,
            Response::Number(counted) => !counted.created,
            _ => false,
        };
        self.quiet && expected
    }

    /// The key that the peer means, of which `decoded` holds the bytes if it was written in base64.
    pub fn decoded_key<'k>(&self, decoded: &'k mut [u8; KEY_BYTES_MAX]) -> Option<&'k [u8]>
    where
        'a: 'k,
    {
        if self.base64 { base64::decode(self.key, decoded) } else { Some(self.key) }
    }

    /// The frame with bytes of its own.
    pub fn keep(&self) -> Kept {
        let Self { key, base64, flags, value_bytes, quiet } = *self;
        let bytes = [key, flags].concat().into();
        Kept { bytes, key_bytes: key.len(), base64, value_bytes, quiet }
    }
}

/// A [`Frame`] with bytes of its own.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The key, then the flags.
    bytes: Box<[u8]>,
    key_bytes: usize,
    base64: bool,
    value_bytes: Option<usize>,
    quiet: bool,
}

impl Kept {
    /// The frame.
    pub fn frame(&self) -> Frame<'_> {
        let Self { ref bytes, key_bytes, base64, value_bytes, quiet } = *self;
        let (key, flags) = bytes.split_at(key_bytes.min(bytes.len()));
        Frame { key, base64, flags, value_bytes, quiet }
    }
}
