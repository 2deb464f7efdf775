//! Puts the segments of one direction of a connection into order.

use std::collections::BTreeMap;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The number of the next byte; `None` before the first segment.
    next: Option<u32>,
    /// The number of bytes that are in order.
    taken: u64,
    /// Segments after missing bytes, by their position.
    early: BTreeMap<u64, Vec<u8>>,
    early_bytes: usize,
    /// The position of the end.
    end: Option<u64>,
}

/// More bytes follow a missing segment than may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing;

impl Stream {
    /// Begins the stream after a SYN with this number.
    pub(super) fn open(&mut self, sequence: u32) {
        *self = Self { next: Some(sequence.wrapping_add(1)), ..Self::default() };
    }

    /// True if a segment or a SYN was seen.
    pub(super) fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// True if all bytes up to the end are taken.
    pub(super) fn is_ended(&self) -> bool {
        self.end.is_some_and(|end| self.taken >= end)
    }

    /// True if segments wait for missing bytes.
    pub(super) fn has_hole(&self) -> bool {
        !self.early.is_empty()
    }

    /// True if the receiver has got bytes that the capture lacks. `expected` is the number of the
    /// next byte that it expects.
    pub(super) fn lacks(&self, expected: u32) -> bool {
        let Some(next) = self.next else { return false };
        let distance = expected.wrapping_sub(next) as i32;
        // The end of the stream counts as one byte.
        distance > i32::from(self.is_ended())
    }

    /// Returns the number of bytes that wait for missing ones.
    pub(super) fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Takes a segment. Calls `deliver` with all bytes that are in order, each of them once.
    ///
    /// # Errors
    /// [`Missing`]: the capture lacks a segment.
    pub(super) fn take(
        &mut self,
        sequence: u32,
        payload: &[u8],
        is_fin: bool,
        mut deliver: impl FnMut(&[u8]),
    ) -> Result<(), Missing> {
        let next = *self.next.get_or_insert(sequence);
        // Numbers wrap around; a difference is a distance of up to 2 GiB in both directions.
        let distance = i64::from(sequence.wrapping_sub(next) as i32);
        let position = self.taken as i64 + distance;
        if is_fin && self.end.is_none() {
            self.end = u64::try_from(position + payload.len() as i64).ok();
        }
        if distance > 0 {
            return self.hold(position as u64, payload);
        }
        let known = usize::try_from(-distance).unwrap_or(usize::MAX);
        self.deliver(payload.get(known..).unwrap_or_default(), &mut deliver);
        while let Some(entry) = self.early.first_entry() {
            if *entry.key() > self.taken {
                break;
            }
            let (position, bytes) = entry.remove_entry();
            self.early_bytes -= bytes.len();
            let known = usize::try_from(self.taken - position).unwrap_or(usize::MAX);
            self.deliver(bytes.get(known..).unwrap_or_default(), &mut deliver);
        }
        Ok(())
    }

    fn deliver(&mut self, bytes: &[u8], deliver: &mut impl FnMut(&[u8])) {
        if !bytes.is_empty() {
            self.next = self.next.map(|next| next.wrapping_add(bytes.len() as u32));
            self.taken += bytes.len() as u64;
            deliver(bytes);
        }
    }

    fn hold(&mut self, position: u64, payload: &[u8]) -> Result<(), Missing> {
        if payload.is_empty() {
            return Ok(());
        }
        let held = self.early.entry(position).or_default();
        if held.len() < payload.len() {
            self.early_bytes += payload.len() - held.len();
            *held = payload.to_vec();
        }
        let is_within = self.early_bytes <= EARLY_BYTES_MAX && self.early.len() <= EARLY_MAX;
        if is_within { Ok(()) } else { Err(Missing) }
    }
}

/// The number of bytes of one direction that may wait for a missing segment.
const EARLY_BYTES_MAX: usize = 256 << 10;

/// The number of segments that may wait.
const EARLY_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use larder_testkit::Random;

    use super::*;

    fn collected(segments: &[(u32, &[u8])], first: u32) -> (Vec<u8>, Stream) {
        let (mut stream, mut bytes) = (Stream::default(), Vec::new());
        stream.open(first.wrapping_sub(1));
        for (sequence, payload) in segments {
            let taken =
                stream.take(*sequence, payload, false, |part| bytes.extend_from_slice(part));
            taken.unwrap();
        }
        (bytes, stream)
    }

    #[test]
    fn any_order_with_repetitions_and_overlaps_gives_the_bytes_once() {
        let mut random = Random::with_seed(7);
        for round in 0..300_u32 {
            let length = 1 + random.below(4000) as usize;
            let whole: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            // Some numbers wrap around within the stream.
            let first = if round % 2 == 0 { u32::MAX - 1000 } else { round * 77_777 };
            let mut segments = Vec::new();
            let mut at = 0;
            while at < length {
                let end = (at + 1 + random.below(500) as usize).min(length);
                let begin = at - (random.below(50) as usize).min(at);
                segments.push((first.wrapping_add(begin as u32), &whole[begin..end]));
                if random.below(4) == 0 {
                    segments.push((first.wrapping_add(begin as u32), &whole[begin..end]));
                }
                at = end;
            }
            for place in (1..segments.len()).rev() {
                segments.swap(place, random.below(place as u64 + 1) as usize);
            }
            let (bytes, stream) = collected(&segments, first);
            assert!(bytes == whole, "round {round}");
            assert!(!stream.has_hole());
        }
    }

    #[test]
    fn arbitrary_segments_neither_panic_nor_hold_much_memory() {
        let mut random = Random::with_seed(9);
        let payload = vec![7; 2000];
        for _ in 0..200 {
            let mut stream = Stream::default();
            for _ in 0..2000 {
                let sequence = random.below(1 << 32) as u32;
                let length = random.below(2000) as usize;
                let is_fin = random.below(50) == 0;
                if random.below(100) == 0 {
                    stream.open(sequence);
                }
                if stream.take(sequence, &payload[..length], is_fin, |_| {}).is_err() {
                    break;
                }
                assert!(stream.early_bytes <= EARLY_BYTES_MAX);
                let held: usize = stream.early.values().map(Vec::len).sum();
                assert_eq!(held, stream.early_bytes);
            }
        }
    }

    #[test]
    fn a_missing_segment_is_noticed() {
        let (bytes, mut stream) = collected(&[(100, b"ab"), (104, b"ef")], 100);
        assert_eq!((&*bytes, stream.has_hole()), (&b"ab"[..], true));
        let far = vec![0; EARLY_BYTES_MAX];
        assert!(stream.lacks(104) && !stream.lacks(102) && !stream.lacks(100));
        assert_eq!(stream.take(200, &far, false, |_| {}), Err(Missing));
    }
}
