//! A cache beside a plain map: every operation must come to the same on both. The fuzz target
//! `engine_operations` uses this file too.

use larder::{Arithmetic, Cache, Clock, Deadline, Direction, Request, StoreMode, Stored};
use larder_testkit::model::{Model, ModelItem, Outcome};

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Get(u8),
    Store { key: u8, mode: StoreMode, token: Token, flags: u32, ttl: Ttl, value: Value },
    Delete(u8),
    Touch(u8, Ttl),
    Arithmetic(u8, Direction, u64),
    Clear,
    ClearIn(u32),
    Tick(u32),
    Maintain,
}

/// Which cas token comes with a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    None,
    Current,
    Wrong,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ttl {
    Never,
    Past,
    Secs(u32),
}

impl Ttl {
    fn deadline(self, now: u32) -> Deadline {
        match self {
            Self::Never => Deadline::NEVER,
            Self::Past => Deadline::PAST,
            Self::Secs(secs) => Deadline::after(now, u64::from(secs)),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(u64),
    Bytes(usize),
}

impl Value {
    fn bytes(&self, seed: u8) -> Vec<u8> {
        match self {
            Self::Number(number) => number.to_string().into_bytes(),
            Self::Bytes(len) => (0..*len).map(|at| seed.wrapping_add(at as u8) | 0x80).collect(),
        }
    }
}

/// The key of a number: short ones and one of the greatest length.
pub(crate) fn key_of(number: u8) -> Vec<u8> {
    match number {
        0 => vec![b'K'; 250],
        number => format!("key-{number}").into_bytes(),
    }
}

/// A cache and the map it is compared with.
pub(crate) struct Pair {
    pub(crate) cache: Cache,
    /// Does it keep cas tokens? Else they are all 0.
    cas: bool,
    model: Model,
}

impl Pair {
    pub(crate) fn new(memory_bytes: u64, cas: bool) -> Self {
        let cache = Cache::builder()
            .memory_bytes(memory_bytes)
            .item_bytes_max(100_000)
            .cas(cas)
            .clock(Clock::Ticked)
            .open()
            .unwrap();
        let model = Model::new(cache.now());
        Self { cache, cas, model }
    }

    /// Does the cache hold under a key what the model says?
    pub(crate) fn assert_same(&self, key: &[u8]) {
        let mut value = Vec::new();
        let meta = self.cache.get_into(key, &mut value);
        let found = meta.map(|meta| ModelItem {
            value,
            flags: meta.flags,
            deadline: meta.deadline,
            cas: meta.cas,
        });
        assert_eq!(found.as_ref(), self.model.get(key));
    }

    pub(crate) fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Get(key) => self.assert_same(&key_of(*key)),
            Operation::Store { key, mode, token, flags, ttl, value } => {
                let value = value.bytes(*key);
                self.store(&key_of(*key), *mode, *token, *flags, *ttl, &value);
            }
            Operation::Delete(key) => {
                let key = key_of(*key);
                assert_eq!(self.cache.delete(&key), self.model.delete(&key));
            }
            Operation::Touch(key, ttl) => {
                let (key, deadline) = (key_of(*key), ttl.deadline(self.model.now()));
                let touched = self.cache.touch_until(&key, deadline).unwrap();
                assert_eq!(touched.is_some(), self.model.touch(&key, deadline));
            }
            Operation::Arithmetic(key, direction, delta) => {
                self.arithmetic(&key_of(*key), *direction, *delta);
            }
            Operation::Clear => {
                self.cache.clear();
                self.model.clear();
            }
            Operation::ClearIn(secs) => {
                let at = self.model.now() + secs;
                self.cache.clear_at(at);
                self.model.clear_at(at);
            }
            Operation::Tick(secs) => {
                self.model.tick(self.model.now() + secs);
                self.cache.tick(self.model.now());
            }
            Operation::Maintain => self.cache.maintain(),
        }
    }

    fn store(
        &mut self,
        key: &[u8],
        mode: StoreMode,
        token: Token,
        flags: u32,
        ttl: Ttl,
        value: &[u8],
    ) {
        let deadline = ttl.deadline(self.model.now());
        let current = self.model.get(key).map_or(1, |item| item.cas);
        let cas = match token {
            Token::None => None,
            Token::Current => Some(current),
            Token::Wrong => Some(current + 1),
        };
        // A long series of appends would reach the limit on items, which the model does not know.
        let bytes = self.model.get(key).map_or(0, |item| item.value.len()) + value.len();
        if bytes > 90_000 {
            return;
        }
        let request = Request { cas, flags, deadline, ..Request::new(key, mode) };
        let stored = self.cache.store(&request, value).unwrap();
        let item = ModelItem { value: value.to_vec(), flags, deadline, cas: 0 };
        let outcome = self.model.store(key, mode, cas, item);
        match stored {
            Stored::Stored { cas, .. } => {
                assert_eq!(outcome, Outcome::Stored);
                let is_newer = cas > current || self.model.get(key).is_none() || current == 1;
                assert!(if self.cas { is_newer } else { cas == 0 });
                self.model.set_cas(key, cas);
            }
            Stored::NotStored => assert_eq!(outcome, Outcome::NotStored),
            Stored::Exists => assert_eq!(outcome, Outcome::Exists),
            Stored::NotFound => assert_eq!(outcome, Outcome::NotFound),
        }
    }

    fn arithmetic(&mut self, key: &[u8], direction: Direction, delta: u64) {
        let found = self.cache.arithmetic(key, direction, delta).unwrap();
        match (found, self.model.arithmetic(key, direction, delta)) {
            (Arithmetic::Number { number, meta }, Ok(Some(expected))) => {
                assert_eq!(number, expected);
                self.model.set_cas(key, meta.cas);
            }
            (Arithmetic::NotFound, Ok(None)) | (Arithmetic::NonNumeric, Err(_)) => {}
            (found, expected) => panic!("{found:?}, the model says {expected:?}"),
        }
    }

    /// Follows an eviction: what the cache has dropped, the model drops too.
    pub(crate) fn follow_evictions(&mut self) {
        let keys: Vec<Vec<u8>> = self.model.keys().map(<[u8]>::to_vec).collect();
        for key in keys {
            if self.cache.get(&key).is_none() {
                self.model.delete(&key);
            }
        }
    }
}
