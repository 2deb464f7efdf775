//! The attributes of an item, in the form for C.

use larder::{Cache, Hit, Meta};

use crate::Status;

/// Bits of `larder_item.marks`.
pub mod mark {
    /// The value is stale: a client marked it as out of date. A caller may use it until a new one
    /// arrives.
    pub const LARDER_STALE: u32 = 1;
    /// A client holds the recache token and will store the new value.
    pub const LARDER_RECACHE_TOKEN: u32 = 2;
    /// The item has been read before.
    pub const LARDER_FETCHED: u32 = 4;
    /// The item was read directly in the memory of the server.
    pub const LARDER_LOCAL: u32 = 8;
    /// The time of the store is approximate, because the item was read since.
    pub const LARDER_STORED_ABOUT: u32 = 16;
}

/// Tags: the low four bits of `larder_item.flags` are the type of the value, for programs in
/// several languages that share a cache or a server. The numbers up to 7 are the same as in
/// php-memcached. The library itself interprets only `LARDER_TAG_LONG`. Callers choose the meaning
/// of the other 28 bits: php-memcached uses bits 4 to 7 for compressed values, and leaves the high
/// 16 bits to programs.
pub mod tag {
    /// The bits that contain the tag.
    pub const LARDER_TAG_MASK: u32 = 15;
    /// A string of bytes.
    pub const LARDER_TAG_STRING: u32 = 0;
    /// A signed integer of 64 bits, as decimal text.
    pub const LARDER_TAG_LONG: u32 = 1;
    /// A floating-point number, as decimal text.
    pub const LARDER_TAG_DOUBLE: u32 = 2;
    /// `1` for true; `0` or no bytes for false.
    pub const LARDER_TAG_BOOL: u32 = 3;
    /// PHP's serialization.
    pub const LARDER_TAG_PHP: u32 = 4;
    /// igbinary.
    pub const LARDER_TAG_IGBINARY: u32 = 5;
    /// JSON, as UTF-8.
    pub const LARDER_TAG_JSON: u32 = 6;
    /// MessagePack.
    pub const LARDER_TAG_MSGPACK: u32 = 7;
    /// No value; no bytes.
    pub const LARDER_TAG_NULL: u32 = 8;
    /// An array in the compact encoding of `php/`.
    pub const LARDER_TAG_ARRAY: u32 = 9;
    /// Text, as UTF-8. Languages whose strings are bytes read it as a string.
    pub const LARDER_TAG_TEXT: u32 = 11;
    /// Python's pickle.
    pub const LARDER_TAG_PICKLE: u32 = 12;
    /// Python's pickle after an HMAC-SHA256 of 32 bytes.
    pub const LARDER_TAG_SIGNED_PICKLE: u32 = 13;
    /// A value in the format of one program, such as a type of Rust, which the other 28 bits
    /// identify.
    pub const LARDER_TAG_PROGRAM: u32 = 14;
}

/// The attributes of an item.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Length of the value, in bytes.
    pub value_bytes: u64,
    /// Offset of the value in the buffer of `larder_get_many`, in bytes.
    pub value_at: u64,
    /// The cas token; 0 if the cache does not use cas tokens.
    pub cas: u64,
    /// The caller's flags, as stored with the value.
    pub flags: u32,
    /// Remaining time to live in seconds, at least 1; 0 if the item does not expire.
    pub ttl_secs: u32,
    /// Bits: `LARDER_STALE`, `LARDER_RECACHE_TOKEN`, `LARDER_FETCHED`, `LARDER_LOCAL`.
    pub marks: u32,
    /// The outcome for this key.
    pub status: Status,
}

impl Item {
    /// The result of a read for a key without an item.
    pub(crate) const MISSING: Self = Self {
        value_bytes: 0,
        value_at: 0,
        cas: 0,
        flags: 0,
        ttl_secs: 0,
        marks: 0,
        status: Status::Missing,
    };

    /// Returns the attributes of an item in memory.
    #[inline(always)] // The compiler then builds it in the memory of the caller.
    pub(crate) fn of(cache: &Cache, meta: &Meta) -> Self {
        let marks = [
            (meta.stale, mark::LARDER_STALE),
            (meta.token_sent, mark::LARDER_RECACHE_TOKEN),
            (meta.fetched, mark::LARDER_FETCHED),
        ];
        let left = || meta.deadline.0.saturating_sub(cache.now()).max(1);
        Self {
            value_bytes: meta.value_bytes as u64,
            value_at: 0,
            cas: meta.cas,
            flags: meta.flags,
            ttl_secs: if meta.deadline.0 == 0 { 0 } else { left() },
            marks: marks.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
            status: Status::Ok,
        }
    }

    /// Returns the attributes of an item on a server.
    pub(crate) fn of_hit(value_bytes: usize, hit: &Hit) -> Self {
        let marks = [
            (hit.stale, mark::LARDER_STALE),
            (hit.has_token, mark::LARDER_RECACHE_TOKEN),
            (hit.is_local, mark::LARDER_LOCAL),
        ];
        Self {
            value_bytes: value_bytes as u64,
            value_at: 0,
            cas: hit.cas,
            flags: hit.flags,
            ttl_secs: hit.ttl_secs.map_or(0, |secs| secs.max(1)),
            marks: marks.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
            status: Status::Ok,
        }
    }

    /// Returns this item with its value at `value_at` of a shared buffer, or with
    /// [`Status::TooSmall`] if the value does not fit into `left` bytes.
    pub(crate) fn at(self, value_at: usize, left: usize) -> Self {
        match self.status {
            Status::Ok if self.value_bytes > left as u64 => {
                Self { status: Status::TooSmall, ..self }
            }
            _ => Self { value_at: value_at as u64, ..self },
        }
    }
}
