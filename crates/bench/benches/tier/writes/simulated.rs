//! A simulated log, which stores no values. When space is short, it copies the live records of its
//! oldest segment to its head and frees the segment. Comparing it with the real store shows what
//! the store writes in addition.

use std::collections::{HashMap, VecDeque};

use anyhow::Result;
use larder_tier::format::SEGMENT_BYTES;

use super::target::{Put, RECORD_BYTES, TOMBSTONE_BYTES, Target, Written};

/// The minimum number of free segments before a change.
const FREE_MIN: usize = 2;

pub(super) struct Simulated {
    segments: VecDeque<Segment>,
    segments_max: usize,
    /// Number of the oldest segment.
    first: u64,
    /// The location of the record of each existing key: the number of a segment, and an index in
    /// it.
    places: HashMap<u64, (u64, usize)>,
    now_secs: u64,
    written_bytes: u64,
}

#[derive(Default)]
struct Segment {
    bytes: u64,
    /// The keys of its puts, and the second at which each put expires.
    puts: Vec<(u64, Option<u64>)>,
}

impl Simulated {
    pub(super) fn new(log_bytes: u64) -> Self {
        Self {
            segments: VecDeque::from([Segment::default()]),
            segments_max: log_bytes as usize / SEGMENT_BYTES,
            first: 0,
            places: HashMap::new(),
            now_secs: 0,
            written_bytes: 0,
        }
    }

    /// Makes space for a record at the head, and counts it.
    fn head(&mut self, bytes: u64) -> &mut Segment {
        self.written_bytes += bytes;
        if self.segments.back().is_some_and(|head| head.bytes + bytes > SEGMENT_BYTES as u64) {
            self.segments.push_back(Segment::default());
        }
        let head = self.segments.back_mut().expect("a log has a segment");
        head.bytes += bytes;
        head
    }

    fn append(&mut self, key: u64, deadline_secs: Option<u64>) {
        let head = self.head(RECORD_BYTES);
        head.puts.push((key, deadline_secs));
        let index = head.puts.len() - 1;
        let number = self.first + self.segments.len() as u64 - 1;
        self.places.insert(key, (number, index));
    }

    fn reclaim(&mut self) {
        while self.segments.len() + FREE_MIN > self.segments_max {
            let number = self.first;
            let Some(tail) = self.segments.pop_front() else { return };
            self.first += 1;
            for (index, (key, deadline_secs)) in tail.puts.into_iter().enumerate() {
                if self.places.get(&key) != Some(&(number, index)) {
                    continue;
                }
                match deadline_secs.is_some_and(|deadline| deadline <= self.now_secs) {
                    true => drop(self.places.remove(&key)),
                    false => self.append(key, deadline_secs),
                }
            }
        }
    }
}

impl Target for Simulated {
    fn put(&mut self, put: Put) -> Result<()> {
        self.reclaim();
        self.append(put.key, put.ttl_secs.map(|secs| self.now_secs + u64::from(secs)));
        Ok(())
    }

    fn remove(&mut self, key: u64) -> Result<()> {
        self.reclaim();
        self.head(TOMBSTONE_BYTES);
        self.places.remove(&key);
        Ok(())
    }

    fn pass_second(&mut self) -> Result<()> {
        self.now_secs += 1;
        Ok(())
    }

    fn written(&mut self) -> Result<Written> {
        Ok(Written { bytes: self.written_bytes, zeroed_bytes: 0 })
    }
}
