//! Reads of a cache with a disk tier: they bring an item back into memory that only the disk has.

use larder_engine::{Miss, Operation, ReadOptions, Refusal, StoreError};
use larder_item::Meta;
use larder_region::Sink;

use super::{Brought, Returns};
use crate::cache::Cache;
use crate::large::Read;

/// How a read uses the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskUse {
    /// When the item returns to memory.
    pub(crate) returns: Returns,
    /// False: the read fails with [`Refusal::AskDisk`] where it would wait for the disk.
    pub(crate) waits: bool,
}

/// How often a read brings an item back that eviction takes away again.
const RETURNS_MAX: u32 = 16;

impl Cache {
    /// As [`Cache::read_as`], for a cache with a disk tier.
    #[inline(never)]
    pub(crate) fn read_tiered<S: Sink>(
        &self,
        key: &[u8],
        (reading, disk): (ReadOptions, DiskUse),
        out: &mut S,
        head: &mut impl FnMut(&mut S, &Meta),
    ) -> Read {
        let tier = match self.shared().tier.usable() {
            Ok(Some(tier)) => tier,
            Ok(None) => return Read::Miss(Miss::Absent),
            Err(error) => {
                return match self.shared().outside.as_ref() {
                    Some(outside) => outside.read(key, reading, self.now(), out, head),
                    None => Read::Failed(error),
                };
            }
        };
        let now = self.now();
        let read = self.with_thread_slot(|engine, thread| {
            let operation = &Operation::new(thread, now);
            tier.clear_if_due(engine, now);
            for _ in 0..RETURNS_MAX {
                let read = self.outcome(engine.read_as(thread, key, reading, now, out, &mut *head));
                let Read::Miss(miss) = read else { return read };
                if miss != Miss::Absent {
                    // Memory had the key's newest record, so the disk has none that lives.
                    return Read::Miss(miss);
                }
                if !disk.waits && tier.must_ask(key) {
                    return Read::Failed(Refusal::AskDisk.into());
                }
                match tier.bring(engine, operation, (key, disk.returns)) {
                    Ok(Brought::Back(_)) => {}
                    Ok(Brought::Nothing(_)) => return Read::Miss(miss),
                    Ok(Brought::Left(item)) => {
                        let meta = tier.meta(&item, now);
                        head(out, &meta);
                        if reading.value {
                            out.extend(&item.value);
                        }
                        return Read::Hit(meta);
                    }
                    Err(undone) => return Read::Failed(undone.into_error()),
                }
            }
            // Eviction is faster than this reader, again and again.
            if tier.is_cache() {
                return Read::Miss(Miss::Absent);
            }
            Read::Failed(StoreError::NoMemory)
        });
        match self.note_awaited(key) {
            Ok(()) => read,
            Err(error) => Read::Failed(error),
        }
    }

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
            let reading = (whole, DiskUse { returns: Returns::IfReused, waits: true });
            match self.read_tiered(key, reading, out, &mut |_: &mut S, meta: &Meta| observe(meta)) {
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
