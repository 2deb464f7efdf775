//! Iteration over the keys of a cache.

use larder::Keys;
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

/// The keys of the records about failed loads begin with these bytes. They are not items of the
/// program.
const INTERNAL: &[u8] = b"larder.failed.";

/// A walk over keys.
#[napi]
pub struct Walk(Keys);

impl Walk {
    pub(crate) fn new(keys: Keys) -> Self {
        Self(keys)
    }
}

#[napi]
impl Walk {
    /// Returns up to `count` more keys, and an empty array at the end. A key that is not text in
    /// UTF-8 is a Buffer.
    #[napi]
    pub fn next(&mut self, count: u32) -> Vec<Either<String, Buffer>> {
        let keys = self.0.by_ref().filter(|key| !key.starts_with(INTERNAL));
        let key = |bytes| match String::from_utf8(bytes) {
            Ok(text) => Either::A(text),
            Err(error) => Either::B(error.into_bytes().into()),
        };
        keys.take(count as usize).map(key).collect()
    }
}
