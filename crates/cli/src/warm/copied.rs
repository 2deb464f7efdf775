//! The keys that were copied from one source, by bucket.

/// The copied keys. A source reports changes by bucket, so that a change drops all keys of one.
#[derive(Debug)]
pub(super) struct CopiedKeys {
    /// For each bucket the number of its last entry plus 1, or 0.
    heads: Box<[u32]>,
    entries: Vec<Entry>,
    /// The bytes of the keys.
    bytes: Vec<u8>,
    /// The number of entries that are in a bucket.
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    /// The next entry of the bucket, as in `heads`.
    next: u32,
    key_bytes: u8,
}

/// No further key fits in the memory of the tool.
#[derive(Debug)]
pub(super) struct TooMany;

impl CopiedKeys {
    /// Creates an empty set for 2 to the power of `buckets_log2` buckets.
    pub(super) fn new(buckets_log2: u32) -> Self {
        let heads = vec![0; 1 << buckets_log2.min(HEADS_LOG2_MAX)].into();
        Self { heads, entries: Vec::new(), bytes: Vec::new(), count: 0 }
    }

    /// Adds a key of at most 250 bytes, which is not in the set.
    ///
    /// # Errors
    /// [`TooMany`]: the set has as many keys as it can have.
    pub(super) fn insert(&mut self, bucket: u32, key: &[u8]) -> Result<(), TooMany> {
        if self.entries.len() > 2 * self.count + GARBAGE_MIN {
            self.compact();
        }
        if self.entries.len() >= ENTRIES_MAX {
            return Err(TooMany);
        }
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(key);
        let head = &mut self.heads[bucket as usize % HEADS_MAX];
        self.entries.push(Entry { at, next: *head, key_bytes: key.len() as u8 });
        *head = self.entries.len() as u32;
        self.count += 1;
        Ok(())
    }

    pub(super) fn contains(&self, bucket: u32, key: &[u8]) -> bool {
        let mut next = self.heads[bucket as usize % HEADS_MAX];
        while let Some(entry) = self.entry(next) {
            if self.key(entry) == key {
                return true;
            }
            next = entry.next;
        }
        false
    }

    /// Removes the keys of a bucket, and passes each to `drop`.
    pub(super) fn take(&mut self, bucket: u32, mut drop: impl FnMut(&[u8])) {
        let mut next = std::mem::take(&mut self.heads[bucket as usize % HEADS_MAX]);
        while let Some(entry) = self.entry(next) {
            drop(self.key(entry));
            self.count -= 1;
            next = entry.next;
        }
    }

    /// Removes all keys, and passes each to `drop`.
    pub(super) fn take_all(&mut self, mut drop: impl FnMut(&[u8])) {
        for bucket in 0..self.heads.len() as u32 {
            self.take(bucket, &mut drop);
        }
        self.compact();
    }

    fn entry(&self, number: u32) -> Option<Entry> {
        self.entries.get((number as usize).checked_sub(1)?).copied()
    }

    fn key(&self, entry: Entry) -> &[u8] {
        &self.bytes[entry.at as usize..][..usize::from(entry.key_bytes)]
    }

    /// Frees the memory of removed keys.
    fn compact(&mut self) {
        let mut compact = Self {
            heads: vec![0; self.heads.len()].into(),
            entries: Vec::with_capacity(self.count),
            bytes: Vec::new(),
            count: self.count,
        };
        for (bucket, head) in self.heads.iter().enumerate() {
            let mut next = *head;
            while let Some(entry) = self.entry(next) {
                let at = compact.bytes.len() as u64;
                compact.bytes.extend_from_slice(self.key(entry));
                let head = &mut compact.heads[bucket];
                compact.entries.push(Entry { at, next: *head, ..entry });
                *head = compact.entries.len() as u32;
                next = entry.next;
            }
        }
        *self = compact;
    }
}

/// Servers have 2 to the power of 20 buckets. With more, several share a place.
const HEADS_LOG2_MAX: u32 = 20;
const HEADS_MAX: usize = 1 << HEADS_LOG2_MAX;

const GARBAGE_MIN: usize = 1 << 16;

/// More keys than a server with 200 GiB of small items moves.
const ENTRIES_MAX: usize = u32::MAX as usize - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(keys: &mut CopiedKeys, bucket: u32) -> Vec<String> {
        let mut taken = Vec::new();
        keys.take(bucket, |key| taken.push(String::from_utf8(key.to_vec()).unwrap()));
        taken.sort();
        taken
    }

    #[test]
    fn a_bucket_returns_its_keys_once() {
        let mut keys = CopiedKeys::new(20);
        for number in 0..6 {
            keys.insert(number % 2, format!("key {number}").as_bytes()).unwrap();
        }
        assert_eq!(taken(&mut keys, 0), ["key 0", "key 2", "key 4"]);
        assert!(taken(&mut keys, 0).is_empty());
        keys.insert(0, b"again").unwrap();
        assert_eq!(taken(&mut keys, 0), ["again"]);
        let mut rest = 0;
        keys.take_all(|_| rest += 1);
        assert_eq!((rest, keys.count, keys.bytes.len()), (3, 0, 0));
    }

    #[test]
    fn removed_keys_take_no_memory_for_long() {
        let mut keys = CopiedKeys::new(20);
        keys.insert(7, b"kept").unwrap();
        for _ in 0..10 * GARBAGE_MIN {
            keys.insert(1, b"a key that changes often").unwrap();
            keys.take(1, |_| {});
        }
        assert!(keys.entries.len() < 2 * GARBAGE_MIN, "{}", keys.entries.len());
        assert_eq!(taken(&mut keys, 7), ["kept"]);
    }
}
