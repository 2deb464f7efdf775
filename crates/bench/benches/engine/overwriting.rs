//! Sets that overwrite a few hot items: the cost of a set without waiting for memory.

use crate::contender;
use crate::rows::{beside, compare, print_head};
use crate::workload::{Operation, VALUE_BYTES, Workload};

/// Few enough items that their records and groups stay in the processor's caches.
const ITEMS: u64 = 10_000;
const MEMORY_BYTES: u64 = 64 << 20;

/// Prints the rows of sets that overwrite hot items.
pub(crate) fn compare_overwriting(workload: Workload) {
    let larder = contender::larder(MEMORY_BYTES);
    let others = contender::others(2 * ITEMS, VALUE_BYTES);
    let contenders = beside(&larder, &others);
    contenders.iter().for_each(|cache| cache.fill(ITEMS, VALUE_BYTES));

    println!();
    println!("{ITEMS} hot items, values of {VALUE_BYTES}, {} MiB; as before", MEMORY_BYTES >> 20);
    print_head();
    let workload = Workload { items: ITEMS, ..workload };
    compare("set, hot items", Operation::Set(VALUE_BYTES), &contenders, workload);
}
