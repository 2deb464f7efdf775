//! Codecs: values of a type as bytes. [`Plain`] is the codec of bytes, text and numbers.

use std::any::type_name;
use std::error::Error;
use std::sync::Arc;

use crate::api::load::Format;
use crate::api::signed::tag;

/// The reason why a codec failed, as text or as the error of another crate.
pub type CodecCause = Box<dyn Error + Send + Sync>;

/// Encodes and decodes the values of a [`TypedCache`](crate::TypedCache). Threads and tasks call a
/// codec at the same time.
///
/// Each item stores the [`Format`] of its value. An item in a format that the codec does not accept
/// counts as absent, so a codec decodes only bytes that were stored in its format. Change the
/// format's version when the encoding changes.
///
/// ```
/// use larder::{Cache, Codec, CodecCause, Format, TypedCache};
/// use larder::signed::tag;
/// use serde::{Serialize, de::DeserializeOwned};
///
/// /// JSON, which the bindings for other languages read as well.
/// struct Json;
///
/// impl<V: Serialize + DeserializeOwned> Codec<V> for Json {
///     fn format(&self) -> Format {
///         Format::of_tag(tag::JSON)
///     }
///
///     fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecCause> {
///         Ok(serde_json::to_writer(out, value)?)
///     }
///
///     fn decode(&self, bytes: &[u8]) -> Result<V, CodecCause> {
///         Ok(serde_json::from_slice(bytes)?)
///     }
/// }
///
/// let prices: TypedCache<str, Vec<f64>, Json> = TypedCache::with_codec(Cache::builder().open()?, Json);
/// prices.insert("apples", vec![1.5, 2.5])?;
/// assert_eq!(prices.get("apples")?, Some(vec![1.5, 2.5]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the codec `{Self}` does not encode values of type `{V}`",
    note = "`Plain` encodes bytes, text and numbers; for other types call `TypedCache::with_codec` \
            with `Postcard` (feature `serde`) or with a codec of the program"
)]
pub trait Codec<V> {
    /// Returns the format of the encoded values. [`TypedCache`](crate::TypedCache) calls it once.
    fn format(&self) -> Format;

    /// Appends the encoded value to `out`, which is empty.
    ///
    /// # Errors
    /// If the value cannot be encoded.
    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<(), CodecCause>;

    /// Decodes a value.
    ///
    /// # Errors
    /// If the bytes do not encode a value.
    fn decode(&self, bytes: &[u8]) -> Result<V, CodecCause>;

    /// Returns the name of the codec in error messages: by default the name of its type.
    fn name(&self) -> &'static str {
        type_name::<Self>()
    }
}

/// The codec of bytes, text, numbers and `bool`, in the formats that the bindings for Python, Node
/// and PHP use for these types. Numbers are decimal text, so
/// [`Cache::increment`](crate::Cache::increment) can change them. Other languages do not read
/// integers that need more than 63 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

macro_rules! plain_bytes {
    ($($kind:ty),*) => {$(
        impl Codec<$kind> for Plain {
            fn format(&self) -> Format {
                Format::of_tag(tag::STRING)
            }

            fn encode(&self, value: &$kind, out: &mut Vec<u8>) -> Result<(), CodecCause> {
                out.extend_from_slice(value);
                Ok(())
            }

            fn decode(&self, bytes: &[u8]) -> Result<$kind, CodecCause> {
                Ok(bytes.into())
            }
        }
    )*};
}

plain_bytes!(Vec<u8>, Box<[u8]>, Arc<[u8]>);

macro_rules! plain_text {
    ($($kind:ty),*) => {$(
        impl Codec<$kind> for Plain {
            fn format(&self) -> Format {
                Format::of_tag(tag::TEXT).also_reads(tag::STRING)
            }

            fn encode(&self, value: &$kind, out: &mut Vec<u8>) -> Result<(), CodecCause> {
                out.extend_from_slice(value.as_bytes());
                Ok(())
            }

            fn decode(&self, bytes: &[u8]) -> Result<$kind, CodecCause> {
                Ok(str::from_utf8(bytes)?.into())
            }
        }
    )*};
}

plain_text!(String, Box<str>, Arc<str>);

macro_rules! plain_numbers {
    ($($kind:ty),*; $tag:expr, $append:expr) => {$(
        impl Codec<$kind> for Plain {
            fn format(&self) -> Format {
                Format::of_tag($tag).also_reads(tag::STRING)
            }

            fn encode(&self, value: &$kind, out: &mut Vec<u8>) -> Result<(), CodecCause> {
                $append(*value, out);
                Ok(())
            }

            fn decode(&self, bytes: &[u8]) -> Result<$kind, CodecCause> {
                // A decrement leaves spaces after a number that becomes shorter.
                Ok(str::from_utf8(bytes)?.trim_end_matches(' ').parse()?)
            }
        }
    )*};
}

fn append_integer(integer: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
}

fn append_float(float: impl std::fmt::Debug, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{float:?}").as_bytes());
}

plain_numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize; tag::LONG, append_integer);
plain_numbers!(f32, f64; tag::DOUBLE, append_float);

impl Codec<bool> for Plain {
    fn format(&self) -> Format {
        Format::of_tag(tag::BOOL)
    }

    fn encode(&self, value: &bool, out: &mut Vec<u8>) -> Result<(), CodecCause> {
        out.push(if *value { b'1' } else { b'0' });
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<bool, CodecCause> {
        match bytes {
            b"1" => Ok(true),
            b"0" | b"" => Ok(false),
            _ => Err("expected `1`, `0` or no bytes".into()),
        }
    }
}
