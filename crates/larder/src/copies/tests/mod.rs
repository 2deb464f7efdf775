//! Tests of the room of the copies in one thread.

mod absent;
mod flights;
mod invalidating;
mod keeping;
mod keys;
mod making_room;
mod with_a_cache;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::task::Wake;

use super::*;
use crate::copies::keys::entry_bytes;

const BUCKET: u32 = 7;
/// Another bucket of the same stripe.
const NEXT_BUCKET: u32 = BUCKET + STRIPES as u32;
const PLACE: Place = Place { subscription: 0, bucket: BUCKET };
const NEXT_PLACE: Place = Place { subscription: 0, bucket: NEXT_BUCKET };
const KEY: &[u8] = b"key";
const NOW_MS: u64 = 1000;

const AMPLE: CopyLimits = CopyLimits {
    listed_bytes_max: 1 << 30,
    absent_bytes_max: 1 << 20,
    value_bytes_max: 10,
    flight_age_max_ms: 50,
};

/// A value, and the time until which it may be used.
type Kept = (Vec<u8>, Option<u64>);

/// A store whose copies are in a map.
#[derive(Debug, Default)]
struct Shelf {
    copies: Mutex<BTreeMap<Vec<u8>, Kept>>,
    is_full: AtomicBool,
}

impl Shelf {
    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        lock(&self.copies).get(key).map(|(value, _)| value.clone())
    }

    fn until_ms(&self, key: &[u8]) -> Option<u64> {
        lock(&self.copies)[key].1
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        lock(&self.copies).keys().cloned().collect()
    }
}

impl CopyStore for Shelf {
    fn put(&self, key: &[u8], copy: &Fetched, until_ms: Option<u64>) -> bool {
        if self.is_full.load(SeqCst) {
            return false;
        }
        lock(&self.copies).insert(key.into(), (copy.value.clone(), until_ms));
        true
    }

    fn remove(&self, key: &[u8]) {
        lock(&self.copies).remove(key);
    }

    fn has(&self, key: &[u8]) -> bool {
        lock(&self.copies).contains_key(key)
    }

    fn clear(&self) {
        lock(&self.copies).clear();
    }
}

fn copies() -> Copies<Shelf> {
    usable(Copies::new(Shelf::default(), AMPLE))
}

/// Allows the use of copies.
fn usable<S: CopyStore>(copies: Copies<S>) -> Copies<S> {
    copies.refresh(NOW_MS);
    copies
}

fn noted(value: &str) -> Fetched {
    Fetched { value: value.into(), flags: 0, cas: 1, ttl_ms: None, is_noted: true }
}

fn value(value: &str) -> FlightResult {
    FlightResult::Value(Arc::new(noted(value)))
}

const ABSENT: FlightResult = FlightResult::Absent { is_noted: true };

/// Begins a flight.
fn begin<S: CopyStore>(copies: &Copies<S>, place: Place, key: &[u8]) -> Arc<Flight> {
    let (flight, is_new) = copies.join(place, key, NOW_MS, None);
    assert!(is_new, "another flight of this key is under way");
    flight
}

/// Fetches an item.
fn fetch<S: CopyStore>(
    copies: &Copies<S>,
    place: Place,
    key: &[u8],
    result: FlightResult,
) -> Result<(), NotKept> {
    copies.land(&begin(copies, place, key), place, result)
}

/// Returns the value that the readers of a flight have received.
fn received(flight: &Flight) -> Option<&[u8]> {
    match flight.result() {
        Some(FlightResult::Value(fetched)) => Some(&fetched.value),
        _ => None,
    }
}

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct Woken(AtomicUsize);

impl Woken {
    fn times(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}
