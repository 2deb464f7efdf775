//! Encodes requests and notes them as pending.

use std::collections::VecDeque;

use anyhow::Result;

use crate::options::Dialect;
use crate::request::draw::{Draw, Drawn, KEY_BYTES, Pool, key};
use crate::value::write_value;
use crate::wire::pending::{Pending, value_seed};

/// Writes one request after the other.
pub(crate) struct Ask {
    dialect: Dialect,
    multiget: u32,
    source: Source,
    /// Sets of missed keys, which come next.
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
    /// A set of every key, from this one on.
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
        pending: &mut Pending,
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
        pending: &mut Pending,
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
        pending: &mut Pending,
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
