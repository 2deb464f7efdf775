//! Reports of reads that the server has not seen: of local readers in its memory, and of near
//! caches in their copies.

use std::task::Poll;

use larder::{PromotionPolicy, Read, ReadOptions, Wait};
use larder_item::KEY_BYTES_MAX;
use larder_protocol::local;
use larder_stats::{ClassCounter, Counter};

use super::Executor;
use crate::near::Near;
use crate::observe::classes::ItemSize;
use crate::observe::prefix_stats::Access;
use crate::observe::readers::READS_PER_HINT;

impl Executor {
    /// Records hints of a local reader: keys that it has read in the cache's memory without a
    /// request. A reader reports only some of its reads, so each hint counts as several, for
    /// eviction and for the statistics.
    pub(crate) fn note_reads(&self, keys: &[u8], wait: Wait<'_>) {
        let (mut bytes, mut decoded, mut ends) = ([0; KEY_BYTES_MAX], Vec::new(), vec![0]);
        for word in local::keys(keys) {
            if let Some(key) = local::decode(word, &mut bytes) {
                decoded.extend_from_slice(key);
                ends.push(decoded.len());
            }
        }
        let keys = || ends.windows(2).map(|ends| &decoded[ends[0]..ends[1]]);
        // Prefetches all keys, so that their memory accesses overlap.
        self.prefetch(keys());
        let (mut out, noted) = (Vec::new(), ReadOptions { noted: true, value: false });
        for key in keys() {
            let read =
                self.cache.raw(wait).read(key, noted, PromotionPolicy::Always, &mut out, |_, _| ());
            // A read is pending if the item was evicted in the meantime. A hint does not justify a
            // disk read.
            if let Poll::Ready(Read::Hit(meta)) = read {
                let reads = u64::from(READS_PER_HINT);
                if let Some(near) = self.near() {
                    near.hint(key);
                }
                for counter in [Counter::CmdGet, Counter::GetHits, Counter::LocalReads] {
                    self.counters.add(counter, reads);
                }
                for _ in 0..reads {
                    self.count_class(ItemSize::new(key.len(), &meta), ClassCounter::GetHits);
                    if self.sampler.is_due() {
                        self.sample(Some(key), key.len() + meta.value_bytes, Access::Hit);
                    }
                }
            }
        }
    }

    /// Reports one in [`COPY_READS_PER_HINT`] reads that copies have answered to the origin, so
    /// that it does not evict the items. Chooses them at random: of clients that read keys in a
    /// cycle, every sixteenth read may always be of the same keys.
    #[inline]
    pub(crate) fn note_copy_read(&self, near: &Near, key: &[u8]) {
        match self.copy_reads_skipped.get() {
            0 => {
                near.hint(key);
                self.copy_reads_skipped.set(fastrand::u32(0..2 * COPY_READS_PER_HINT - 1));
            }
            left => self.copy_reads_skipped.set(left - 1),
        }
    }

    /// Marks items as read that a near cache has read in its copies. They count in no statistics.
    pub(crate) fn note_copied(&self, keys: &[u8], wait: Wait<'_>) {
        let (mut bytes, mut out) = ([0; KEY_BYTES_MAX], Vec::new());
        let noted = ReadOptions { noted: true, value: false };
        for word in local::keys(keys) {
            if let Some(key) = local::decode(word, &mut bytes) {
                let raw = self.cache.raw(wait);
                // A hint does not justify a disk read, so a pending read is dropped.
                let _ = raw.read(key, noted, PromotionPolicy::Always, &mut out, |_, _| ());
            }
        }
    }
}

/// How many reads of copies a near cache reports as one.
const COPY_READS_PER_HINT: u32 = 16;
