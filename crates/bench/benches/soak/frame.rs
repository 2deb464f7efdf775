//! Values that contain their key, their deadline and a checksum.
//!
//! ```text
//! 0  key u64 │ 8  deadline u32 │ 12  payload bytes u32 │ 16  seed u64 │ 24  check u64 │ 32  payload
//! ```
//!
//! A value is one frame, and one more for each append.

use larder_bench::mix;

/// The length of the smallest value: a frame's header, in bytes.
pub(crate) const HEAD_BYTES: usize = 32;

/// Appends a frame of `bytes` in total, at least [`HEAD_BYTES`], to a value. A `deadline` of 0
/// means no deadline.
pub(crate) fn push(value: &mut Vec<u8>, key: u64, deadline: u32, seed: u64, bytes: usize) {
    let payload_bytes = bytes.saturating_sub(HEAD_BYTES);
    value.extend_from_slice(&head(key, deadline, payload_bytes, seed));
    let end = value.len() + payload_bytes;
    for index in 0..payload_bytes.div_ceil(8) as u64 {
        value.extend_from_slice(&word(seed, index).to_le_bytes());
    }
    value.truncate(end);
}

/// True if the value is complete, was stored for the key, and is live at `now`.
pub(crate) fn is_right(value: &[u8], key: u64, now: u32) -> bool {
    let (mut rest, mut deadline) = (value, None);
    while !rest.is_empty() {
        let Some((head_bytes, behind)) = rest.split_first_chunk::<HEAD_BYTES>() else {
            return false;
        };
        let payload_bytes = u32_at(head_bytes, 12) as usize;
        let (found_deadline, seed) = (u32_at(head_bytes, 8), u64_at(head_bytes, 16));
        let Some((payload, behind)) = behind.split_at_checked(payload_bytes) else { return false };
        if *head_bytes != head(key, found_deadline, payload_bytes, seed) || !is_of(payload, seed) {
            return false;
        }
        // Appending keeps the deadline of the item.
        deadline.get_or_insert(found_deadline);
        rest = behind;
    }
    deadline.is_some_and(|deadline| deadline == 0 || deadline > now)
}

fn head(key: u64, deadline: u32, payload_bytes: usize, seed: u64) -> [u8; HEAD_BYTES] {
    let payload_bytes = payload_bytes as u32;
    let check = mix(mix(mix(key) ^ seed) ^ (u64::from(deadline) << 32 | u64::from(payload_bytes)));
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&key.to_le_bytes());
    head[8..12].copy_from_slice(&deadline.to_le_bytes());
    head[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
    head[16..24].copy_from_slice(&seed.to_le_bytes());
    head[24..].copy_from_slice(&check.to_le_bytes());
    head
}

fn is_of(payload: &[u8], seed: u64) -> bool {
    let words = payload.chunks(8).zip(0..);
    words.into_iter().all(|(found, index)| *found == word(seed, index).to_le_bytes()[..found.len()])
}

/// Returns an eight-byte word of a seed's payload.
fn word(seed: u64, index: u64) -> u64 {
    mix(mix(seed).wrapping_add(index))
}

fn u32_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// Checks that wrong values are detected. Otherwise a soak without findings would prove nothing.
pub(crate) fn prove() {
    let mut value = Vec::new();
    push(&mut value, 7, 100, 1, 1000);
    push(&mut value, 7, 0, 2, 50);
    assert!(is_right(&value, 7, 99), "a value with an append is right");
    assert!(!is_right(&value, 8, 99), "another key's value is wrong");
    assert!(!is_right(&value, 7, 100), "a value past its deadline is wrong");
    assert!(!is_right(&value[..value.len() - 1], 7, 99), "a value cut off is wrong");
    assert!(!is_right(&[], 7, 99), "an empty value is wrong");
    for at in 0..value.len() {
        value[at] ^= 1;
        assert!(!is_right(&value, 7, 99), "a value changed at {at} is wrong");
        value[at] ^= 1;
    }
}
