//! Replays traces on the crate segcache, which also keeps items in segments of one region.
//!
//! It uses the same memory, including its hash table. The result is the best of several settings:
//! its two best policies, three sizes of segments, two sizes of the table. Its clock cannot be set,
//! so that traces with TTLs are not replayed on it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_loadgen::mix::mix;
use larder_loadgen::trace::{Operation, Trace};
use segcache::{Policy, Segcache, Value};

const POLICIES: [Policy; 2] =
    [Policy::Merge { max: 8, merge: 4, compact: 2 }, Policy::S3Fifo { admission_ratio: 0.1 }];
/// Numbers of segments into which the memory is divided.
const SEGMENTS: [usize; 3] = [64, 256, 1024];
/// The smallest number of segments with which all policies work.
const SEGMENTS_MIN: usize = 16;
const KEY_BYTES: usize = 16;
/// The bytes of a slot of the hash table.
const SLOT_BYTES: usize = 8;

/// Returns the lowest miss ratio of all settings; `None` for a trace with TTLs.
///
/// # Errors
/// The trace cannot be read, or a cache returns a wrong value or cannot be opened.
pub(crate) fn miss_ratio(trace: &Path, scale: u32, memory_bytes: u64) -> Result<Option<f64>> {
    let trace = Trace::read(trace, None, scale)?;
    if trace.has_ttls() {
        return Ok(None);
    }
    let memory_bytes = usize::try_from(memory_bytes)?;
    let mean_bytes =
        trace.requests().map(|(_, request)| u64::from(request.item_bytes)).sum::<u64>()
            / trace.request_count() as u64;
    // Twice as many slots as items of the mean size, because a full bucket refuses items.
    let slots = (2 * memory_bytes / mean_bytes.max(1) as usize).next_power_of_two().max(1 << 7);
    let mut best: Option<f64> = None;
    for policy in POLICIES {
        for segments in SEGMENTS {
            for slots in [slots, slots / 2] {
                let segment_bytes = (memory_bytes / segments).next_power_of_two();
                let Some(cache) = open(policy, segment_bytes, slots, memory_bytes)? else {
                    continue;
                };
                let found = replay(&trace, &cache)?;
                best = Some(best.map_or(found, |best| best.min(found)));
            }
        }
    }
    Ok(Some(best.context("the memory is too small for segcache")?))
}

/// Opens a cache whose total size is the given memory; `None` if it would have too few segments.
fn open(
    policy: Policy,
    segment_bytes: usize,
    slots: usize,
    memory_bytes: usize,
) -> Result<Option<Segcache>> {
    let segments = memory_bytes.saturating_sub(slots * SLOT_BYTES) / segment_bytes;
    if segments < SEGMENTS_MIN {
        return Ok(None);
    }
    let built = Segcache::builder()
        .hash_power(u8::try_from(slots.ilog2())?)
        .heap_size(segments * segment_bytes)
        .segment_size(i32::try_from(segment_bytes)?)
        .eviction(policy)
        .build();
    Ok(Some(built.context("opening segcache")?))
}

/// Replays the trace and returns the miss ratio.
fn replay(trace: &Trace, cache: &Segcache) -> Result<f64> {
    let (mut gets, mut misses) = (0_u32, 0_u32);
    let mut value = Vec::new();
    for (_, request) in trace.requests() {
        let key = key(request.id);
        if request.operation == Operation::LookAside {
            gets += 1;
            if let Some(found) = cache.get(&key) {
                let Value::Bytes(bytes) = found.value() else {
                    unreachable!("no value is a number")
                };
                let is_right = bytes.iter().all(|byte| *byte == request.id as u8);
                ensure!(is_right, "segcache returned a wrong value");
                continue;
            }
            misses += 1;
        }
        value.clear();
        value.resize((request.item_bytes as usize).saturating_sub(KEY_BYTES), request.id as u8);
        if cache.insert(&key, &value[..], None, Duration::ZERO).is_err() {
            // The item is too large, or its bucket is full. The previous value must not be hit.
            cache.delete(&key);
        }
    }
    Ok(f64::from(misses) / f64::from(gets))
}

/// Returns the key that `larder replay` uses for this id.
fn key(id: u32) -> [u8; KEY_BYTES] {
    let hash = mix(u64::from(id));
    std::array::from_fn(|place| b"0123456789abcdef"[(hash >> (60 - 4 * place) & 15) as usize])
}
