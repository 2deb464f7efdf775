use std::fs;
use std::mem;

use larder_region::layout::PEERS_MAX;
use larder_region::platform::SHARES_MEMORY;

use crate::engine::Engine;
use crate::fixtures::{SMALL, two_peers_of};
use crate::open::{Config, Role};

/// Returns the resident bytes of a region that this process has touched.
fn resident_bytes(engine: &Engine) -> usize {
    let address = std::ptr::from_ref(engine.region().word(0)).addr();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines();
    let holds_address = |line: &&str| {
        let bounds = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bound = |text| usize::from_str_radix(text, 16).ok();
        let bounds = bounds.and_then(|(from, to)| Some(bound(from)?..bound(to)?));
        bounds.is_some_and(|bounds| bounds.contains(&address))
    };
    lines.find(holds_address).expect("the region is mapped");
    let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// The region is as large as for 256 GiB and has the largest number of peers: its table of holds
/// has 8 GiB.
#[test]
fn rows_of_peers_take_memory_only_where_they_hold_something() {
    if !SHARES_MEMORY {
        return;
    }
    const PAGE_BYTES: usize = 4096;
    const ROW_BYTES: usize = 2 << 20;
    let (memory_bytes, memory_bytes_max) = (256 << 20, 256 << 30);
    let config = Config { memory_bytes, memory_bytes_max, peers: PEERS_MAX as u32, ..SMALL };
    let (dead, engine) = two_peers_of(&config);
    let layout = *engine.region().layout();
    assert_eq!(layout.peers, PEERS_MAX);
    let table = layout.peers * layout.segments * 8;
    assert!(table > 8000 << 20, "the table of holds has {table} bytes");
    let thread = engine.register().unwrap();
    engine.set_memory_limit(&thread, layout.capacity_bytes).unwrap();
    let of_both = resident_bytes(&engine);
    let added = |from: usize| resident_bytes(&engine) - from;

    engine.peers().raise_pin(1000);
    let of_one = added(of_both);
    engine.peers().unpin(1000);
    let before = resident_bytes(&engine);
    for segment in engine.segments().segment_numbers() {
        engine.peers().raise_pin(segment);
        engine.peers().unpin(segment);
    }
    // Of the holders, each segment's word for the first 64 peers is resident.
    let (holders, of_all) = (layout.segments * 8, added(before));
    // All segments count as used, so the repair walks over the dead peer's complete row.
    let fresh = engine.region().word(larder_region::layout::global::FRESH_SEGMENT);
    fresh.store(layout.segments as u64, super::Relaxed);
    let headers = layout.segments * (8 + larder_region::layout::SEGMENT_HEADER_BYTES);
    dead.peers().die();
    mem::forget(dead);
    let before = resident_bytes(&engine);
    assert!(engine.reclaimer().reap_peers());
    let of_repair = added(before);
    println!(
        "table {table}, two peers {of_both}, one hold {of_one}, a hold of each segment {of_all} \
         with {holders} of holders, the repair {of_repair} with {headers} of headers"
    );
    assert!(of_both < table / 16, "{of_both} bytes are resident while no peer holds anything");
    assert!(of_one <= 4 * PAGE_BYTES, "one hold takes {of_one} bytes");
    assert!(of_all <= holders + ROW_BYTES + 16 * PAGE_BYTES, "{of_all} bytes for one row");
    assert!(of_repair <= headers + ROW_BYTES + (2 << 20), "{of_repair} bytes for a repair");
}

/// A process that joins a large table looks at a few rows, and later processes look at the others.
#[test]
fn processes_that_join_a_large_table_find_all_dead_peers_together() {
    if !SHARES_MEMORY {
        return;
    }
    const PEERS: u32 = 200;
    let config = Config { peers: PEERS, ..SMALL };
    let (first, dead) = two_peers_of(&config);
    let mut peers = vec![first, dead];
    for _ in 2..PEERS - 1 {
        peers.push(another(&peers[0]));
    }
    let died = [1, 70, 150];
    died.iter().for_each(|row| peers[*row].peers().die());
    let are_in_use = |peers: &[Engine]| {
        died.iter().filter(|row| peers[0].peers().is_row_in_use(**row as u32)).count()
    };
    assert_eq!(are_in_use(&peers), died.len());
    for _ in 0..PEERS.div_ceil(super::REAPED_AT_ONCE as u32) {
        drop(another(&peers[0]));
    }
    assert_eq!(are_in_use(&peers), 0, "dead peers were not found");
    // The memory of the dead engines belongs to their processes.
    died.into_iter().rev().for_each(|row| mem::forget(peers.remove(row)));
}

/// A table without a free row accepts no process before another process has left.
#[test]
fn the_last_of_4096_processes_joins_and_the_next_one_finds_no_row() {
    if !SHARES_MEMORY {
        return;
    }
    let config = Config { peers: PEERS_MAX as u32, ..SMALL };
    let (first, second) = two_peers_of(&config);
    let layout = *first.region().layout();
    assert_eq!((layout.peers, layout.thread_slots), (PEERS_MAX, 2 * PEERS_MAX));
    let locks = first.peers().reopened_locks().unwrap().unwrap();
    for row in 2..PEERS_MAX as u32 - 1 {
        assert!(locks.try_lock(super::lock_byte(row)).unwrap());
        first.peers().peer_word(row, super::IN_USE).store(1, super::Relaxed);
    }
    let last = another(&first);
    assert_eq!(last.peers().row(), PEERS_MAX as u32 - 1);
    let thread = last.register_reserved();
    last.bump(&thread, larder_stats::Counter::GetHits, 1);
    assert_eq!(first.counter(larder_stats::Counter::GetHits), 1);
    let Role::Reader(_, full) = first.in_child(0).unwrap() else { panic!("there is no row") };
    assert!(full.to_string().contains("4096 processes use the cache"), "{full}");
    drop(second);
    assert_eq!(another(&first).peers().row(), 1);
}

/// Joins the processes that share a region.
fn another(engine: &Engine) -> Engine {
    engine.in_child(0).unwrap().peer().unwrap()
}
