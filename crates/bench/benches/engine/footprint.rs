//! The memory of an item in each cache.
//!
//! Each cache is measured in a process of its own. In one process, a cache could reuse the memory
//! that another has freed, and the shares would be unknown.

use std::process::Command;

use larder_bench::resident_bytes;

use crate::contender::{self, Moka, NAMES, QuickCache};
use crate::workload::{KEY_BYTES, Measured, VALUE_BYTES};

/// The first argument of a child process; the second one names the cache to measure.
const FLAG: &str = "--footprint";

/// Prints a line for each cache: resident memory / items, everything included, and the part beyond
/// key and value.
pub(crate) fn print_footprints(items: u64) {
    println!();
    println!("resident bytes an item takes, all in, and beyond its key and value");
    println!("memory       cache          bytes  beyond");
    for name in NAMES {
        let program = std::env::current_exe().expect("a process knows its program");
        let output = Command::new(program).args([FLAG, name, &items.to_string()]).output();
        let output = output.expect("a process can be started");
        let text = String::from_utf8_lossy(&output.stdout);
        let Ok(bytes) = text.trim().parse::<f64>() else {
            panic!("{name} cannot be measured: {text}{}", String::from_utf8_lossy(&output.stderr));
        };
        let beyond = bytes - (KEY_BYTES + VALUE_BYTES) as f64;
        println!("memory/item  {name:<12} {bytes:>7.1} {beyond:>7.1}");
    }
}

/// True if this process is such a child; it has printed its measurement then.
pub(crate) fn has_printed_one() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, name, items] = &arguments[..] else { return false };
    if flag != FLAG {
        return false;
    }
    let items = items.parse().expect("the parent gives a number");
    println!("{}", bytes_per_item(name, items));
    true
}

fn bytes_per_item(name: &str, items: u64) -> f64 {
    let before = resident_bytes();
    // A quarter more than the items, for shards with more than their share. Nothing is evicted.
    let capacity = items * 5 / 4;
    let cache: Box<dyn Measured> = match name {
        "larder" => Box::new(contender::larder(capacity * 160 + (1 << 20))),
        "quick_cache" => Box::new(QuickCache::new(capacity as usize)),
        "moka" => Box::new(Moka::new(capacity)),
        "foyer" => Box::new(contender::foyer(capacity)),
        other => panic!("unknown cache {other}"),
    };
    cache.fill(items);
    let taken = resident_bytes() - before;
    assert_eq!(cache.held(items), items, "{name} has evicted items");
    taken as f64 / items as f64
}
