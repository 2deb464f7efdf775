//! The disk tier's log without a server: how fast it is written, and read again by recovery.
//!
//! `LARDER_TIER_DIR` names the disk: a directory in it is made and removed. `LARDER_ITEMS` is the
//! number of items. Recovery reads around the page cache. It keeps 16 bytes an item, a hash and an
//! address, in a hash table in the place of the index. Without `--bench`, which cargo bench adds, a
//! short run only shows that everything works.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::env;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use larder_tier::disk::PAGE_BYTES;
use larder_tier::disk::real::RealDirectory;
use larder_tier::flusher::Flusher;
use larder_tier::format::{Item, Mode, Record, SEGMENT_BYTES, SegmentHeader, SegmentNumber, Uuid};
use larder_tier::recovery::{Place, Visitor, recover};
use larder_tier::{Entropy, Lease, Tier, Wanted};

const NOW: u64 = 1_790_000_000;
/// Pages of a unit.
const UNIT_PAGES: usize = 64;
/// Bytes that are written between two syncs.
const SYNC_BYTES: usize = 16 << 20;

fn main() {
    let default = if larder_bench::is_measuring() { 1_000_000 } else { 2000 };
    let items = env::var("LARDER_ITEMS").map_or(default, |items| items.parse().unwrap());
    let parent = env::var_os("LARDER_TIER_DIR").map_or_else(env::temp_dir, PathBuf::from);
    println!("{items} items with keys of 10 bytes, on {}", parent.display());
    for value_bytes in [100, 1024] {
        let path = parent.join(format!("larder-bench-tier-{}", std::process::id()));
        let log_bytes = Record::item_bytes(10, value_bytes) * items;
        let written = write(&path, items, value_bytes, log_bytes);
        let (scanned, _) = read(&path, log_bytes, Nothing);
        let (indexed, found) = read(&path, log_bytes, Index::of(items));
        assert_eq!(found.0.len(), items, "recovery finds all items");
        std::fs::remove_dir_all(&path).unwrap();
        let line = |what: &str, took: Duration| {
            let rate = log_bytes as f64 / took.as_secs_f64() / 1e6;
            let each = took.as_nanos() as f64 / items as f64;
            println!("  {what:34} {took:8.2?} {rate:8.0} MB/s {each:8.0} ns an item");
        };
        println!("values of {value_bytes} bytes, a log of {} MB", log_bytes / 1_000_000);
        line("write, with a sync each 16 MiB", written);
        line("recover, without an index", scanned);
        line("recover, into a hash table", indexed);
    }
}

fn open(path: &Path, log_bytes: usize) -> Tier<RealDirectory> {
    let bytes = (log_bytes + log_bytes / 10 + 4 * SEGMENT_BYTES) as u64;
    let wanted = Wanted { mode: Mode::Store, bytes };
    let entropy = Entropy { uuid: Uuid([1; 16]), index_seed: 0, hash_key: [0; 16] };
    let mut tier = Tier::open(RealDirectory::open(path).unwrap(), wanted, entropy, NOW).unwrap();
    tier.begin_anew().unwrap();
    tier
}

/// Segment after segment.
struct Segments {
    flusher: Flusher<RealDirectory>,
    lease: Lease,
    extent: u32,
    previous: Option<SegmentNumber>,
}

impl Segments {
    fn begin(&mut self) {
        let number = self.lease.next().unwrap();
        let header = SegmentHeader { number, previous: self.previous, delay: None };
        self.flusher.begin_segment(self.extent, &header, NOW).unwrap();
        self.extent += 1;
        self.previous = Some(number);
    }
}

fn write(path: &Path, items: usize, value_bytes: usize, log_bytes: usize) -> Duration {
    let mut flusher = Flusher::new(open(path, log_bytes));
    let lease = flusher.lease(1 << 20).unwrap();
    let mut log = Segments { flusher, lease, extent: 0, previous: None };
    let value = vec![b'v'; value_bytes];
    let began = Instant::now();
    let mut unsynced = 0;
    log.begin();
    for number in 0..items {
        let key = format!("{number:010}");
        let record = Record::Item(Item {
            key: key.as_bytes(),
            value: &value,
            flags: 0,
            version: number as u64,
            deadline_unix_secs: None,
            stale: false,
            token_sent: false,
            number: false,
        });
        if log.flusher.push(&record, UNIT_PAGES).is_some() {
            continue;
        }
        log.flusher.write(NOW).unwrap();
        unsynced += UNIT_PAGES * PAGE_BYTES;
        if unsynced >= SYNC_BYTES {
            log.flusher.sync().unwrap();
            unsynced = 0;
        }
        if log.flusher.pages_left() < 2 {
            log.begin();
        }
        assert!(log.flusher.push(&record, UNIT_PAGES).is_some(), "a fresh unit has room");
    }
    log.flusher.write(NOW).unwrap();
    log.flusher.sync().unwrap();
    began.elapsed()
}

fn read<V: Visitor>(path: &Path, log_bytes: usize, mut visitor: V) -> (Duration, V) {
    let tier = open(path, log_bytes);
    let began = Instant::now();
    recover(&tier, NOW, &mut visitor).unwrap();
    (began.elapsed(), visitor)
}

struct Nothing;

impl Visitor for Nothing {
    fn record(&mut self, _: Place, _: &Record<'_>) {}
}

struct Index(HashMap<u64, u64>);

impl Index {
    fn of(items: usize) -> Self {
        Self(HashMap::with_capacity(items))
    }
}

impl Visitor for Index {
    fn record(&mut self, place: Place, record: &Record<'_>) {
        let Record::Item(item) = record else { return };
        let mut hasher = DefaultHasher::new();
        item.key.hash(&mut hasher);
        self.0.insert(hasher.finish(), place.at.stored());
    }
}
