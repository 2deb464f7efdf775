//! The pending requests of a connection: those whose response is not complete. Servers respond in
//! the order of the requests, so each reply belongs to the first pending request.

use std::collections::VecDeque;

use crate::request::draw::{Drawn, Pool, key};
use crate::tally::{Second, Tally};
use crate::value::is_value;
use crate::wire::dialect::{Name, Reply};

/// The pending requests, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    requests: VecDeque<PendingRequest>,
    /// The keys of all pending lookups, in the order of the requests.
    keys: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    /// The due time of the request; in a closed loop the time of sending.
    due_ns: u64,
    /// The request. For a get of several keys it contains the first key.
    drawn: Drawn,
    /// Keys for which the server has not responded yet.
    keys_left: u32,
}

/// The counters that a reply changes, and the list of missed keys.
pub(crate) struct Books<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) tally: &'a mut Tally,
    pub(crate) second: &'a mut Second,
    /// The sets of missed keys.
    pub(crate) missed: &'a mut VecDeque<Drawn>,
    /// True if missed keys must be set.
    pub(crate) keeps_missed: bool,
}

impl PendingRequests {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds a request. A get requests all of these keys.
    pub(crate) fn push(&mut self, due_ns: u64, drawn: Drawn, keys: &[u32]) {
        self.keys.extend(keys);
        let keys_left = keys.len() as u32;
        self.requests.push_back(PendingRequest { due_ns, drawn, keys_left });
    }

    /// Matches a reply to the first pending request and counts it.
    ///
    /// # Errors
    /// The reply matches no pending request, so that later replies cannot be trusted either.
    pub(crate) fn take(
        &mut self,
        reply: Reply<'_>,
        now_ns: u64,
        books: &mut Books<'_>,
    ) -> Result<(), &'static str> {
        let asked = self.requests.front().copied().ok_or("a request that was never sent")?;
        match (asked.drawn.is_get, reply) {
            (true, Reply::Hit { name, value, is_last }) => {
                self.take_hit(name, value, books)?;
                if is_last {
                    self.finish(asked, now_ns, books);
                }
            }
            (true, Reply::End) | (false, Reply::Stored) => self.finish(asked, now_ns, books),
            (_, Reply::Error(words)) => {
                books.tally.count_errors(words, 1);
                books.second.errors += 1;
                self.drop_front();
            }
            _ => return Err("with a reply of another kind"),
        }
        Ok(())
    }

    fn take_hit(
        &mut self,
        name: Name<'_>,
        value: &[u8],
        books: &mut Books<'_>,
    ) -> Result<(), &'static str> {
        let asked = self.requests.front_mut().ok_or("a request that was never sent")?;
        loop {
            let number = self.keys.front().copied().filter(|_| asked.keys_left > 0);
            let number = number.ok_or("with another key's item")?;
            self.keys.pop_front();
            asked.keys_left -= 1;
            let is_this = match name {
                Name::Key(found) => found == key(number),
                Name::Opaque(found) => found == number,
                Name::Nothing => true,
            };
            if is_this {
                books.tally.gets += 1;
                books.tally.hits += 1;
                books.second.gets += 1;
                books.second.hits += 1;
                let is_right = books.pool.is_size_of(number, value.len())
                    && is_value(value_seed(number, value.len()), value);
                books.tally.wrong_values += u64::from(!is_right);
                return Ok(());
            }
            books.miss(number, asked.drawn);
        }
    }

    /// Removes the first request after its response is complete. The keys that the response did not
    /// contain are misses.
    fn finish(&mut self, asked: PendingRequest, now_ns: u64, books: &mut Books<'_>) {
        let keys_left = self.requests.front().map_or(0, |asked| asked.keys_left);
        for number in self.keys.drain(..keys_left as usize) {
            books.miss(number, asked.drawn);
        }
        self.requests.pop_front();
        books.tally.requests += 1;
        books.tally.sets += u64::from(!asked.drawn.is_get);
        let latency_ns = now_ns.saturating_sub(asked.due_ns);
        books.tally.latency_ns.saturating_record(latency_ns);
        books.second.latency_ns.saturating_record(latency_ns);
    }

    fn drop_front(&mut self) {
        if let Some(asked) = self.requests.pop_front() {
            self.keys.drain(..asked.keys_left as usize);
        }
    }
}

