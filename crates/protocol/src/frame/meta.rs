//! How to respond to a meta command.

use larder_item::KEY_BYTES_MAX;

use crate::base64;
use crate::response::Response;

/// How to respond to a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The key as the peer wrote it.
    pub key: &'a [u8],
    /// True if the key is in base64.
    pub base64: bool,
    /// The flags after the key, or after the length of a value.
    pub flags: &'a [u8],
    /// The length of a store's value in bytes; `None` for other commands.
    pub value_bytes: Option<usize>,
    /// True if the peer does not want a response to the expected outcome (`q`).
    pub quiet: bool,
}

impl<'a> Frame<'a> {
    /// True if the peer does not want this response. A quiet get hides a miss. Other quiet commands
    /// hide success, except for a counter that was created.
    pub fn hides(&self, response: &Response) -> bool {
        let expected = match response {
            Response::Miss | Response::Stored(_) | Response::Deleted => true,
            Response::Number(counted) => !counted.created,
            _ => false,
        };
        self.quiet && expected
    }

    /// Returns the key, decoded into `decoded` if it is in base64.
    pub fn decoded_key<'k>(&self, decoded: &'k mut [u8; KEY_BYTES_MAX]) -> Option<&'k [u8]>
    where
        'a: 'k,
    {
        if self.base64 { base64::decode(self.key, decoded) } else { Some(self.key) }
    }

    /// Returns a copy that owns its bytes.
    pub fn keep(&self) -> OwnedMetaFrame {
        let Self { key, base64, flags, value_bytes, quiet } = *self;
        let bytes = [key, flags].concat().into();
        OwnedMetaFrame { bytes, key_bytes: key.len(), base64, value_bytes, quiet }
    }
}

/// A [`Frame`] that owns its bytes.
#[derive(Clone, Debug)]
pub struct OwnedMetaFrame {
    /// The key, then the flags.
    bytes: Box<[u8]>,
    key_bytes: usize,
    base64: bool,
    value_bytes: Option<usize>,
    quiet: bool,
}

impl OwnedMetaFrame {
    /// Returns the frame.
    pub fn frame(&self) -> Frame<'_> {
        let Self { ref bytes, key_bytes, base64, value_bytes, quiet } = *self;
        let (key, flags) = bytes.split_at(key_bytes.min(bytes.len()));
        Frame { key, base64, flags, value_bytes, quiet }
    }
}
