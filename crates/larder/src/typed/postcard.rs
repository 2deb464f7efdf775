//! [`Postcard`], the codec of types with serde's traits.

use serde::{Serialize, de::DeserializeOwned};

use super::codec::{Codec, CodecCause};
use super::shape;
use crate::api::load::Format;
use crate::api::load::{HASH_START, hash};

/// The codec of types that implement serde's `Serialize` and `DeserializeOwned`, with the feature
/// `serde`. The encoding is that of the crate `postcard`: compact, and without names of fields, so
/// that only a program with the same type can read it.
///
/// The format contains a hash of the *shape* of the type: the names of structs, fields and
/// variants, and the kinds of their values, as the type's `Deserialize` requests them. After a
/// change of the type its stored values therefore count as absent, and are not decoded as something
/// else. A value whose `Deserialize` accepts only some texts or numbers, such as a date as text,
/// hides the kinds of the values after it in the same struct. If such a change, or a change of the
/// meaning of a field, makes stored values wrong, raise [`Postcard::version`].
///
/// ```
/// use larder::{Cache, Postcard, TypedCache};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct User {
///     name: String,
///     visits: u32,
/// }
///
/// let cache = Cache::builder().open()?;
/// let users: TypedCache<u64, User, Postcard> = TypedCache::with_codec(cache, Postcard::new());
/// let ada = User { name: "Ada".to_owned(), visits: 1 };
/// users.insert(&7, &ada)?;
/// assert_eq!(users.get(&7)?, Some(ada));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Postcard {
    version: u32,
}

impl Postcard {
    /// Returns the codec with version 0.
    pub const fn new() -> Self {
        Self { version: 0 }
    }

    /// Sets the version of the values. Values of other versions count as absent.
    #[must_use]
    pub const fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }
}

impl<V: Serialize + DeserializeOwned> Codec<V> for Postcard {
    /// Cost: about a microsecond, to find the shape of the type; more for enums with many variants.
    fn format(&self) -> Format {
        let named = hash(HASH_START, b"postcard 1");
        Format::of_hash(shape::hash_of::<V>(hash(named, &self.version.to_le_bytes())))
    }

    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecCause> {
        *out = postcard::to_extend(value, std::mem::take(out))?;
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecCause> {
        let (value, rest) = postcard::take_from_bytes(bytes)?;
        if !rest.is_empty() {
            return Err(format!("{} bytes are left after the value", rest.len()).into());
        }
        Ok(value)
    }

    fn name(&self) -> &'static str {
        "Postcard"
    }
}
