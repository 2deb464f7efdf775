//! Looking at items without a store: for processes that can only read the region.

use larder_item::{Meta, Second};

use crate::Engine;

/// So often an item is looked at that changes under the look. One that is still being changed then belongs to somebody
/// who has been stopped.
const LOOKS_MAX: u32 = 1000;

impl Engine {
    /// Appends the value of an item to `out`. None where there is no such item, or it cannot be told without a store:
    /// whoever asks the cache's owner learns which. `out` is then as it was.
    ///
    /// Nothing is counted, nothing noted, nothing held.
    ///
    /// Cost: as [`Engine::read`]; of a large value each piece is copied.
    pub fn look_up(&self, key: &[u8], now: Second, out: &mut Vec<u8>) -> Option<Meta> {
        if self.is_flush_due(now) {
            return None;
        }
        let hash = self.hash(key);
        let start = out.len();
        for _ in 0..LOOKS_MAX {
            let found = self.find(hash, key)?;
            if self.death(&found, now).is_some() {
                return None;
            }
            let meta = self.meta(&found, self.value_bytes(&found));
            let is_whole = if found.header.is_large() {
                self.value_of(&{ found }).map(|value| out.extend(value)).is_some()
            } else {
                self.read_value(&found, out);
                true
            };
            if is_whole
                && out.len() - start == meta.value_bytes
                && self.is_still_there(&found)
                && self.is_unaltered(&found, meta.cas)
            {
                return Some(meta);
            }
            out.truncate(start);
            std::hint::spin_loop();
        }
        None
    }
}
