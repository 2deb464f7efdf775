//! Lookups that write nothing, for processes that map the region for reading only.

use larder_item::{Meta, Second};

use crate::engine::Engine;
use crate::segment::slot::FREQ_MAX;

/// How often a lookup is retried while the item changes. If the item still changes after that, its
/// writer is stopped.
const LOOKS_MAX: u32 = 1000;

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupResult {
    /// The metadata of the item.
    pub meta: Meta,
    /// True if the reader should report the read to the cache's owner, because the item has been
    /// read only a few times recently, or not within the last minute.
    pub is_worth_noting: bool,
}

impl Engine {
    /// Appends the value of an item to `out`. Returns `None` and leaves `out` unchanged if the key
    /// has no live item, or if the lookup would have to write. The caller can then send the request
    /// to the cache's owner.
    ///
    /// The lookup counts nothing, writes nothing and holds nothing.
    ///
    /// Cost: same as [`Engine::read`]; copies each piece of a large value.
    pub fn look_up(&self, key: &[u8], now: Second, out: &mut Vec<u8>) -> Option<LookupResult> {
        if self.segments().is_flush_due(now) {
            return None;
        }
        let hash = self.index().hash(key);
        let start = out.len();
        for _ in 0..LOOKS_MAX {
            let found = self.index().find(hash, key)?;
            if self.index().death(&found, now).is_some() {
                return None;
            }
            let (version, bytes) = (self.index().version(&found), self.index().value_bytes(&found));
            let meta = self.index().meta_as::<true>(&found, version, bytes, now);
            let is_whole = if found.header.is_large() {
                self.value_of(&{ found }).map(|value| out.extend(value)).is_some()
            } else {
                self.index().read_value(&found, out);
                true
            };
            if is_whole
                && out.len() - start == meta.value_bytes
                && self.index().is_still_there(&found)
                && self.is_value_unchanged(&found, version)
            {
                let is_worth_noting =
                    found.slot.freq() < FREQ_MAX || found.header.used().is_due(now);
                return Some(LookupResult { meta, is_worth_noting });
            }
            out.truncate(start);
            std::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use larder_item::StoreMode;
    use larder_region::layout::{GROUP_BYTES, SUPERBLOCK_BYTES, global};

    use super::*;
    use crate::fixtures::two_peers;
    use crate::index::group::Control;
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;

    /// Calls every read-only function.
    fn look_around(engine: &Engine) {
        for key in 0..100 {
            engine.look_up(format!("k{key}").as_bytes(), 10, &mut Vec::new());
        }
        let mut shown = 0;
        engine.dump(10, |_| {
            shown += 1;
            shown < 1000
        });
        engine.report();
        engine.segment_reports().for_each(drop);
        engine.peer_reports();
        engine.validate().unwrap_err();
    }

    fn filled() -> (Engine, Engine) {
        let (engine, other) = two_peers();
        let thread = engine.register().unwrap();
        for key in 0..100 {
            let key = format!("k{key}");
            engine
                .store(
                    &Operation::new(&thread, 10),
                    &StoreRequest::new(key.as_bytes(), StoreMode::Set),
                    b"v",
                )
                .unwrap();
        }
        engine.deregister(&thread);
        (engine, other)
    }

    #[test]
    fn a_slot_that_names_nothing_is_a_miss() {
        let (engine, _other) = filled();
        for segment in engine.segments().segment_numbers() {
            engine.segments().sequence(segment).store(0, Relaxed);
        }
        look_around(&engine);
    }

    #[test]
    fn a_lookup_in_a_circular_chain_ends() {
        let (engine, _other) = filled();
        let thread = engine.register().unwrap();
        engine.index().add_overflow_segment(&engine.op(&thread, 10)).unwrap();
        let ring = Control::new(9).with_overflow(Some(0));
        engine.region().word(engine.index().overflow_at(0)).store(ring.0, Relaxed);
        for group in 0..engine.index().groups() {
            engine.region().word(engine.index().group_at(group)).store(ring.0, Relaxed);
        }
        look_around(&engine);
        assert!(
            engine.index().chain(engine.index().group_at(0)).count()
                <= 1 + engine.index().overflow_groups() as usize
        );
    }

    #[test]
    fn lookups_in_a_region_of_noise_end() {
        let mut state = 1u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for spread in [1, 7, 50, 1000] {
            let (engine, _other) = filled();
            let globals = SUPERBLOCK_BYTES..engine.region().layout().peers_at;
            let index = engine.index().group_at(0)..engine.index().group_at(0) + 512 * GROUP_BYTES;
            let headers = engine.region().layout().sequences_at..engine.region().layout().pool_at;
            for at in globals.chain(index).chain(headers).step_by(8) {
                if random() % spread == 0 {
                    engine.region().word(at).store(random(), Relaxed);
                }
            }
            // With the highest possible value, the walk would take too long.
            engine.region().word(global::OVERFLOW_GROUPS).fetch_and(7, Relaxed);
            look_around(&engine);
        }
    }
}
