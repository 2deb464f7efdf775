//! A cache and a plain map: every operation must have the same result on both. The fuzz target
//! `engine_operations` also uses this file.

use std::collections::HashSet;

use larder::{
    Arithmetic, ArithmeticRequest, Cache, Clock, Deadline, Deletion, Direction, Meta, MetaOutcome,
    Read, ReadOptions, Stale, StoreMode, StoreRequest, Stored,
};
use larder_testkit::model::{ArithmeticOutcome, Model, ModelItem, Outcome};

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Get(u8),
    /// A read, counted or not, with or without the value.
    Read(u8, ReadOptions),
    Peek(u8),
    Store {
        key: u8,
        mode: StoreMode,
        with: With,
        flags: u32,
        ttl: Ttl,
        token_sent: bool,
        stale: Stale,
        uploaded: bool,
        value: Value,
    },
    Delete(u8, Token),
    Touch(u8, Ttl),
    Claim(u8, Token),
    MarkStale(u8, With, Option<Ttl>),
    Arithmetic {
        key: u8,
        direction: Direction,
        delta: u64,
        with: With,
        ttl: Option<Ttl>,
    },
    Clear,
    ClearIn(u32),
    Tick(u32),
    Maintain,
}

/// The cas token that an operation expects, and the cas token that it requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct With {
    pub(crate) token: Token,
    pub(crate) version: Option<u64>,
}

/// A kind of cas token in an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    None,
    Current,
    Lower,
    Higher,
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

/// Returns the key of a number. Most keys are short; one has the maximum length.
pub(crate) fn key_of(number: u8) -> Vec<u8> {
    match number {
        0 => vec![b'K'; 250],
        number => format!("key-{number}").into_bytes(),
    }
}

