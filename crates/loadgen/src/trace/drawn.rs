//! Traces whose requests are drawn at random.

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::{Operation, Request, Trace};
use crate::mix::mix;
use crate::skewed::{SkewedKeys, share};

/// The properties of a trace of gets that is drawn at random.
#[derive(Clone, Copy, Debug)]
pub struct Drawing {
    /// The number of keys.
    pub key_count: u32,
    /// The exponent of the Zipf distribution of the keys; 0 is uniform.
    pub skew: f64,
    /// The number of requests.
    pub request_count: u32,
    /// Bytes of the key and value of each item.
    pub item_bytes: u32,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Trace {
    /// Draws a trace. The number of a key is its rank: the most frequent one is 0.
    pub fn draw(drawing: &Drawing) -> Self {
        let keys = SkewedKeys::new(drawing.key_count, drawing.skew);
        let mut random = SmallRng::seed_from_u64(mix(drawing.seed));
        let mut request = || Request {
            id: keys.draw(&mut random),
            operation: Operation::LookAside,
            item_bytes: drawing.item_bytes,
            ttl_secs: 0,
        };
        let requests = (0..drawing.request_count).map(|_| request()).collect();
        Self { requests, key_count: drawing.key_count, has_ttls: false }
    }

    /// Turns this share of the requests, chosen at random, into sets.
    #[must_use]
    pub fn with_writes(mut self, writes: f64, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(mix(!seed));
        for request in &mut self.requests {
            if share(&mut random) < writes {
                request.operation = Operation::Set;
            }
        }
        self
    }

    /// Adds a set of each requested key before the first request, so that no item is missing.
    #[must_use]
    pub fn with_stores_first(self) -> Self {
        let mut is_stored = vec![false; self.key_count as usize];
        let is_first =
            |request: &&Request| !std::mem::replace(&mut is_stored[request.id as usize], true);
        let first = self.requests.iter().filter(is_first);
        let stores =
            first.map(|request| Request { operation: Operation::Set, ttl_secs: 0, ..*request });
        let mut requests: Vec<_> = stores.collect();
        requests.extend_from_slice(&self.requests);
        Self { requests, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: Drawing =
        Drawing { key_count: 1000, skew: 0.99, request_count: 10_000, item_bytes: 116, seed: 7 };

    #[test]
    fn the_first_keys_are_the_most_frequent() {
        let trace = Trace::draw(&DRAWING);
        assert_eq!((trace.request_count(), trace.key_count()), (10_000, 1000));
        let of = |id| trace.requests.iter().filter(|request| request.id == id).count();
        let (first, second, last) = (of(0), of(1), of(999));
        // By theory 1,294 and 651 in 10,000.
        assert!((1150..1450).contains(&first), "{first}");
        assert!((550..750).contains(&second), "{second}");
        assert!(last < 20, "{last}");
        assert_eq!(Trace::draw(&DRAWING).requests, trace.requests, "a seed repeats its trace");
        let other = Trace::draw(&Drawing { seed: 8, ..DRAWING });
        assert_ne!(other.requests, trace.requests);
        let even = Trace::draw(&Drawing { skew: 0.0, ..DRAWING });
        let first = even.requests.iter().filter(|request| request.id == 0).count();
        assert!(first < 30, "{first}");
    }

    #[test]
    fn a_share_of_the_requests_becomes_sets() {
        let sets = |writes| {
            let trace = Trace::draw(&DRAWING).with_writes(writes, 1);
            trace.requests.iter().filter(|it| it.operation == Operation::Set).count()
        };
        assert_eq!((sets(0.0), sets(1.0)), (0, 10_000));
        assert!((800..1200).contains(&sets(0.1)), "{}", sets(0.1));
    }

    #[test]
    fn each_key_is_stored_first_with_its_first_size() {
        let trace = Trace::of_lines("0,50\n1,60\n0,70,0,1\n").unwrap().with_stores_first();
        let requests: Vec<_> =
            trace.requests.iter().map(|it| (it.id, it.operation, it.item_bytes)).collect();
        let (get, set) = (Operation::LookAside, Operation::Set);
        assert_eq!(
            requests,
            [(0, set, 50), (1, set, 60), (0, get, 50), (1, get, 60), (0, set, 70)]
        );
    }
}
