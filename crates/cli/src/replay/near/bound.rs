//! The hit ratio of near caches that evict in the order of storing, with a second chance for copies
//! that were read. It is the bound by which the near caches of a replay are judged.

use std::collections::{HashMap, VecDeque};

use larder_loadgen::trace::{Operation, Trace};

use super::cluster::Routes;
use super::origin::Origin;
use crate::replay::key::Key;

/// The copies of a near cache of this kind.
#[derive(Debug)]
struct SecondChance {
    copies_max: usize,
    copies: HashMap<u32, Copy>,
    /// Keys and the numbers of their stores, in this order. A copy that was dropped stays here
    /// until its turn.
    queue: VecDeque<(u32, u64)>,
    store_count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Copy {
    /// The number of its store.
    store: u64,
    was_read: bool,
}

impl SecondChance {
    fn new(copies_max: usize) -> Self {
        let (copies, queue) = (HashMap::new(), VecDeque::new());
        Self { copies_max, copies, queue, store_count: 0 }
    }

    /// Reads a copy. Returns false if there is none.
    fn read(&mut self, key: u32) -> bool {
        let copy = self.copies.get_mut(&key);
        copy.map(|copy| copy.was_read = true).is_some()
    }

    fn store(&mut self, key: u32) {
        while self.copies.len() >= self.copies_max {
            let Some((oldest, store)) = self.queue.pop_front() else { return };
            let Some(copy) = self.copies.get_mut(&oldest).filter(|copy| copy.store == store) else {
                continue;
            };
            match std::mem::take(&mut copy.was_read) {
                true => self.queue.push_back((oldest, store)),
                false => _ = self.copies.remove(&oldest),
            }
        }
        if self.queue.len() > self.copies_max * 2 {
            self.queue
                .retain(|(key, store)| self.copies.get(key).is_some_and(|it| it.store == *store));
        }
        self.store_count += 1;
        self.copies.insert(key, Copy { store: self.store_count, was_read: false });
        self.queue.push_back((key, self.store_count));
    }

    fn drop_copy(&mut self, key: u32) {
        self.copies.remove(&key);
    }
}

/// Returns the hit ratio of near caches with at most `copies_max` copies each, from the request
/// `counted_from` on. The origin has every item.
pub(super) fn hit_ratio(
    trace: &Trace,
    routes: Routes,
    origin: &Origin,
    copies_max: usize,
    counted_from: usize,
) -> f64 {
    let mut near: Vec<_> = (0..routes.near_count).map(|_| SecondChance::new(copies_max)).collect();
    let buckets: Vec<_> = (0..trace.key_count()).map(|id| origin.bucket_of(&Key::of(id))).collect();
    let mut keys: HashMap<u32, Vec<u32>> = HashMap::new();
    for (id, bucket) in (0..).zip(&buckets) {
        keys.entry(*bucket).or_default().push(id);
    }
    let (mut gets, mut hits) = (0_u64, 0_u64);
    for (index, (_, request)) in trace.requests().enumerate() {
        let id = request.id;
        if request.operation == Operation::Set {
            for key in keys.get(&buckets[id as usize]).into_iter().flatten() {
                near.iter_mut().for_each(|near| near.drop_copy(*key));
            }
            continue;
        }
        let near = &mut near[routes.near_of(index)];
        let is_hit = near.read(id);
        if !is_hit {
            near.store(id);
        }
        if index >= counted_from {
            gets += 1;
            hits += u64::from(is_hit);
        }
    }
    hits as f64 / gets.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_read_is_evicted_one_turn_later() {
        let mut near = SecondChance::new(2);
        near.store(1);
        near.store(2);
        assert!(near.read(1));
        near.store(3);
        assert!(!near.read(2), "the oldest copy that was not read makes way");
        near.store(4);
        assert!(!near.read(1), "it was not read since");
        assert!(near.read(3) && near.read(4));
    }

    #[test]
    fn a_dropped_copy_makes_room_and_leaves_no_trace() {
        let mut near = SecondChance::new(2);
        near.store(1);
        near.store(2);
        near.drop_copy(1);
        near.store(1);
        assert!(near.read(1) && near.read(2));
        for round in 0..100 {
            near.drop_copy(1);
            near.store(1);
            assert!(near.queue.len() <= 5, "{round}: {}", near.queue.len());
        }
        assert!(near.read(2));
    }
}
