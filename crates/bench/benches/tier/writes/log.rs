//! A store of the disk tier in a real directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use larder_tier::disk::platform::RealDirectory;
use larder_tier::format::{Item, Mode, Uuid};
use larder_tier::store::{Change, Durability, Durable, KeyRecords, Refusal, Settings, Store};
use larder_tier::{Entropy, RequestedTier, Tier};

use super::target::{Put, Target, VALUE_BYTES, Written, key_text};

/// The second at which a store begins, as a Unix time.
const BEGIN: u64 = 1_790_000_000;
/// The measurement fails if the store accepts no change for this time.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Log {
    store: Store<RealDirectory>,
    now_unix_secs: Arc<AtomicU64>,
    changes: u64,
    value: [u8; VALUE_BYTES],
}

impl Log {
    pub(super) fn create(path: &Path, bytes: u64) -> Result<Self> {
        let entropy = Entropy { uuid: Uuid([1; 16]), index_seed: 1, hash_key: [1; 16] };
        let wanted = RequestedTier { mode: Mode::Store, bytes };
        let tier = Tier::open(RealDirectory::open(path)?, wanted, entropy, BEGIN)?;
        let now_unix_secs = Arc::new(AtomicU64::new(BEGIN));
        let clock = Arc::clone(&now_unix_secs);
        let settings = Settings {
            durability: Durability::Async,
            dirty_bytes_max: 64 << 20,
            catalog_bytes_max: 1 << 30,
            clock: Arc::new(move || clock.load(Relaxed)),
            wall: Arc::new(|| BEGIN),
            before_change: Arc::new(|| ()),
            accept_loss: None,
            compression: None,
        };
        let (store, _) = Store::start(tier, settings, &mut |_, _| {})?;
        Ok(Self { store, now_unix_secs, changes: 0, value: [b'v'; VALUE_BYTES] })
    }

    /// Repeats a change until the store accepts it.
    fn repeat(
        &self,
        key: &[u8],
        is_resident: bool,
        change: impl Fn(&Change<'_>, &KeyRecords) -> Result<(), Refusal>,
    ) -> Result<()> {
        let of = Change {
            now_unix_secs: self.now_unix_secs.load(Relaxed),
            is_resident,
            is_gone: &|| false,
        };
        let mut known = KeyRecords::default();
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.store.wait_for_room(deadline)?;
            match change(&of, &known) {
                Ok(()) => return Ok(()),
                Err(Refusal::NeedsDisk) => known = self.store.find(key)?.0,
                // A full store has space again when reclaim has found expired items.
                Err(refusal @ (Refusal::Busy | Refusal::Full)) => {
                    self.store.wait_for_progress(deadline).map_err(|_| refusal)?;
                }
                Err(refusal) => bail!(refusal),
            }
        }
    }
}

impl Target for Log {
    fn put(&mut self, put: Put) -> Result<()> {
        self.changes += 1;
        let key = key_text(put.key);
        let now_unix_secs = self.now_unix_secs.load(Relaxed);
        let item = Item {
            key: key.as_bytes(),
            value: &self.value,
            flags: 0,
            version: self.changes,
            deadline_unix_secs: put.ttl_secs.map(|secs| now_unix_secs + u64::from(secs)),
            stale: false,
            token_sent: false,
            number: false,
        };
        self.repeat(item.key, !put.is_new, |change, known| self.store.put(&item, change, known))
    }

    fn remove(&mut self, key: u64) -> Result<()> {
        let key = key_text(key);
        let key = key.as_bytes();
        self.repeat(key, true, |change, known| self.store.remove(key, change, known))
    }

    fn pass_second(&mut self) -> Result<()> {
        self.now_unix_secs.fetch_add(1, Relaxed);
        Ok(())
    }

    fn written(&mut self) -> Result<Written> {
        ensure!(
            self.store.sync() == Durable::Yes,
            "the log has failed: {:?}",
            self.store.failure()
        );
        let statistics = self.store.statistics();
        Ok(Written { bytes: statistics.written_bytes, zeroed_bytes: statistics.zeroed_bytes })
    }
}
