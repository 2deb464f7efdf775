//! Encodes requests and notes them as pending.

use std::collections::VecDeque;

use anyhow::Result;

use crate::options::Dialect;
use crate::request::draw::{Draw, Drawn, KEY_BYTES, Pool, key};
use crate::value::write_value;
use crate::wire::pending::{PendingRequests, value_seed};

/// Writes requests one after the other.
pub(crate) struct Ask {
    dialect: Dialect,
    multiget: u32,
    source: Source,
    /// Sets of missed keys, which are sent next.
    pub(crate) missed: VecDeque<Drawn>,
    pool: Pool,
    /// The keys of the last get, and the value of the last set, kept to reuse their memory.
    numbers: Vec<u32>,
    keys: Vec<[u8; KEY_BYTES]>,
    value: Vec<u8>,
}

/// The source of requests.
pub(crate) enum Source {
    Drawn(Draw),
    /// Sets of every key, beginning with this one.
    EveryKey(u32),
}

impl Ask {
    pub(crate) fn new(dialect: Dialect, multiget: u32, source: Source, pool: &Pool) -> Self {
        Self {
            dialect,
            multiget,
            source,
            missed: VecDeque::new(),
            pool: pool.clone(),
            numbers: Vec::new(),
            keys: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Appends the next request. Returns `false` if there are no more.
    ///
    /// # Errors
    /// The request cannot be encoded in this protocol.
    pub(crate) fn push(
        &mut self,
        out: &mut Vec<u8>,
        pending: &mut PendingRequests,
        due_ns: u64,
    ) -> Result<bool> {
        let drawn = match self.missed.pop_front() {
            Some(set) => set,
            None => match &mut self.source {
                Source::Drawn(draw) => draw.next(),
                Source::EveryKey(next) if *next < self.pool.key_count() => {
                    *next += 1;
                    self.pool.set(*next - 1)
                }
                Source::EveryKey(_) => return Ok(false),
            },
        };
        match drawn.is_get {
            true => self.push_get(out, pending, due_ns, drawn)?,
            false => self.push_set(out, pending, due_ns, drawn)?,
        }
        Ok(true)
    }

    fn push_get(
        &mut self,
        out: &mut Vec<u8>,
        pending: &mut PendingRequests,
        due_ns: u64,
        drawn: Drawn,
    ) -> Result<()> {
        self.numbers.clear();
        self.keys.clear();
        self.numbers.push(drawn.key);
        if let Source::Drawn(draw) = &mut self.source {
            self.numbers.extend((1..self.multiget).map(|_| draw.next_key()));
        }
        self.keys.extend(self.numbers.iter().map(|number| key(*number)));
        self.dialect.push_get(out, drawn.key, &self.keys)?;
        pending.push(due_ns, drawn, &self.numbers);
        Ok(())
    }

    fn push_set(
        &mut self,
        out: &mut Vec<u8>,
        pending: &mut PendingRequests,
        due_ns: u64,
        drawn: Drawn,
    ) -> Result<()> {
        let value_bytes = drawn.value_bytes as usize;
        write_value(value_seed(drawn.key, value_bytes), value_bytes, &mut self.value);
        self.dialect.push_set(out, &key(drawn.key), &self.value, drawn.ttl_secs)?;
        pending.push(due_ns, drawn, &[]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes at most `count` requests and returns them as text.
    fn written(ask: &mut Ask, pending: &mut PendingRequests, count: usize) -> Vec<String> {
        let mut requests = Vec::new();
        for _ in 0..count {
            let mut out = Vec::new();
            if !ask.push(&mut out, pending, 0).unwrap() {
                break;
            }
            requests.push(String::from_utf8_lossy(&out).into_owned());
        }
        requests
    }

    fn of_draw(pool: &Pool, multiget: u32) -> Ask {
        Ask::new(Dialect::Text, multiget, Source::Drawn(Draw::new(pool, 0)), pool)
    }

    #[test]
    fn every_key_is_set_once_from_the_given_one_on() {
        let pool = Pool::of_keys(5);
        let mut ask = Ask::new(Dialect::Text, 1, Source::EveryKey(2), &pool);
        let mut pending = PendingRequests::default();
        let requests = written(&mut ask, &mut pending, 10);
        assert_eq!(requests.len(), 3, "{requests:?}");
        for (number, request) in (2..).zip(&requests) {
            let head = format!("set bench:{number:014} 0 0 100\r\n");
            assert!(request.starts_with(&head), "{request:?} does not begin with {head:?}");
        }
        assert_eq!(pending.len(), 3, "each request is pending");
        assert!(!ask.push(&mut Vec::new(), &mut pending, 0).unwrap(), "there are no more");
        assert_eq!(pending.len(), 3, "and nothing is noted as pending then");
    }

    #[test]
    fn a_get_of_many_keys_is_one_request() {
        let pool = Pool::of_keys(10);
        let mut pending = PendingRequests::default();
        let requests = written(&mut of_draw(&pool, 4), &mut pending, 3);
        assert_eq!((requests.len(), pending.len()), (3, 3));
        for request in &requests {
            let words: Vec<_> = request.trim_end().split(' ').collect();
            assert_eq!(words.len(), 5, "{request:?}");
            assert_eq!(words[0], "get");
            assert!(words[1..].iter().all(|key| key.len() == KEY_BYTES), "{request:?}");
        }
    }

    #[test]
    fn the_keys_of_a_multiget_are_drawn_like_those_of_single_gets() {
        let pool = Pool::of_keys(1000);
        let (mut single, mut many) = (PendingRequests::default(), PendingRequests::default());
        let keys = |requests: Vec<String>| -> Vec<String> {
            let lines = requests.iter().map(|request| request.trim_end());
            lines.flat_map(|line| line.split(' ').skip(1)).map(str::to_owned).collect()
        };
        let of_many = keys(written(&mut of_draw(&pool, 5), &mut many, 4));
        assert_eq!(of_many, keys(written(&mut of_draw(&pool, 1), &mut single, 20)));
    }

    #[test]
    fn missed_keys_are_set_before_anything_else_is_drawn() {
        let pool = Pool::of_keys(10);
        let mut ask = of_draw(&pool, 1);
        ask.missed.extend([pool.set(8), pool.set(9)]);
        let requests = written(&mut ask, &mut PendingRequests::default(), 3);
        let starts: Vec<_> = requests.iter().map(|request| &request[..24]).collect();
        assert_eq!(starts[..2], ["set bench:00000000000008", "set bench:00000000000009"]);
        assert!(requests[2].starts_with("get "), "{requests:?}");
    }
}
