//! An exact LRU over items. It tests the trace parser: its miss ratios on the traces are known.

use std::collections::{BTreeMap, HashMap};

use larder_loadgen::trace::{Operation, Request, Trace};

/// The bytes of an item in addition to its key and value.
const ITEM_OVERHEAD_BYTES: u64 = 24;

#[derive(Default)]
struct Lru {
    budget_bytes: u64,
    used_bytes: u64,
    clock: u64,
    items: HashMap<u32, Item>,
    /// The ids of the items by the time of their last use.
    order: BTreeMap<u64, u32>,
}

struct Item {
    bytes: u64,
    /// The second in which the item expires; 0 if it never expires.
    deadline: u32,
    used_at: u64,
}

impl Lru {
    fn get(&mut self, id: u32, now: u32) -> bool {
        let Some(item) = self.items.get_mut(&id) else { return false };
        if item.deadline != 0 && item.deadline <= now {
            self.remove(id);
            return false;
        }
        self.clock += 1;
        self.order.remove(&item.used_at);
        item.used_at = self.clock;
        self.order.insert(self.clock, id);
        true
    }

    fn set(&mut self, request: &Request, now: u32) {
        self.remove(request.id);
        let bytes = u64::from(request.item_bytes) + ITEM_OVERHEAD_BYTES;
        let deadline = if request.ttl_secs == 0 { 0 } else { now + request.ttl_secs };
        self.clock += 1;
        self.used_bytes += bytes;
        self.items.insert(request.id, Item { bytes, deadline, used_at: self.clock });
        self.order.insert(self.clock, request.id);
        while self.used_bytes > self.budget_bytes {
            let (_, oldest) =
                self.order.first_key_value().expect("an item that uses bytes is in the order");
            self.remove(*oldest);
        }
    }

    fn remove(&mut self, id: u32) {
        if let Some(item) = self.items.remove(&id) {
            self.order.remove(&item.used_at);
            self.used_bytes -= item.bytes;
        }
    }
}

fn miss_ratio(trace: &Trace, budget_bytes: u64) -> f64 {
    let mut lru = Lru { budget_bytes, ..Lru::default() };
    let (mut gets, mut misses) = (0u32, 0u32);
    for (now, request) in trace.requests() {
        if request.operation == Operation::LookAside {
            gets += 1;
            if lru.get(request.id, now) {
                continue;
            }
            misses += 1;
        }
        lru.set(request, now);
    }
    f64::from(misses) / f64::from(gets)
}

#[test]
fn an_exact_lru_has_the_known_miss_ratios_on_the_parsed_traces() {
    let Some(folder) = larder_testkit::traces() else { return };
    for (name, scale, budget_bytes, expected) in KNOWN {
        let path = folder.join(name).with_extension("csv.zst");
        let trace = Trace::read(&path, None, scale).unwrap();
        let found = miss_ratio(&trace, budget_bytes);
        assert!(
            (found - expected).abs() < 0.00005,
            "{name}, {budget_bytes}: {found:.4}, known {expected}"
        );
    }
}

/// Trace, scale, budget in bytes, miss ratio.
const KNOWN: [(&str, u32, u64, f64); 11] = [
    ("adapt_size", 1, 8_392_133, 0.7088),
    ("adapt_size", 1, 27_973_779, 0.6564),
    ("orm-busy-2M", 16, 8_588_879, 0.1930),
    ("orm-busy-2M", 16, 28_629_598, 0.1408),
    ("synth-kv-ttl", 16, 13_753_682, 0.3498),
    ("synth-kv-ttl", 16, 45_845_609, 0.2747),
    ("synth-kv-write", 16, 14_006_480, 0.3383),
    ("synth-kv-write", 16, 46_688_267, 0.2511),
    ("w106-1M", 16, 5_793_184, 0.2170),
    ("w106-1M", 16, 19_310_616, 0.1568),
    ("web07", 16, 10_182_296, 0.4452),
];
