//! Keys of typed caches, and their bytes in the cache.

use std::sync::Arc;

use larder_item::{KEY_BYTES_MAX, KeyError, check_key};

/// A type whose values are keys of a [`TypedCache`](crate::TypedCache).
///
/// Different keys must append different bytes. If one type can be borrowed as another, such as
/// `String` as `str`, both append the same bytes.
///
/// Text and bytes are appended unchanged, and numbers as decimal text, like in the typed caches of
/// other languages. The parts of a tuple are separated by colons, so that
/// [`Cache::remove_prefix`](crate::Cache::remove_prefix) can remove the keys with the same first
/// parts. In a tuple, a backslash precedes colons and backslashes of text.
///
/// ```
/// use larder::{Key, KeyBuf};
///
/// struct PageKey {
///     site: String,
///     page: u32,
/// }
///
/// impl Key for PageKey {
///     fn append_to(&self, key: &mut KeyBuf) {
///         (self.site.as_str(), self.page).append_to(key);
///     }
/// }
///
/// let mut key = KeyBuf::new("page:");
/// PageKey { site: "example".to_owned(), page: 7 }.append_to(&mut key);
/// assert_eq!(key.bytes()?, b"page:example:7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a `TypedCache`",
    note = "implement `larder::Key` for it, for example by appending a tuple of its fields"
)]
pub trait Key {
    /// Appends the bytes of the key.
    fn append_to(&self, key: &mut KeyBuf);
}

/// The bytes of a key, in a buffer of fixed size.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    bytes: [u8; KEY_BYTES_MAX],
    /// The length of the whole key, of which `bytes` holds the beginning.
    length: usize,
    is_tuple: bool,
}

impl KeyBuf {
    /// Returns a key that begins with a prefix.
    pub fn new(prefix: impl AsRef<[u8]>) -> Self {
        let mut key = Self { bytes: [0; KEY_BYTES_MAX], length: 0, is_tuple: false };
        key.push(prefix.as_ref());
        key
    }

    /// Appends text or bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if !self.is_tuple {
            return self.push(bytes);
        }
        for byte in bytes {
            if matches!(byte, b':' | b'\\') {
                self.push(b"\\");
            }
            self.push(&[*byte]);
        }
    }

    /// Returns the bytes of the key.
    ///
    /// # Errors
    /// [`KeyError`] if the key is empty or too long.
    pub fn bytes(&self) -> Result<&[u8], KeyError> {
        let bytes = self.bytes.get(..self.length).ok_or(KeyError::TooLong(self.length))?;
        check_key(bytes).map(|()| bytes)
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.length.saturating_add(bytes.len());
        if let Some(free) = self.bytes.get_mut(self.length..end) {
            free.copy_from_slice(bytes);
        }
        self.length = end;
    }

    /// Appends a part of a tuple. A tuple in a tuple appends its parts.
    fn push_part(&mut self, part: &impl Key, is_first: bool) {
        if !is_first {
            self.push(b":");
        }
        let was_tuple = std::mem::replace(&mut self.is_tuple, true);
        part.append_to(self);
        self.is_tuple = was_tuple;
    }
}

macro_rules! keys_of_bytes {
    ($($kind:ty),*) => {$(
        impl Key for $kind {
            fn append_to(&self, key: &mut KeyBuf) {
                let bytes: &[u8] = (**self).as_ref();
                key.push_bytes(bytes);
            }
        }
    )*};
}

keys_of_bytes!(String, Vec<u8>, Box<str>, Box<[u8]>, Arc<str>, Arc<[u8]>);

impl Key for str {
    fn append_to(&self, key: &mut KeyBuf) {
        key.push_bytes(self.as_bytes());
    }
}

impl Key for [u8] {
    fn append_to(&self, key: &mut KeyBuf) {
        key.push_bytes(self);
    }
}

impl<const N: usize> Key for [u8; N] {
    fn append_to(&self, key: &mut KeyBuf) {
        key.push_bytes(self);
    }
}

impl<K: Key + ?Sized> Key for &K {
    fn append_to(&self, key: &mut KeyBuf) {
        (**self).append_to(key);
    }
}

macro_rules! keys_of_numbers {
    ($($kind:ty),*) => {$(
        impl Key for $kind {
            fn append_to(&self, key: &mut KeyBuf) {
                key.push(itoa::Buffer::new().format(*self).as_bytes());
            }
        }
    )*};
}

keys_of_numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

macro_rules! keys_of_tuples {
    ($($first:ident $($other:ident)*;)*) => {$(
        impl<$first: Key, $($other: Key),*> Key for ($first, $($other,)*) {
            #[allow(non_snake_case, reason = "the parts have the names of their types")]
            fn append_to(&self, key: &mut KeyBuf) {
                let ($first, $($other,)*) = self;
                key.push_part($first, true);
                $(key.push_part($other, false);)*
            }
        }
    )*};
}

keys_of_tuples! {
    A B;
    A B C;
    A B C D;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: impl Key) -> String {
        let mut buffer = KeyBuf::new("");
        key.append_to(&mut buffer);
        String::from_utf8(buffer.bytes().expect("the key is invalid").to_vec()).expect("not UTF-8")
    }

    #[test]
    fn keys_have_the_bytes_that_the_documentation_promises() {
        assert_eq!(text("a:b\\c"), "a:b\\c");
        assert_eq!(text([b'k'; 3]), "kkk");
        assert_eq!((text(u64::MAX), text(-7_i8)), (u64::MAX.to_string(), "-7".to_owned()));
        assert_eq!(text(("acme", 7_u32)), "acme:7");
        assert_eq!(text(("a:b", "c\\d", 1_u8, -1_i64)), "a\\:b:c\\\\d:1:-1");
        assert_eq!(text((("a", 1_u8), "b:")), "a:1:b\\:");
    }

    #[test]
    fn different_tuples_have_different_keys() {
        let parts = ["", ":", "\\", "a", "a:", ":a", "\\:", "\\\\"];
        let mut seen = std::collections::HashSet::new();
        for first in parts {
            for second in parts {
                for third in parts {
                    assert!(
                        seen.insert(text(((first, second), third))),
                        "{first} {second} {third}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_key_is_refused_if_it_is_empty_or_too_long() {
        let bytes = |prefix: &str, text: &str| {
            let mut key = KeyBuf::new(prefix);
            text.append_to(&mut key);
            key.bytes().map(<[u8]>::len)
        };
        assert_eq!(bytes("", ""), Err(KeyError::Empty));
        assert_eq!(bytes("p", ""), Ok(1));
        assert_eq!(bytes("p", &"k".repeat(KEY_BYTES_MAX - 1)), Ok(KEY_BYTES_MAX));
        assert_eq!(bytes("p", &"k".repeat(KEY_BYTES_MAX)), Err(KeyError::TooLong(251)));
        assert_eq!(bytes(&"p".repeat(300), "k"), Err(KeyError::TooLong(301)));
    }
}
