//! Reads of a cache with a disk tier: they bring an item back into memory that only the disk has.

use std::task::Poll;

use larder_engine::{Miss, Operation, ReadOptions, StoreError};
use larder_item::Meta;
use larder_region::Sink;

use crate::cache::Cache;
use crate::large::Read;
use crate::raw::{Raw, waited_read};
use crate::tier::{Brought, Returns, Target, Use};

/// How often a read brings an item back that eviction takes away again.
const RETURNS_MAX: u32 = 16;

impl Raw<'_> {
    /// As [`Raw::read`], for a cache with a disk tier.
    #[inline(never)]
    pub(crate) fn read_tiered<S: Sink>(
        self,
        key: &[u8],
        (reading, returns): (ReadOptions, Returns),
        out: &mut S,
        head: &mut impl FnMut(&mut S, &Meta),
    ) -> Poll<Read> {
        let Self { cache, wait } = self;
        let tier = match cache.shared().tier.usable() {
            Ok(Some(tier)) => tier,
            Ok(None) => return Poll::Ready(Read::Miss(Miss::Absent)),
            Err(error) => {
                return Poll::Ready(match cache.shared().outside.as_ref() {
                    Some(outside) => outside.read(key, reading, cache.now(), out, head),
                    None => Read::Failed(error),
                });
            }
        };
        let (now, target) = (cache.now(), Target::new(key, Use::Needs, wait));
        let read = cache.with_thread_slot(|engine, thread| {
            let operation = &Operation::new(thread, now);
            tier.clear_if_due(engine, now);
            for _ in 0..RETURNS_MAX {
                let read =
                    cache.outcome(engine.read_as(thread, key, reading, now, out, &mut *head));
                let Read::Miss(miss) = read else { return Poll::Ready(read) };
                if miss != Miss::Absent {
                    // Memory had the key's newest record, so the disk has none that lives.
                    return Poll::Ready(Read::Miss(miss));
                }
                match tier.bring(engine, operation, &target, returns) {
                    Ok(Brought::Back(_)) => {}
                    Ok(Brought::Nothing(_)) => return Poll::Ready(Read::Miss(miss)),
                    Ok(Brought::Left(item)) => {
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
            // Eviction is faster than this reader, again and again.
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
}

impl Cache {
    /// Appends a value to `out`, a large one piece by piece, for a cache with a disk tier. After an
    /// error `out` is unchanged.
    #[inline(never)]
    pub(crate) fn read_whole_tiered<S: Sink>(
        &self,
        key: &[u8],
        out: &mut S,
        mut observe: impl FnMut(&Meta),
    ) -> Result<Result<Meta, Miss>, StoreError> {
        let whole = ReadOptions { noted: true, value: true };
        let start = out.filled();
        for _ in 0..RETURNS_MAX {
            let (reading, mut head) =
                ((whole, Returns::IfReused), |_: &mut S, meta: &Meta| observe(meta));
            match waited_read(self.blocking().read_tiered(key, reading, out, &mut head)) {
                Read::Hit(meta) => return Ok(Ok(meta)),
                Read::Miss(miss) => return Ok(Err(miss)),
                Read::Large(meta, mut value) => {
                    if value.copy(out).is_ok() {
                        return Ok(Ok(meta));
                    }
                    // Evicted while it was copied: the disk has it.
                    out.truncate(start);
                }
                Read::Failed(error) => {
                    out.truncate(start);
                    return Err(error);
                }
            }
        }
        Err(StoreError::NoMemory)
    }
}
