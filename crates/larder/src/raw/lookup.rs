//! Lookups on the disk. An operation that needs the disk can become *pending*: it changes nothing,
//! and its caller performs the lookup and then repeats the operation.

use super::Raw;
use crate::backend::Backend;
use crate::tier::Tier;
use crate::tier::lookup::{DiskLookup, DiskNeed, DiskPages, DiskRead};

impl Raw<'_> {
    /// True if an operation on the key would be pending under [`Wait::Ask`](crate::Wait::Ask): it
    /// needs an item that only the disk may have, or it is a change and [`Raw::is_disk_crowded`].
    /// For operations of several steps, which cannot be repeated after the first step.
    ///
    /// Cost: a load without a disk tier. Otherwise a lookup in memory, and a lookup in the disk's
    /// index if the item is not in memory.
    #[inline]
    pub fn needs_disk(self, key: &[u8], asking: DiskNeed) -> bool {
        let Some(tier) = self.backend.shared.tier.own() else { return false };
        let must_wait = asking != DiskNeed::Reads && tier.must_wait_for_room(self.backend.wait);
        must_wait || self.must_look_up(key, asking)
    }

    /// True if an operation on the key needs an item that only the disk may have.
    ///
    /// Cost: same as [`Raw::needs_disk`].
    pub fn must_look_up(self, key: &[u8], asking: DiskNeed) -> bool {
        let Backend { shared, now, wait, .. } = self.backend;
        let is_resident = || shared.engine.peek(key, now).is_some();
        shared.tier.own().is_some_and(|tier| tier.must_look_up(key, asking, wait, is_resident))
    }

    /// True if changes must wait until earlier changes are written to the disk.
    ///
    /// Cost: a load.
    pub fn is_disk_crowded(self) -> bool {
        self.backend.shared.tier.own().is_some_and(Tier::is_crowded)
    }

    /// Begins to look up a key on the disk. Returns the lookup and its first read. Without a first
    /// read the lookup is complete and can be passed to
    /// [`Deferred::give_found`](crate::Deferred::give_found). Returns `None` without a disk tier.
    pub fn look_up(self, key: &[u8]) -> Option<(DiskLookup, Option<DiskRead>)> {
        Some(self.backend.shared.tier.own()?.look_up(key))
    }

    /// Continues a lookup after its read. Returns its next read; `None` at its end.
    pub fn look_on(self, lookup: &mut DiskLookup, pages: DiskPages) -> Option<DiskRead> {
        self.backend.shared.tier.own()?.look_on(lookup, pages)
    }
}