/// A cache, and the map with which it is compared.
pub(crate) struct Pair {
    pub(crate) cache: Cache,
    /// True if the cache uses cas tokens; otherwise all tokens are 0.
    cas: bool,
    model: Model,
    /// All tokens that each key has had.
    tokens: HashSet<(Vec<u8>, u64)>,
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
        Self { cache, cas, model, tokens: HashSet::new() }
    }

    /// Checks that the cache holds the model's item under a key.
    pub(crate) fn assert_same(&mut self, key: &[u8]) {
        let mut value = Vec::new();
        let meta = self.cache.get_into(key, &mut value);
        assert_eq!(meta.map(|meta| item_of(meta, value)), self.model.read(key));
    }

    fn assert_read(&mut self, key: &[u8], reading: ReadOptions) {
        let mut value = Vec::new();
        let read = self.cache.read_as(key, reading, &mut value, |_, _| ());
        let meta = match read {
            Read::Miss(_) | Read::Failed(_) => None,
            Read::Hit(meta) => Some(meta),
            Read::Large(meta, mut large) => {
                while large.next_piece(&mut value).unwrap() {}
                Some(meta)
            }
        };
        let expected =
            if reading.noted { self.model.read(key) } else { self.model.get(key).cloned() };
        match meta {
            Some(meta) if !reading.value => assert_known(&meta, expected.as_ref().unwrap()),
            meta => assert_eq!(meta.map(|meta| item_of(meta, value)), expected),
        }
    }

    fn token(&self, key: &[u8], token: Token) -> Option<u64> {
        let current = self.model.get(key).map_or(1, |item| item.cas);
        match token {
            Token::None => None,
            Token::Current => Some(current),
            Token::Lower => Some(current.saturating_sub(1)),
            Token::Higher => Some(current.saturating_add(1)),
        }
    }

    /// Records the current token of a key. It must be the requested token, or a token that the key
    /// never had.
    fn note_token(&mut self, key: &[u8], asked: Option<u64>, cas: u64) {
        let asked = asked.filter(|asked| *asked != 0);
        let is_new = self.tokens.insert((key.to_vec(), cas));
        match (self.cas, asked) {
            (false, _) => assert_eq!(cas, 0),
            (true, Some(asked)) => assert_eq!(cas, asked),
            (true, None) => assert!(is_new && cas != 0, "{cas} again"),
        }
        self.model.set_cas(key, cas);
    }

    pub(crate) fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Get(key) => self.assert_same(&key_of(*key)),
            Operation::Read(key, reading) => self.assert_read(&key_of(*key), *reading),
            Operation::Peek(key) => {
                let key = key_of(*key);
                let (found, expected) = (self.cache.peek(&key), self.model.get(&key));
                assert_eq!(found.is_some(), expected.is_some());
                found.iter().zip(expected).for_each(|(meta, item)| assert_known(meta, item));
            }
            Operation::Store {
                key,
                mode,
                with,
                flags,
                ttl,
                token_sent,
                stale,
                uploaded,
                value,
            } => {
                let (name, value) = (key_of(*key), value.bytes(*key));
                let request = StoreRequest {
                    cas: self.token(&name, with.token),
                    flags: *flags,
                    deadline: ttl.deadline(self.model.now()),
                    version: with.version,
                    token_sent: *token_sent,
                    stale: *stale,
                    ..StoreRequest::new(&name, *mode)
                };
                self.store(&request, *uploaded, &value);
            }
            Operation::Delete(key, token) => self.delete(&key_of(*key), *token),
            Operation::Claim(key, token) => {
                let key = key_of(*key);
                let cas = self.token(&key, *token);
                let expected = self.model.claim(&key, cas.filter(|_| self.cas));
                let cas = cas.or(self.model.get(&key).map(|item| item.cas));
                assert_eq!(self.cache.claim(&key, cas.unwrap_or(0)), expected);
            }
            Operation::MarkStale(key, with, ttl) => self.mark_stale(&key_of(*key), *with, *ttl),
            Operation::Touch(key, ttl) => {
                self.touch(&key_of(*key), ttl.deadline(self.model.now()));
            }
            Operation::Arithmetic { key, direction, delta, with, ttl } => {
                let key = key_of(*key);
                let counting = ArithmeticRequest {
                    cas: self.token(&key, with.token),
                    version: with.version,
                    deadline: ttl.map(|ttl| ttl.deadline(self.model.now())),
                    ..ArithmeticRequest::new(&key, *direction, *delta)
                };
                self.arithmetic(&counting);
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

    fn touch(&mut self, key: &[u8], deadline: Deadline) {
        let touched = self.cache.touch_until(key, deadline).unwrap();
        assert_eq!(touched.is_some(), self.model.touch(key, deadline));
        let item = self.model.get(key);
        touched.iter().zip(item).for_each(|(meta, item)| assert_known(meta, item));
    }

    fn store(&mut self, request: &StoreRequest<'_>, uploaded: bool, value: &[u8]) {
        let StoreRequest { key, mode, cas, flags, deadline, version, token_sent, stale } = *request;
        // A long series of appends would reach the item size limit, which does not exist in the
        // model.
        let bytes = self.model.get(key).map_or(0, |item| item.value.len()) + value.len();
        if bytes > 90_000 {
            return;
        }
        let stored = if uploaded {
            let mut upload = self.cache.upload(key, value.len()).unwrap();
            value.chunks(1_000).for_each(|part| upload.push(part).unwrap());
            upload.store(request).unwrap()
        } else {
            self.cache.store(request, value).unwrap()
        };
        let value = value.to_vec();
        let item = ModelItem { value, flags, deadline, token_sent, ..ModelItem::default() };
        let item = ModelItem { stale: stale == Stale::Always, ..item };
        let outcome = self.model.store(key, mode, cas, stale == Stale::IfOlder, item);
        match stored {
            Stored::Stored { cas, value_bytes } => {
                assert_eq!(outcome, Outcome::Stored);
                self.note_token(key, version, cas);
                let item = self.model.get(key);
                assert!(item.is_none_or(|item| item.value.len() == value_bytes));
            }
            Stored::NotStored => assert_eq!(outcome, Outcome::NotStored),
            Stored::Exists => assert_eq!(outcome, Outcome::Exists),
            Stored::NotFound => assert_eq!(outcome, Outcome::NotFound),
        }
    }

    fn delete(&mut self, key: &[u8], token: Token) {
        let cas = self.token(key, token);
        let expected = self.model.compare(key, cas);
        match self.cache.delete_if(key, cas).unwrap() {
            Deletion::Deleted(_) => {
                assert_eq!(expected, Outcome::Stored);
                assert!(self.model.delete(key));
            }
            Deletion::NotFound => assert_eq!(expected, Outcome::NotFound),
            Deletion::Exists => assert_eq!(expected, Outcome::Exists),
        }
    }

    fn mark_stale(&mut self, key: &[u8], with: With, ttl: Option<Ttl>) {
        let cas = self.token(key, with.token);
        let deadline = ttl.map(|ttl| ttl.deadline(self.model.now()));
        let expected = self.model.mark_stale(key, cas, deadline);
        match self.cache.mark_stale(key, cas, with.version, deadline).unwrap() {
            MetaOutcome::Done(meta) => {
                assert_eq!(expected, Outcome::Stored);
                self.note_token(key, with.version, meta.cas);
                self.model.get(key).iter().for_each(|item| assert_known(&meta, item));
            }
            MetaOutcome::NotFound => assert_eq!(expected, Outcome::NotFound),
            MetaOutcome::Exists => assert_eq!(expected, Outcome::Exists),
        }
    }

    fn arithmetic(&mut self, counting: &ArithmeticRequest<'_>) {
        let ArithmeticRequest { key, direction, delta, cas, version, deadline } = *counting;
        let found = self.cache.arithmetic_as(counting).unwrap();
        match (found, self.model.arithmetic(key, direction, delta, cas, deadline)) {
            (Arithmetic::Number { number, meta }, ArithmeticOutcome::Number(expected)) => {
                assert_eq!(number, expected);
                self.note_token(key, version, meta.cas);
                self.model.get(key).iter().for_each(|item| assert_known(&meta, item));
            }
            (Arithmetic::NotFound, ArithmeticOutcome::NotFound)
            | (Arithmetic::Exists, ArithmeticOutcome::Exists)
            | (Arithmetic::NonNumeric, ArithmeticOutcome::NonNumeric) => {}
            (found, expected) => panic!("{found:?}, the model says {expected:?}"),
        }
    }

    /// Follows an eviction: removes the items from the model that the cache has evicted.
    pub(crate) fn follow_evictions(&mut self) {
        let keys: Vec<Vec<u8>> = self.model.keys().map(<[u8]>::to_vec).collect();
        for key in keys {
            if self.cache.peek(&key).is_none() {
                self.model.delete(&key);
            }
        }
    }
}

/// Converts the cache's metadata to an item of the model.
fn item_of(meta: Meta, value: Vec<u8>) -> ModelItem {
    let Meta { flags, deadline, cas, value_bytes, stale, token_sent, fetched, seen: _ } = meta;
    assert_eq!(value_bytes, value.len());
    ModelItem { value, flags, deadline, cas, stale, token_sent, fetched }
}

/// Checks that the cache's metadata matches the model.
fn assert_known(meta: &Meta, item: &ModelItem) {
    assert_eq!(meta.value_bytes, item.value.len());
    assert_eq!(item_of(*meta, item.value.clone()), *item);
}
