//! Reads of a cache with a disk tier. A read promotes an item that is only on the disk to memory.

use std::sync::Arc;
use std::task::Poll;

use larder_engine::{Miss, ReadOptions, Refusal, StoreError};
use larder_item::Meta;
use larder_region::Sink;

use super::Backend;
use super::large::{LargeValue, Read};
use crate::tier::{Dependency, Promotion, PromotionPolicy, Target};

/// How often a read promotes an item that is evicted again before it can be read.
const RETURNS_MAX: u32 = 16;

impl Backend<'_> {
    /// Reads an item of a cache with a disk tier.
    #[inline(never)]
    pub(crate) fn read<S: Sink>(
        self,
        key: &[u8],
        reading: ReadOptions,
        returns: PromotionPolicy,
        out: &mut S,
        head: &mut impl FnMut(&mut S, &Meta),
    ) -> Poll<Read> {
        let Self { shared, now, wait, .. } = self;
        let tier = match shared.tier.usable() {
            Ok(Some(tier)) => tier,
            Ok(None) => return Poll::Ready(Read::Miss(Miss::Absent)),
            Err(error) => {
                return Poll::Ready(match shared.outside.as_ref() {
                    Some(outside) => match outside.read(key, reading, now, out, head) {
                        Ok(meta) => Read::Hit(meta),
                        Err(miss) => Read::Miss(miss),
                    },
                    None => Read::Failed(error),
                });
            }
        };
        let target = Target::new(key, Dependency::Needs, wait);
        let read = self.in_memory(|engine, operation| {
            let thread = operation.thread;
            tier.clear_if_due(engine, now);
            for _ in 0..RETURNS_MAX {
                let read = self.outcome(engine.read_as(thread, key, reading, now, out, &mut *head));
                let Read::Miss(miss) = read else { return Poll::Ready(read) };
                if miss != Miss::Absent {
                    // The newest record of the key was in memory, so the disk has no live record.
                    return Poll::Ready(Read::Miss(miss));
                }
                match tier.promote(engine, operation, &target, returns) {
                    Ok(Promotion::Back(_)) => {}
                    Ok(Promotion::Nothing(_)) => return Poll::Ready(Read::Miss(miss)),
                    Ok(Promotion::Left(item)) => {
                        let meta = tier.meta(&item, now);
                        head(out, &meta);
                        if reading.value {
                            out.extend(&item.value);
                        }
                        return Poll::Ready(Read::Hit(meta));
                    }
                    Err(undone) => {
                        let failed: Poll<Result<Read, StoreError>> = undone.into_poll();
                        return failed.map(|failed| failed.unwrap_or_else(Read::Failed));
                    }
                }
            }
            // The item was evicted after each promotion.
            if tier.is_cache() {
                return Poll::Ready(Read::Miss(Miss::Absent));
            }
            Poll::Ready(Read::Failed(StoreError::NoMemory))
        });
        match (read, self.await_durable(tier, key)) {
            (Poll::Ready(_), Err(error)) => Poll::Ready(Read::Failed(error)),
            (read, _) => read,
        }
    }

    /// Appends a value to `out`, a large one piece by piece, for a cache with a disk tier. After an
    /// error `out` is unchanged.
    #[inline(never)]
    pub(crate) fn read_whole<S: Sink>(
        self,
        key: &[u8],
        out: &mut S,
        mut observe: impl FnMut(&Meta),
    ) -> Result<Result<Meta, Miss>, StoreError> {
        let whole = ReadOptions { noted: true, value: true };
        let start = out.filled();
        for _ in 0..RETURNS_MAX {
            let (returns, mut head) =
                (PromotionPolicy::IfReused, |_: &mut S, meta: &Meta| observe(meta));
            match self.read(key, whole, returns, out, &mut head) {
                Poll::Ready(Read::Hit(meta)) => return Ok(Ok(meta)),
                Poll::Ready(Read::Miss(miss)) => return Ok(Err(miss)),
                Poll::Ready(Read::Large(meta, mut value)) => {
                    if value.copy(out).is_ok() {
                        return Ok(Ok(meta));
                    }
                    // Evicted during the copy: it is on the disk now.
                    out.truncate(start);
                }
                Poll::Ready(Read::Failed(error)) => {
                    out.truncate(start);
                    return Err(error);
                }
                // The caller would have to wait for the disk.
                Poll::Pending => return Err(Refusal::NeedsDisk.into()),
            }
        }
        Err(StoreError::NoMemory)
    }

    #[inline]
    pub(crate) fn outcome(self, read: larder_engine::Read) -> Read {
        match read {
            larder_engine::Read::Hit(meta) => Read::Hit(meta),
            larder_engine::Read::Large(meta, pieces) => {
                Read::Large(meta, Box::new(LargeValue { shared: Arc::clone(self.shared), pieces }))
            }
            larder_engine::Read::Miss(miss) => Read::Miss(miss),
        }
    }
}
