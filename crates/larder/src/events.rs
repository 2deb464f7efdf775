//! Rare events of a cache, which the feature `tracing` reports. No event is on the path of a hit or
//! of a store that succeeds.

use larder_engine::{CreateError, StoreError};

/// An event.
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only `tracing` reads the fields"))]
pub(crate) enum Event<'a> {
    /// A cache was opened. If it replaces the unusable content of a file, there is a reason.
    Opened { replaced: Option<&'a str>, memory_bytes: usize },
    /// A loader failed, or its value cannot be encoded. If it refreshed an old value, no caller
    /// receives the error.
    LoadFailed { key: &'a [u8], is_refresh: bool },
    /// A store failed.
    StoreRefused(StoreError),
    /// A forked child cannot use the cache of its parent.
    Lost(&'a CreateError),
    /// A typed cache found a value in another format, which counts as a miss.
    OtherFormat { key: &'a [u8], flags: u32 },
}

/// Does nothing without the feature `tracing`.
#[cfg(not(feature = "tracing"))]
#[inline(always)]
pub(crate) fn report(_: Event<'_>) {}

/// Reports an event to the subscriber of `tracing`. Events have the target `larder`.
#[cfg(feature = "tracing")]
#[cold]
pub(crate) fn report(event: Event<'_>) {
    use tracing::{debug, info, warn};
    match event {
        Event::Opened { replaced: Some(reason), memory_bytes } => {
            warn!(target: "larder", memory_bytes, reason, "an empty cache replaces an unusable file");
        }
        Event::Opened { replaced: None, memory_bytes } => {
            info!(target: "larder", memory_bytes, "the cache is open");
        }
        Event::LoadFailed { key, is_refresh: true } => {
            let key = key.escape_ascii();
            warn!(target: "larder", %key, "a refresh failed; callers receive the old value");
        }
        Event::LoadFailed { key, is_refresh: false } => {
            debug!(target: "larder", key = %key.escape_ascii(), "a load failed");
        }
        Event::StoreRefused(error @ (StoreError::TooLarge | StoreError::Key(_))) => {
            debug!(target: "larder", %error, "a store failed");
        }
        Event::StoreRefused(error) if is_due() => {
            warn!(target: "larder", %error, "a store failed; such failures are reported once a second");
        }
        Event::StoreRefused(_) => {}
        Event::Lost(error) => {
            warn!(target: "larder", %error, "this process cannot use the cache of its parent");
        }
        Event::OtherFormat { key, flags } => {
            let key = key.escape_ascii();
            debug!(target: "larder", %key, flags, "a value in another format counts as a miss");
        }
    }
}

/// True once a second: without memory, or with a full disk, every store fails.
#[cfg(feature = "tracing")]
fn is_due() -> bool {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    static LAST_SECS: AtomicU64 = AtomicU64::new(0);
    let secs = START.get_or_init(Instant::now).elapsed().as_secs() + 1;
    LAST_SECS.swap(secs, Ordering::Relaxed) != secs
}
