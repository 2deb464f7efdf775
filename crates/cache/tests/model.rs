//! Random operations on a cache and on a plain map must come to the same, whatever the clock does. After
//! every run the cache's memory is checked for every invariant there is.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use larder::{Arithmetic, Cache, Clock, Counter, Deadline, Direction, Request, StoreMode, Stored};
use larder_testkit::model::{Model, ModelItem, Outcome};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
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
enum Token {
    None,
    Current,
    Wrong,
}

#[derive(Clone, Copy, Debug)]
enum Ttl {
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
enum Value {
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
fn key_of(number: u8) -> Vec<u8> {
    match number {
        0 => vec![b'K'; 250],
        number => format!("key-{number}").into_bytes(),
    }
}

fn any_ttl() -> impl Strategy<Value = Ttl> {
    prop_oneof![4 => Just(Ttl::Never), 1 => Just(Ttl::Past), 3 => (1..20u32).prop_map(Ttl::Secs)]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => prop_oneof![0..200u64, Just(u64::MAX), Just(10), Just(99)].prop_map(Value::Number),
        5 => (0..300usize).prop_map(Value::Bytes),
        1 => (0..40_000usize).prop_map(Value::Bytes),
    ]
}

fn any_operation() -> impl Strategy<Value = Operation> {
    use StoreMode::{Add, Append, Prepend, Replace, Set};
    let mode = prop_oneof![
        4 => Just(Set), 1 => Just(Add), 1 => Just(Replace), 1 => Just(Append), 1 => Just(Prepend)
    ];
    let token =
        prop_oneof![4 => Just(Token::None), 1 => Just(Token::Current), 1 => Just(Token::Wrong)];
    let direction = prop_oneof![Just(Direction::Increment), Just(Direction::Decrement)];
    let key = 0..24u8;
    prop_oneof![
        4 => key.clone().prop_map(Operation::Get),
        8 => (key.clone(), mode, token, prop_oneof![Just(0), any::<u32>()], any_ttl(), any_value())
            .prop_map(|(key, mode, token, flags, ttl, value)| {
                Operation::Store { key, mode, token, flags, ttl, value }
            }),
        2 => key.clone().prop_map(Operation::Delete),
        2 => (key.clone(), any_ttl()).prop_map(|(key, ttl)| Operation::Touch(key, ttl)),
        2 => (key, direction, prop_oneof![0..100u64, any::<u64>()])
            .prop_map(|(key, direction, delta)| Operation::Arithmetic(key, direction, delta)),
        1 => Just(Operation::Clear),
        1 => (0..6u32).prop_map(Operation::ClearIn),
        2 => (1..8u32).prop_map(Operation::Tick),
        1 => Just(Operation::Maintain),
    ]
}

/// A cache and the map it is compared with.
struct Pair {
    cache: Cache,
    model: Model,
}

impl Pair {
    fn new(memory_bytes: u64, evict: bool) -> Self {
        let cache = Cache::builder()
            .memory_bytes(memory_bytes)
            .item_bytes_max(100_000)
            .cas(true)
            .evict(evict)
            .clock(Clock::Ticked)
            .open()
            .unwrap();
        let model = Model::new(cache.now());
        Self { cache, model }
    }

    /// Does the cache hold under a key what the model says?
    fn assert_same(&self, key: &[u8]) {
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

    fn run(&mut self, operation: &Operation) {
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
                let touched = self.cache.touch(&key, deadline).unwrap();
                assert_eq!(touched, self.model.touch(&key, deadline));
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
        let stored = self.cache.store(&Request { key, mode, cas, flags, deadline }, value).unwrap();
        let item = ModelItem { value: value.to_vec(), flags, deadline, cas: 0 };
        let outcome = self.model.store(key, mode, cas, item);
        match stored {
            Stored::Stored { cas } => {
                assert_eq!(outcome, Outcome::Stored);
                assert!(cas > current || self.model.get(key).is_none() || current == 1);
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
            (Arithmetic::Number { number, cas }, Ok(Some(expected))) => {
                assert_eq!(number, expected);
                self.model.set_cas(key, cas);
            }
            (Arithmetic::NotFound, Ok(None)) | (Arithmetic::NonNumeric, Err(_)) => {}
            (found, expected) => panic!("{found:?}, the model says {expected:?}"),
        }
    }

    /// Follows an eviction: what the cache has dropped, the model drops too.
    fn follow_evictions(&mut self) {
        let keys: Vec<Vec<u8>> = self.model.keys().map(<[u8]>::to_vec).collect();
        for key in keys {
            if self.cache.get(&key).is_none() {
                self.model.delete(&key);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_with_room_behaves_as_a_map(operations in prop::collection::vec(any_operation(), 1..200)) {
        let mut pair = Pair::new(16 << 20, true);
        for operation in &operations {
            pair.run(operation);
        }
        for key in 0..24 {
            pair.assert_same(&key_of(key));
        }
        prop_assert_eq!(pair.cache.counter(Counter::Evictions), 0);
        pair.cache.validate().unwrap();
    }

    #[test]
    fn a_full_cache_behaves_as_a_map_that_forgets(operations in prop::collection::vec(any_operation(), 1..600)) {
        let mut pair = Pair::new(1 << 20, true);
        for operation in &operations {
            // An operation may evict the very item it works on, so each is preceded by enough room.
            let filler = [0xF1; 9000];
            for number in 0..8u8 {
                pair.cache.set(&[0xFF, number], &filler, None).unwrap();
            }
            pair.follow_evictions();
            pair.run(operation);
            pair.follow_evictions();
        }
        for key in 0..24 {
            pair.assert_same(&key_of(key));
        }
        pair.cache.validate().unwrap();
    }
}
