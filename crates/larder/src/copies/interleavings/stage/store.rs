//! A store of copies that are versions. Each access is a step of the scene.

use shuttle::sync::atomic::AtomicU64;

use super::{KEYS, NAMES};
use crate::copies::sync::Ordering::SeqCst;
use crate::copies::{CopyStore, Fetched};

#[derive(Debug, Default)]
pub(crate) struct Versions([AtomicU64; KEYS]);

impl Versions {
    /// Returns the version of a copy, as a reader without a lock does.
    pub(crate) fn version(&self, key: usize) -> Option<u64> {
        Some(self.0[key].load(SeqCst)).filter(|version| *version > 0)
    }
}

impl CopyStore for Versions {
    fn put(&self, key: &[u8], copy: &Fetched, _until_ms: Option<u64>) -> bool {
        self.0[number(key)].store(copy.cas, SeqCst);
        true
    }

    fn remove(&self, key: &[u8]) {
        self.0[number(key)].store(0, SeqCst);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.version(number(key)).is_some()
    }

    fn clear(&self) {
        self.0.iter().for_each(|version| version.store(0, SeqCst));
    }
}

fn number(key: &[u8]) -> usize {
    NAMES.iter().position(|name| *name == key).unwrap()
}
