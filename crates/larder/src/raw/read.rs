//! Reads.

use std::task::Poll;

use larder_engine::{ReadOptions, StoreError};
use larder_item::Meta;
use larder_region::Sink;

use super::Raw;
use crate::backend::Backend;
use crate::backend::large::Read;
use crate::tier::PromotionPolicy;

impl Raw<'_> {
    /// Reads an item as [`Cache::read_as`](crate::Cache::read_as) does. `returns` decides when an
    /// item that is only on the disk returns to memory. A pending read appends nothing to `out`.
    ///
    /// Cost: same as [`Cache::read_as`](crate::Cache::read_as), plus one lookup in the disk's index
    /// if the item is not in memory.
    #[inline]
    pub fn read<S: Sink>(
        self,
        key: &[u8],
        reading: ReadOptions,
        returns: PromotionPolicy,
        out: &mut S,
        mut head: impl FnMut(&mut S, &Meta),
    ) -> Poll<Read> {
        let backend = self.backend;
        if !backend.shared.tier.is_none() {
            return backend.read(key, reading, returns, out, &mut head);
        }
        Poll::Ready(backend.with_thread_slot(|engine, thread| {
            backend.outcome(engine.read_as(thread, key, reading, backend.now, out, head))
        }))
    }

    /// Returns the metadata of an item as [`Cache::try_peek`](crate::Cache::try_peek) does. With a
    /// disk tier the item returns to memory.
    ///
    /// # Errors
    /// Same as [`Cache::try_peek`](crate::Cache::try_peek).
    pub fn peek(self, key: &[u8]) -> Poll<Result<Option<Meta>, StoreError>> {
        let Backend { shared, now, .. } = self.backend;
        if shared.tier.is_none() {
            return Poll::Ready(Ok(shared.engine.peek(key, now)));
        }
        let unnoted = ReadOptions { noted: false, value: false };
        self.read(key, unnoted, PromotionPolicy::Always, &mut Vec::new(), |_, _| ()).map(|read| {
            match read {
                Read::Hit(meta) | Read::Large(meta, _) => Ok(Some(meta)),
                Read::Miss(_) => Ok(None),
                Read::Failed(error) => Err(error),
            }
        })
    }
}
