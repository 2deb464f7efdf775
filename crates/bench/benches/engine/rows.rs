//! Rows of the table: an operation on every cache, with one thread and with two.

use crate::contender::NAMES;
use crate::workload::{Measured, Operation, Slice, Workload, clean_ns, measure};

/// The caches in the order of [`NAMES`].
pub(crate) type Contenders<'a> = [&'a dyn Measured; NAMES.len()];

/// Returns Larder and the other caches as contenders.
pub(crate) fn beside<'a>(
    larder: &'a dyn Measured,
    others: &'a [Box<dyn Measured>; NAMES.len() - 1],
) -> Contenders<'a> {
    std::array::from_fn(|index| match index {
        0 => larder,
        index => &*others[index - 1],
    })
}

pub(crate) fn print_head() {
    println!("ratio: larder's time / the cache's; scaling: throughput / that of one thread");
    println!(
        "clean: the slices of time that count, in which all threads had a processor (NaN: too few)"
    );
    println!("operation        threads  cache          ns/op    ratio  scaling  clean");
}

/// Measures an operation with one thread and with two, and prints a line for each cache. The caches
/// take turns, slice by slice, so that drift of the machine's speed affects all of them. Prints
/// medians.
pub(crate) fn compare(
    name: &str,
    operation: Operation,
    contenders: &Contenders<'_>,
    workload: Workload,
) {
    let mut ns_alone = [0.0; NAMES.len()];
    for thread_count in [1, 2] {
        let measure = |round| {
            contenders.map(|cache| measure(&vec![cache; thread_count], operation, workload, round))
        };
        let rounds: Vec<_> = (0..workload.rounds).map(measure).collect();
        let mut larder_ns = 0.0;
        for (index, cache) in NAMES.iter().enumerate() {
            let slices: Vec<Slice> = rounds.iter().map(|round| round[index]).collect();
            let (ns, clean) = clean_ns(&slices);
            if index == 0 {
                larder_ns = ns;
            }
            if thread_count == 1 {
                ns_alone[index] = ns;
            }
            let (ratio, scaling) = (larder_ns / ns, thread_count as f64 * ns_alone[index] / ns);
            println!(
                "{name:<16} {thread_count:>7}  {cache:<12} {ns:>7.1} {ratio:>8.3} {scaling:>8.2}   {clean:.2}"
            );
        }
    }
}

/// Prints the cost of a get in a batch of prefetched keys, and its ratio to the cost of a single
/// get. The other caches cannot prefetch.
pub(crate) fn compare_batched(larder: &dyn Measured, workload: Workload) {
    let mut slices = [Vec::new(), Vec::new()];
    for round in 0..workload.rounds {
        for (slices, operation) in slices.iter_mut().zip([Operation::BatchedGet, Operation::Get]) {
            slices.push(measure(&[larder], operation, workload, round));
        }
    }
    let [(batched, _), (single, _)] = slices.map(|slices| clean_ns(&slices));
    println!(
        "get, 16 at once        1  larder       {batched:>7.1}  {:.3} of a single get",
        batched / single
    );
}
