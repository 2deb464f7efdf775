//! The memory of an item in each cache.
//!
//! Each cache is measured in a separate process. In one process, a cache could reuse memory that
//! another cache has freed.

use std::process::Command;

use larder_bench::resident_bytes;

use crate::contender::{self, NAMES};
use crate::workload::{KEY_BYTES, Measured, VALUE_BYTES};

/// The first argument of a child process. The other arguments select the measurement.
const FLAG: &str = "--footprint";

/// The number of items that are stored in a measured cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Fewer items than its capacity, so that nothing is evicted.
    Fitting,
    /// Its capacity times this factor.
    Overflowing(u64),
}

/// Prints a line for each cache: resident memory / items, including all overhead, and the part in
/// addition to key and value.
pub(crate) fn print_footprints(items: u64) {
    println!();
    println!("resident bytes an item takes, all in, and beyond its key and value");
    println!("memory       cache          bytes  beyond");
    for name in NAMES {
        let bytes = bytes_per_item(name, items, VALUE_BYTES, Load::Fitting);
        let beyond = bytes - (KEY_BYTES + VALUE_BYTES) as f64;
        println!("memory/item  {name:<12} {bytes:>7.1} {beyond:>7.1}");
    }
}

/// Returns the resident memory / items of a cache, measured in a separate process.
pub(crate) fn bytes_per_item(name: &str, items: u64, value_bytes: usize, load: Load) -> f64 {
    let program = std::env::current_exe().expect("the system reports the path of the program");
    let times = if let Load::Overflowing(times) = load { times } else { 0 };
    let numbers = [items, value_bytes as u64, times].map(|number| number.to_string());
    let output = Command::new(program).args([FLAG, name]).args(numbers).output();
    let output = output.expect("a process can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    let Ok(bytes) = text.trim().parse::<f64>() else {
        panic!("{name} cannot be measured: {text}{}", String::from_utf8_lossy(&output.stderr));
    };
    bytes
}

/// If [`bytes_per_item`] has started this process as a child, measures the cache that the arguments
/// name, prints the result and returns true. The caller then has nothing left to do.
pub(crate) fn has_printed_one() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, name, numbers @ ..] = &arguments[..] else { return false };
    if flag != FLAG {
        return false;
    }
    let numbers: Vec<u64> =
        numbers.iter().map(|number| number.parse().expect("the parent gives numbers")).collect();
    let [items, value_bytes, times] = numbers[..] else { panic!("the parent gives three numbers") };
    let load = if times == 0 { Load::Fitting } else { Load::Overflowing(times) };
    println!("{}", measured_bytes_per_item(name, items, value_bytes as usize, load));
    true
}

fn measured_bytes_per_item(name: &str, items: u64, value_bytes: usize, load: Load) -> f64 {
    let before = resident_bytes();
    let (capacity, stored) = match load {
        // Capacity for a quarter more items, because some shards receive more than their share.
        Load::Fitting => (items * 5 / 4, items),
        Load::Overflowing(times) => (items, items * times),
    };
    let cache: Box<dyn Measured> = match name {
        "larder" => {
            let item_bytes = (KEY_BYTES + value_bytes + 40) as u64;
            Box::new(contender::larder(capacity * item_bytes + (1 << 20)))
        }
        other => contender::other(other, capacity, value_bytes),
    };
    cache.fill(stored, value_bytes);
    let taken = resident_bytes() - before;
    if load == Load::Fitting {
        assert_eq!(cache.held(items, value_bytes), items, "{name} has evicted items");
    }
    taken as f64 / items as f64
}
