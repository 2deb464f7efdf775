//! The caches of the tenants, and the mechanisms that bound one of them.

use std::time::Duration;

use anyhow::Result;
use larder::{Cache, Clock, Epoch, StoreError};
use larder_loadgen::trace::Operation;

use crate::ledger::{Ledger, Work};
use crate::scenario::{Key, Tenant, TenantRequest};

/// How the flooder is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    None,
    Scan { quota_bytes: u64 },
    Stream { quota_bytes: u64 },
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no quota",
            Self::Scan { .. } => "scan",
            Self::Stream { .. } => "stream",
        }
    }

    pub(crate) fn quota_bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Scan { quota_bytes } | Self::Stream { quota_bytes } => Some(quota_bytes),
        }
    }
}

/// The caches of the tenants.
pub(crate) struct Tenants {
    /// The cache of the others, or of both.
    shared: Cache,
    /// The cache of the flooder, with [`Mechanism::Stream`].
    own: Option<Cache>,
    ledger: Option<Ledger>,
    second: Option<u32>,
    value: Vec<u8>,
}

impl Tenants {
    /// # Errors
    /// A cache cannot be opened.
    pub(crate) fn open(memory_bytes: u64, mechanism: Mechanism) -> Result<Self> {
        let open = |bytes: u64| {
            let builder = Cache::builder().memory_bytes(bytes).item_bytes_max(bytes / 2);
            builder.cas(false).clock(Clock::Ticked).open()
        };
        let (shared, own) = match mechanism {
            Mechanism::Stream { quota_bytes } => {
                (open(memory_bytes - quota_bytes)?, Some(open(quota_bytes)?))
            }
            _ => (open(memory_bytes)?, None),
        };
        let ledger = match mechanism {
            Mechanism::Scan { quota_bytes } => Some(Ledger::new(&shared, quota_bytes)),
            _ => None,
        };
        Ok(Self { shared, own, ledger, second: None, value: Vec::new() })
    }

    /// Plays a request. Returns true for a hit, `None` if the request is only a set.
    ///
    /// # Errors
    /// The cache fails.
    pub(crate) fn play(&mut self, asked: &TenantRequest<'_>) -> Result<Option<bool>> {
        self.reach(asked.second);
        let is_look_aside = asked.request.operation == Operation::LookAside;
        if is_look_aside && self.get(asked.tenant, &asked.key) {
            return Ok(Some(true));
        }
        self.set(asked)?;
        Ok(is_look_aside.then_some(false))
    }

    fn reach(&mut self, second: u32) {
        if self.second.replace(second) != Some(second) {
            for cache in [Some(&self.shared), self.own.as_ref()].into_iter().flatten() {
                cache.tick(Epoch::FIRST_SECOND.saturating_add(second));
                cache.maintain();
            }
        }
    }

    fn cache(&self, tenant: Tenant) -> &Cache {
        match (&self.own, tenant) {
            (Some(own), Tenant::Flooder) => own,
            _ => &self.shared,
        }
    }

    fn get(&mut self, tenant: Tenant, key: &Key) -> bool {
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        let is_hit = self.cache(tenant).get_into(key, &mut value).is_some();
        self.value = value;
        if is_hit && let Some(ledger) = &mut self.ledger {
            ledger.note_read(key);
        }
        is_hit
    }

    fn set(&mut self, asked: &TenantRequest<'_>) -> Result<()> {
        let TenantRequest { tenant, key, request, .. } = asked;
        let value_bytes = (request.item_bytes as usize).saturating_sub(key.len());
        let ttl = (request.ttl_secs > 0).then(|| Duration::from_secs(request.ttl_secs.into()));
        self.value.clear();
        self.value.resize(value_bytes, b'v');
        match self.cache(*tenant).set(key, &self.value, ttl) {
            // The item is larger than the cache accepts.
            Err(StoreError::TooLarge | StoreError::NoMemory) => return Ok(()),
            stored => stored?,
        }
        if let Some(ledger) = &mut self.ledger {
            let bytes = (key.len() + value_bytes) as u64 + RECORD_BYTES;
            ledger.note_store(&self.shared, *key, bytes)?;
        }
        Ok(())
    }

    /// Returns the work of the hand.
    pub(crate) fn work(&self) -> Work {
        self.ledger.as_ref().map_or_else(Work::default, |ledger| ledger.work)
    }

    /// Returns all caches.
    pub(crate) fn caches(&self) -> impl Iterator<Item = &Cache> {
        [Some(&self.shared), self.own.as_ref()].into_iter().flatten()
    }
}

/// The bytes of an item in addition to its key and value, about.
const RECORD_BYTES: u64 = 24;
