use std::fs;
use std::mem;

use larder_region::layout::PEERS_MAX;

use crate::engine::Engine;
use crate::fixtures::{SMALL, two_peers_of};
use crate::open::Config;

/// Returns the resident bytes of a region, as far as this process has touched it.
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

/// The region is that of 256 GiB, with the largest number of peers: the table of holds has 512 MiB.
#[test]
fn rows_of_peers_take_memory_only_where_they_hold_something() {
    const PAGE_BYTES: usize = 4096;
    const ROW_BYTES: usize = 2 << 20;
    let config = Config { memory_bytes: 256 << 20, memory_bytes_max: 256 << 30, ..SMALL };
    let (dead, engine) = two_peers_of(&config);
    let layout = *engine.region().layout();
    assert_eq!(layout.peers, PEERS_MAX);
    let table = layout.peers * layout.segments * 8;
    assert!(table > 500 << 20, "the table of holds has {table} bytes");
    let thread = engine.register().unwrap();
    engine.set_memory_limit(&thread, layout.region_bytes).unwrap();
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
    let (holders, of_all) = (layout.segments * 8 * layout.holder_words(), added(before));
    // All segments count as used: the repair looks at the dead peer's whole row.
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
