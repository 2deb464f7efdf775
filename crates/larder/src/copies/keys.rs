//! The keys of a bucket, in one piece of memory.

/// The keys that a bucket has copies of. Most buckets have one.
///
/// Each entry is the length of the key, a byte that is 1 if the key is absent at the origin, and
/// the key.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(Box<[u8]>);

impl Keys {
    /// The maximal length of a key.
    pub(super) const KEY_BYTES_MAX: usize = u8::MAX as usize;

    /// Returns the keys, and whether they are absent.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (&[bytes, absent], after) = rest.split_first_chunk()?;
            let (key, after) = after.split_at_checked(bytes.into())?;
            rest = after;
            Some((key, absent == 1))
        })
    }

    /// Adds a key that is not in the list and not too long.
    pub(super) fn add(&mut self, key: &[u8], is_absent: bool) {
        let Ok(bytes) = u8::try_from(key.len()) else { return };
        self.0 = [&self.0, &[bytes, u8::from(is_absent)][..], key].concat().into();
    }

    /// Removes a key. Returns whether it was absent; `None` if it was not in the list.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<bool> {
        let (mut at, mut found) = (0, None);
        for (listed, is_absent) in self.iter() {
            if listed == key {
                found = Some(is_absent);
                break;
            }
            at += HEAD_BYTES + listed.len();
        }
        let is_absent = found?;
        let end = at + HEAD_BYTES + key.len();
        self.0 = [self.0.get(..at)?, self.0.get(end..)?].concat().into();
        Some(is_absent)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the bytes that the entry of a key uses, with an estimate of the memory around it: the
/// bucket's place in a table that is half empty on average, and the allocator's own bytes.
pub(super) fn entry_bytes(key: &[u8]) -> usize {
    HEAD_BYTES + key.len() + AROUND_BYTES
}

/// The length of an entry without its key.
const HEAD_BYTES: usize = 2;

/// The memory around an entry.
const AROUND_BYTES: usize = 54;