impl Books<'_> {
    fn miss(&mut self, number: u32, asked: Drawn) {
        self.tally.gets += 1;
        self.second.gets += 1;
        if self.keeps_missed && self.missed.len() < MISSED_MAX {
            self.missed.push_back(self.pool.fill(number, asked));
        }
    }
}

/// Returns the seed of a key's value. The size is part of it, so that a truncated value is
/// detected.
pub(crate) fn value_seed(number: u32, value_bytes: usize) -> u64 {
    u64::from(number) << 32 | value_bytes as u64
}

/// Missed keys beyond this number are dropped. Later lookups miss them again.
const MISSED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::draw::Pool;
    use crate::value::write_value;

    struct Scene {
        pool: Pool,
        tally: Tally,
        second: Second,
        missed: VecDeque<Drawn>,
        pending: PendingRequests,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                pool: Pool::of_keys(10),
                tally: Tally::default(),
                second: Second::new(0),
                missed: VecDeque::new(),
                pending: PendingRequests::default(),
            }
        }

        fn take(&mut self, reply: Reply<'_>) -> Result<(), &'static str> {
            let mut books = Books {
                pool: &self.pool,
                tally: &mut self.tally,
                second: &mut self.second,
                missed: &mut self.missed,
                keeps_missed: true,
            };
            self.pending.take(reply, 5000, &mut books)
        }

        fn hit(&mut self, number: u32, value: &[u8]) -> Result<(), &'static str> {
            let name = Name::Key(&key(number));
            self.take(Reply::Hit { name, value, is_last: false })
        }
    }

    fn get(number: u32) -> Drawn {
        Drawn { key: number, is_get: true, value_bytes: 100, ttl_secs: 0 }
    }

    fn value(number: u32, value_bytes: usize) -> Vec<u8> {
        let mut value = Vec::new();
        write_value(value_seed(number, value_bytes), value_bytes, &mut value);
        value
    }

    #[test]
    fn keys_of_a_multiget_without_a_reply_are_misses() {
        let mut scene = Scene::new();
        scene.pending.push(1000, get(3), &[3, 4, 5, 6]);
        scene.pending.push(2000, Drawn { is_get: false, ..get(9) }, &[]);
        scene.hit(4, &value(4, 100)).unwrap();
        scene.hit(5, &value(5, 100)).unwrap();
        scene.take(Reply::End).unwrap();
        scene.take(Reply::Stored).unwrap();
        let tally = &scene.tally;
        assert_eq!((tally.requests, tally.gets, tally.hits, tally.sets), (2, 4, 2, 1));
        assert_eq!(tally.wrong_values, 0);
        let missed: Vec<u32> = scene.missed.iter().map(|set| set.key).collect();
        assert_eq!(missed, [3, 6]);
        assert_eq!((tally.latency_ns.max() / 100, tally.latency_ns.min() / 100), (40, 30));
    }

    #[test]
    fn a_damaged_a_truncated_and_a_swapped_value_are_wrong() {
        let mut scene = Scene::new();
        let right = value(1, 100);
        let mut damaged = right.clone();
        damaged[50] ^= 1;
        for value in [&right[..], &damaged, &right[..99], &value(2, 100)] {
            scene.pending.push(0, get(1), &[1]);
            scene.hit(1, value).unwrap();
            scene.take(Reply::End).unwrap();
        }
        assert_eq!((scene.tally.hits, scene.tally.wrong_values), (4, 3));
    }

    #[test]
    fn replies_that_match_no_pending_request_are_errors() {
        let mut scene = Scene::new();
        assert!(scene.take(Reply::End).is_err());
        scene.pending.push(0, get(1), &[1]);
        assert_eq!(scene.hit(2, b""), Err("with another key's item"));
        let mut scene = Scene::new();
        scene.pending.push(0, get(1), &[1]);
        assert!(scene.take(Reply::Stored).is_err());
        scene.take(Reply::Error(b"SERVER_ERROR x")).unwrap();
        assert_eq!((scene.tally.errors["SERVER_ERROR x"], scene.tally.requests), (1, 0));
        assert!(scene.pending.is_empty());
    }

    #[test]
    fn a_latency_counts_from_the_time_at_which_the_request_was_due() {
        let mut scene = Scene::new();
        // The replies arrive at 5000 ns. A later due time, from a clock that was read too early,
        // counts as a latency of 0.
        for due_ns in [0, 4000, 6000] {
            scene.pending.push(due_ns, get(1), &[1]);
            scene.take(Reply::End).unwrap();
        }
        let latency_ns = &scene.tally.latency_ns;
        let found: Vec<_> = latency_ns.iter_recorded().map(|at| at.value_iterated_to()).collect();
        assert_eq!((latency_ns.len(), found.len()), (3, 3), "{found:?}");
        assert!(found[0] <= 1 && found[1].abs_diff(1000) <= 1, "{found:?}");
        assert!(found[2].abs_diff(5000) <= 5, "{found:?}");
        assert_eq!(scene.second.latency_ns.len(), 3, "the second has them as well");
    }

    #[test]
    fn a_reply_by_number_answers_the_get_of_that_key() {
        let mut scene = Scene::new();
        scene.pending.push(0, get(1), &[1]);
        scene.pending.push(0, get(2), &[2]);
        for number in [1, 2] {
            let value = value(number, 100);
            let hit = Reply::Hit { name: Name::Opaque(number), value: &value, is_last: true };
            scene.take(hit).unwrap();
        }
        assert_eq!((scene.tally.hits, scene.tally.requests), (2, 2));
        assert_eq!(scene.tally.wrong_values, 0);
        scene.pending.push(0, get(1), &[1]);
        let value = value(2, 100);
        let hit = Reply::Hit { name: Name::Opaque(2), value: &value, is_last: true };
        assert_eq!(scene.take(hit), Err("with another key's item"));
    }

    #[test]
    fn an_error_ends_a_multiget_and_not_the_next_request() {
        let mut scene = Scene::new();
        scene.pending.push(0, get(3), &[3, 4, 5]);
        scene.pending.push(0, get(6), &[6]);
        scene.hit(3, &value(3, 100)).unwrap();
        scene.take(Reply::Error(b"SERVER_ERROR out of memory")).unwrap();
        scene.hit(6, &value(6, 100)).unwrap();
        scene.take(Reply::End).unwrap();
        assert_eq!((scene.tally.requests, scene.tally.hits), (1, 2));
        assert_eq!((scene.tally.error_count(), scene.second.errors), (1, 1));
        assert!(scene.missed.is_empty(), "keys after an error are no misses: {:?}", scene.missed);
    }

    #[test]
    fn a_key_that_comes_twice_or_out_of_order_is_a_wrong_answer() {
        let mut scene = Scene::new();
        scene.pending.push(0, get(3), &[3, 4]);
        scene.hit(4, &value(4, 100)).unwrap();
        assert_eq!(scene.hit(3, &value(3, 100)), Err("with another key's item"));
        let mut scene = Scene::new();
        scene.pending.push(0, get(3), &[3]);
        scene.hit(3, &value(3, 100)).unwrap();
        assert_eq!(scene.hit(3, &value(3, 100)), Err("with another key's item"));
    }

    #[test]
    fn missed_keys_are_kept_up_to_a_limit() {
        let mut scene = Scene::new();
        let keys: Vec<u32> = (0..MISSED_MAX as u32 + 10).map(|number| number % 10).collect();
        scene.pending.push(0, get(0), &keys);
        scene.take(Reply::End).unwrap();
        assert_eq!(scene.missed.len(), MISSED_MAX);
        assert_eq!(scene.tally.gets, keys.len() as u64, "each is counted");
    }
}
