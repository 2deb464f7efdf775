//! Sets with memory for a quarter of the stored items.

use crate::contender::{self, Moka, NAMES, QuickCache};
use crate::rows::{Contenders, compare, print_head};
use crate::workload::{Operation, Popularity, Workload};

/// Stored items divided by the items that the caches hold.
const PRESSURE: u64 = 4;

/// Prints the rows of sets that evict, and the hit ratio afterwards: speed is no merit if the wrong
/// items are evicted. All caches hold as many items as Larder does in `memory_bytes`.
pub(crate) fn compare_evicting(memory_bytes: u64, workload: Workload) {
    let larder = contender::larder(memory_bytes);
    let larder_held = {
        use crate::workload::Measured;
        let stored = PRESSURE * memory_bytes / 128;
        larder.fill(stored);
        larder.held(stored)
    };
    let quick_cache = QuickCache::new(larder_held as usize);
    let moka = Moka::new(larder_held);
    let foyer = contender::foyer(larder_held);
    let contenders: Contenders<'_> = [&larder, &quick_cache, &moka, &foyer];

    let items = PRESSURE * larder_held;
    let workload = Workload { items, popularity: Popularity::Zipf, ..workload };
    println!();
    println!(
        "{items} items by Zipf's law, {larder_held} held at once; as before, and what is held then"
    );
    print_head();
    contenders.iter().for_each(|cache| cache.fill(items));
    compare("set, evicting", Operation::Set, &contenders, workload);
    let asked = Workload { operations: items / 4, ..workload };
    for (name, cache) in NAMES.iter().zip(contenders) {
        let hit_ratio = cache.hit_ratio(asked, workload.rounds);
        println!(
            "held, evicting          {name:<12} {} items, {hit_ratio:.4} of gets hit",
            cache.held(items)
        );
    }
}
