//! The rings into which threads write their lines. Each thread has its own ring, so that no thread
//! waits for another.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use larder_protocol::Topics;

/// The rings of a server.
#[derive(Debug)]
pub(super) struct Rings {
    rings: Box<[Mutex<Ring>]>,
    ring_bytes_max: usize,
    /// The number of the last line, counted over all rings.
    number: AtomicU64,
}

/// The uncollected lines of a thread. The thread holds the lock while it writes one line. The
/// collector holds it while it exchanges the buffer.
#[derive(Debug, Default)]
struct Ring {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    dropped: u64,
    /// The thread that is woken when the ring is half full.
    collector: Option<Thread>,
}

/// A line in a buffer.
#[derive(Clone, Debug)]
struct Entry {
    number: u64,
    topics: Topics,
    /// The position of the line in the bytes of its ring.
    at: Range<usize>,
}

/// Collected lines in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Batch {
    rings: Vec<RingContents>,
    /// Number, ring and index of each line, in order.
    order: Vec<(u64, usize, usize)>,
}

/// The contents of a ring.
#[derive(Debug, Default)]
struct RingContents {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// A collected line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) number: u64,
    pub(super) topics: Topics,
    pub(super) bytes: &'a [u8],
}

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CollectedLines {
    pub(super) lines: usize,
    /// Lines dropped because a ring was full.
    pub(super) dropped: u64,
}

impl Rings {
    pub(super) fn new(count: usize, ring_bytes_max: usize) -> Self {
        let rings = (0..count.max(1)).map(|_| Mutex::default()).collect();
        Self { rings, ring_bytes_max, number: AtomicU64::new(0) }
    }

    /// Writes a line into the ring of the calling thread. `write` receives the buffer and the
    /// line's number. If the ring is full, the line is dropped and counted.
    pub(super) fn write(&self, topics: Topics, write: impl FnOnce(&mut Vec<u8>, u64)) {
        let mut ring = lock(&self.rings[thread_number() % self.rings.len()]);
        let ring = &mut *ring;
        // Under the lock, so that the numbers within a ring ascend.
        let number = self.number.fetch_add(1, Relaxed) + 1;
        let start = ring.bytes.len();
        if held_bytes(start, ring.entries.len()) + LINE_BYTES > self.ring_bytes_max {
            ring.dropped += 1;
            return;
        }
        write(&mut ring.bytes, number);
        if held_bytes(ring.bytes.len(), ring.entries.len() + 1) > self.ring_bytes_max {
            ring.bytes.truncate(start);
            ring.dropped += 1;
            return;
        }
        let was_half_full = held_bytes(start, ring.entries.len()) > self.ring_bytes_max / 2;
        ring.entries.push(Entry { number, topics, at: start..ring.bytes.len() });
        let is_half_full =
            held_bytes(ring.bytes.len(), ring.entries.len()) > self.ring_bytes_max / 2;
        if is_half_full
            && !was_half_full
            && let Some(collector) = &ring.collector
        {
            collector.unpark();
        }
    }

    /// Replaces the lines of a batch with those in the rings.
    pub(super) fn take(&self, batch: &mut Batch) -> CollectedLines {
        batch.rings.resize_with(self.rings.len(), RingContents::default);
        batch.order.clear();
        let mut collected = CollectedLines::default();
        for (index, (ring, taken)) in self.rings.iter().zip(&mut batch.rings).enumerate() {
            taken.bytes.clear();
            taken.entries.clear();
            let mut ring = lock(ring);
            std::mem::swap(&mut ring.bytes, &mut taken.bytes);
            std::mem::swap(&mut ring.entries, &mut taken.entries);
            collected.dropped += std::mem::take(&mut ring.dropped);
            drop(ring);
            collected.lines += taken.entries.len();
            let entries = taken.entries.iter().enumerate();
            batch.order.extend(entries.map(|(entry, line)| (line.number, index, entry)));
        }
        batch.order.sort_unstable();
        collected
    }

    /// Sets the thread that is woken when a ring is half full.
    pub(super) fn wake_when_half_full(&self, collector: &Thread) {
        for ring in &self.rings {
            lock(ring).collector = Some(collector.clone());
        }
    }

    /// Returns the number of the next line, or a lower one if other threads write lines at the same
    /// time.
    pub(super) fn next_number(&self) -> u64 {
        self.number.load(Relaxed) + 1
    }
}

impl Batch {
    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.order.iter().map(|(_, ring, entry)| {
            let RingContents { bytes, entries } = &self.rings[*ring];
            let Entry { number, topics, at } = &entries[*entry];
            Line { number: *number, topics: *topics, bytes: &bytes[at.clone()] }
        })
    }
}

/// A line is written only if the ring has this much space, as in memcached.
const LINE_BYTES: usize = 512;

/// Returns the memory that lines occupy in a ring.
fn held_bytes(bytes: usize, lines: usize) -> usize {
    bytes + lines * size_of::<Entry>()
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the calling thread among the threads that have written lines.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Relaxed);
        NUMBER.set(Some(number));
        number
    })
}
