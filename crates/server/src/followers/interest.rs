//! The table of interest: for each bucket of keys, the slots whose subscriptions may have a copy of
//! one of its items.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// A word for each bucket, with a bit for each slot.
pub(super) struct Interest {
    words: Box<[AtomicU64]>,
}

impl Interest {
    /// Creates the table without interest. It takes 8 bytes a bucket.
    pub(super) fn new(buckets_log2: u32) -> Self {
        Self { words: (0..1u64 << buckets_log2).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes the interest of a slot in a bucket.
    pub(super) fn note(&self, bucket: u32, slot: usize) {
        let (word, bit) = (&self.words[bucket as usize], 1 << slot);
        // A change that forgets a bit which is set here comes later, and reports the bucket.
        if word.load(SeqCst) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// Loads the interest in a bucket into the processor's cache. The processor continues while the
    /// word is on its way; the table is larger than most caches.
    #[inline]
    pub(super) fn load_early(&self, bucket: u32) {
        black_box(self.words[bucket as usize].load(Relaxed));
    }

    /// Forgets the interest in a bucket, and returns the slots that had it.
    #[inline]
    pub(super) fn take(&self, bucket: u32) -> u64 {
        let word = &self.words[bucket as usize];
        // The caller's fence precedes the load.
        if word.load(Relaxed) == 0 { 0 } else { word.swap(0, SeqCst) }
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interest").field("buckets", &self.words.len()).finish()
    }
}
