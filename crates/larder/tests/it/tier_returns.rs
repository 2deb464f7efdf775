//! When an item that is only on the disk returns to memory.

use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use larder::{
    Cache, Clock, Deferred, DiskTier, Miss, PromotionPolicy, Read, ReadOptions, TierMode, Wait,
};

const ITEMS: u32 = 8000;

fn open(path: &Path, mode: TierMode) -> Cache {
    let disk = DiskTier::new(path, 256 << 20).mode(mode).dirty_bytes(16 << 20);
    Cache::builder().memory_bytes(2 << 20).cas(true).tier(disk).open().unwrap()
}

fn value(number: u32) -> Vec<u8> {
    format!("value {number} ").into_bytes().repeat(80)
}

fn fill(cache: &Cache) {
    for number in 0..ITEMS {
        cache.set(number.to_le_bytes(), value(number), None).unwrap();
    }
}

/// Returns the number of disk reads during a read of an item.
fn reads_of(cache: &Cache, read: impl FnOnce()) -> u64 {
    let reads = || cache.tier().unwrap().statistics.reads;
    let before = reads();
    read();
    reads() - before
}

fn get(cache: &Cache, number: u32) -> u64 {
    reads_of(cache, || {
        assert_eq!(cache.get(number.to_le_bytes()).unwrap(), value(number), "{number}");
    })
}

/// Returns the numbers of the items that are no longer in memory.
fn cold(cache: &Cache) -> impl Iterator<Item = u32> {
    cache.sync().unwrap();
    (0..ITEMS / 4).step_by(20)
}

#[test]
fn with_full_memory_an_item_returns_when_it_is_read_again() {
    for mode in [TierMode::Store, TierMode::Cache] {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(&folder.path().join("tier"), mode);
        fill(&cache);
        for number in cold(&cache).take(20) {
            let reads: Vec<u64> = (0..4).map(|_| get(&cache, number)).collect();
            assert_eq!(reads, [1, 1, 0, 0], "{mode:?}, {number}: reads of the disk for each get");
        }
    }
}

#[test]
fn a_scan_of_the_disk_pushes_nothing_out_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder.path().join("tier"), TierMode::Store);
    fill(&cache);
    let hot = ITEMS - 50..ITEMS;
    let scanned: u64 = cold(&cache).map(|number| get(&cache, number)).sum();
    assert!(scanned >= 100, "the scan read {scanned} items on the disk");
    let of_hot: u64 = hot.map(|number| get(&cache, number)).sum();
    assert_eq!(of_hot, 0, "items that memory had were read on the disk after a scan");
}

#[test]
fn while_memory_has_room_the_first_read_brings_an_item_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    fill(&open(&path, TierMode::Store));
    let cache = open(&path, TierMode::Store);
    for number in 0..200 {
        assert_eq!([get(&cache, number), get(&cache, number)], [1, 0], "{number}");
    }
}

#[test]
fn what_a_change_needs_returns_at_once_and_so_do_long_values() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder.path().join("tier"), TierMode::Store);
    cache.set("long", vec![7; 40_000], None).unwrap();
    fill(&cache);
    let numbers: Vec<u32> = cold(&cache).collect();
    let touched = numbers[0].to_le_bytes();
    assert_eq!(reads_of(&cache, || assert!(cache.touch(touched, None).unwrap())), 1);
    assert_eq!(get(&cache, numbers[0]), 0);
    let long = || assert_eq!(cache.get("long").unwrap(), [7; 40_000]);
    assert_eq!([reads_of(&cache, long), reads_of(&cache, long)], [1, 0]);
    // A caller that may claim the recache token of the item that it has read needs the item in
    // memory.
    let key = numbers[1].to_le_bytes();
    let options = ReadOptions { noted: true, value: true };
    let read = cache.read_as(&key, options, &mut Vec::new(), |_, _| ());
    let Read::Hit(meta) = read else { panic!("{read:?}") };
    assert!(cache.claim(&key, meta.cas), "the recache token is free");
}

#[test]
fn an_item_that_expires_in_memory_is_known_to_be_expired_without_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskTier::new(folder.path().join("tier"), 256 << 20);
    let cache = Cache::builder().memory_bytes(2 << 20).clock(Clock::Ticked).tier(disk);
    let cache = cache.open().unwrap();
    cache.set("k", "v", Some(Duration::from_secs(10))).unwrap();
    cache.sync().unwrap();
    cache.tick(cache.now() + 11);
    let (whole, returns) = (ReadOptions { noted: true, value: true }, PromotionPolicy::IfReused);
    let deferred = Deferred::default();
    let read =
        cache.raw(Wait::Ask(&deferred)).read(b"k", whole, returns, &mut Vec::new(), |_, _| ());
    assert!(matches!(read, Poll::Ready(Read::Miss(Miss::Expired))), "{read:?}");
}
