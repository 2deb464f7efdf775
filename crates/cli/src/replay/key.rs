//! The keys of a replay.

use larder_loadgen::mix::mix;

/// The cache key for an id of a trace. The ids are dense and in order of appearance; the hash
/// removes this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    hash: u64,
    text: [u8; Self::BYTES],
}

impl Key {
    /// The length of each key, in bytes.
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn of(id: u32) -> Self {
        let hash = mix(u64::from(id));
        let digit = |place: usize| b"0123456789abcdef"[(hash >> (60 - 4 * place) & 15) as usize];
        Self { hash, text: std::array::from_fn(digit) }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the number of the thread, out of `count`, that plays this key.
    pub(crate) fn thread(&self, count: u32) -> u32 {
        ((self.hash & u64::from(u32::MAX)) % u64::from(count)) as u32
    }

    /// Returns the number of the connection, out of a thread's `count`, that serves this key.
    pub(crate) fn connection(&self, count: usize) -> usize {
        ((self.hash >> 32) % count as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_hash_of_its_id_in_hex() {
        assert_eq!(Key::of(0).text(), b"e220a8397b1dcdaf");
        assert_eq!(Key::of(7).text(), format!("{:016x}", mix(7)).as_bytes());
    }
}
