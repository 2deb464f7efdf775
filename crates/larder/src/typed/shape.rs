//! The *shape* of a type: the names of its structs, fields and variants, and the kinds of its
//! values.
//!
//! A type's `Deserialize` requests what it needs from a `Deserializer`, and the one in this file
//! hashes the requests. It answers them with small values, so that the type continues. Some types
//! refuse them; then the rest of the struct stays unknown. Equal requests have equal hashes, so the
//! hash is the same in every process.
//!
//! An enum requests one variant at a time. The type is therefore deserialized repeatedly, until
//! each enum has had each of its variants. Types that contain themselves end at a depth.

use serde::Deserializer;
use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};

use crate::api::load::hash;

/// The largest number of rounds: enough for an enum with as many variants.
const ROUNDS_MAX: usize = 256;

/// The largest number of requests in a round.
const REQUESTS_MAX: u32 = 1000;

/// From this depth on, options and collections are empty.
const FILLED_DEPTH_MAX: u32 = 8;

/// The depth at which a round ends.
const DEPTH_MAX: u32 = 24;

/// Continues a hash with the shape of a type.
pub(super) fn hash_of<V: DeserializeOwned>(start: u64) -> u64 {
    let mut walk = Walk { hash: start, enums: Vec::new(), requests_left: 0 };
    for _ in 0..ROUNDS_MAX {
        walk.requests_left = REQUESTS_MAX;
        // A type that refuses a value has requested everything before it.
        let _ = V::deserialize(Probe { walk: &mut walk, depth: 0 });
        if walk.enums.iter().all(|known| known.chosen >= known.variants.len()) {
            break;
        }
    }
    walk.hash
}

struct Walk {
    hash: u64,
    enums: Vec<KnownEnum>,
    requests_left: u32,
}

/// An enum, and the number of its variants that were chosen.
struct KnownEnum {
    name: &'static str,
    variants: &'static [&'static str],
    chosen: usize,
}

impl Walk {
    /// Returns the index of the next variant of an enum.
    fn choose(&mut self, name: &'static str, variants: &'static [&'static str]) -> usize {
        let is_known = |known: &&mut KnownEnum| known.name == name && known.variants == variants;
        if let Some(known) = self.enums.iter_mut().find(is_known) {
            known.chosen += 1;
            return (known.chosen - 1) % variants.len().max(1);
        }
        self.enums.push(KnownEnum { name, variants, chosen: 1 });
        0
    }
}

/// A deserializer of one value.
struct Probe<'w> {
    walk: &'w mut Walk,
    depth: u32,
}

impl Probe<'_> {
    /// Hashes a request.
    fn note(&mut self, kind: &str, names: &[&str]) -> Result<(), Error> {
        self.walk.hash = hash(self.walk.hash, kind.as_bytes());
        for name in names {
            self.walk.hash = hash(self.walk.hash, name.as_bytes());
        }
        self.walk.requests_left = self.walk.requests_left.saturating_sub(1);
        if self.walk.requests_left == 0 || self.depth >= DEPTH_MAX {
            return Err(Error::custom("the type is too large or contains itself"));
        }
        Ok(())
    }

    fn is_filled(&self) -> bool {
        self.depth < FILLED_DEPTH_MAX
    }
}

impl<'w> Probe<'w> {
    fn parts(self, left: usize) -> Parts<'w> {
        Parts { walk: self.walk, depth: self.depth + 1, left }
    }
}

macro_rules! leaves {
    ($($method:ident $visit:ident $value:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            self.note(stringify!($method), &[])?;
            visitor.$visit($value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    // 1 and `a` are valid for more types than 0 and the empty text.
    leaves! {
        deserialize_bool visit_bool false;
        deserialize_i8 visit_i8 1;
        deserialize_i16 visit_i16 1;
        deserialize_i32 visit_i32 1;
        deserialize_i64 visit_i64 1;
        deserialize_i128 visit_i128 1;
        deserialize_u8 visit_u8 1;
        deserialize_u16 visit_u16 1;
        deserialize_u32 visit_u32 1;
        deserialize_u64 visit_u64 1;
        deserialize_u128 visit_u128 1;
        deserialize_f32 visit_f32 1.0;
        deserialize_f64 visit_f64 1.0;
        deserialize_char visit_char 'a';
        deserialize_str visit_borrowed_str "a";
        deserialize_string visit_borrowed_str "a";
        deserialize_bytes visit_borrowed_bytes &[0; 16];
        deserialize_byte_buf visit_borrowed_bytes &[0; 16];
        deserialize_identifier visit_u64 0;
    }

    fn deserialize_any<V: Visitor<'de>>(mut self, _: V) -> Result<V::Value, Error> {
        self.note("any", &[])?;
        Err(Error::custom("the encoding does not describe its types"))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("option", &[])?;
        if !self.is_filled() {
            return visitor.visit_none();
        }
        visitor.visit_some(Probe { walk: self.walk, depth: self.depth + 1 })
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("unit", &[])?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("unit struct", &[name])?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("newtype struct", &[name])?;
        visitor.visit_newtype_struct(Probe { walk: self.walk, depth: self.depth + 1 })
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("seq", &[])?;
        let length = usize::from(self.is_filled());
        visitor.visit_seq(self.parts(length))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        mut self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("tuple", &[&length.to_string()])?;
        visitor.visit_seq(self.parts(length))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("tuple struct", &[name, &length.to_string()])?;
        visitor.visit_seq(self.parts(length))
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.note("map", &[])?;
        let length = usize::from(self.is_filled());
        visitor.visit_map(self.parts(length))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("struct", &[name])?;
        self.note("fields", fields)?;
        visitor.visit_seq(self.parts(fields.len()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("enum", &[name])?;
        let chosen = self.walk.choose(name, variants);
        self.note("variants", variants)?;
        self.note("variant", &[&chosen.to_string()])?;
        visitor.visit_enum(Chosen { probe: self, index: chosen })
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The parts of a tuple, a struct or a collection.
struct Parts<'w> {
    walk: &'w mut Walk,
    depth: u32,
    left: usize,
}

impl Parts<'_> {
    fn next<'de, T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Probe { walk: self.walk, depth: self.depth })
    }

    fn is_over(&mut self) -> bool {
        let is_over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_over
    }
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.is_over() { Ok(None) } else { self.next(seed).map(Some) }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if self.is_over() { Ok(None) } else { self.next(seed).map(Some) }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        self.next(seed)
    }
}

/// A chosen variant of an enum.
struct Chosen<'w> {
    probe: Probe<'w>,
    index: usize,
}

impl<'de, 'w> EnumAccess<'de> for Chosen<'w> {
    type Error = Error;
    type Variant = Probe<'w>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Probe<'w>), Error> {
        let index = self.index as u64;
        Ok((seed.deserialize(IntoDeserializer::<Error>::into_deserializer(index))?, self.probe))
    }
}

impl<'de> VariantAccess<'de> for Probe<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Probe { walk: self.walk, depth: self.depth + 1 })
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note("fields", fields)?;
        visitor.visit_seq(self.parts(fields.len()))
    }
}

#[cfg(test)]
mod tests;
