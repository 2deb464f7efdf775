//! Random operations on a cache and on a plain map must have the same results, regardless of the
//! clock. After every run all invariants of the cache's memory are checked.

use larder::{Counter, Direction, ReadOptions, Stale, StoreMode};
use proptest::prelude::*;

use crate::pair::{Operation, Pair, Token, Ttl, Value, With, key_of};

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

fn any_token() -> impl Strategy<Value = Token> {
    prop_oneof![
        4 => Just(Token::None),
        2 => Just(Token::Current),
        1 => Just(Token::Lower),
        1 => Just(Token::Higher)
    ]
}

fn any_with() -> impl Strategy<Value = With> {
    let version = prop_oneof![0..5000u64, any::<u32>().prop_map(u64::from), (1 << 54)..u64::MAX];
    (any_token(), prop::option::weighted(0.2, version))
        .prop_map(|(token, version)| With { token, version })
}

fn any_operation() -> impl Strategy<Value = Operation> {
    use StoreMode::{Add, Append, Prepend, Replace, Set};
    let mode = prop_oneof![
        4 => Just(Set), 1 => Just(Add), 1 => Just(Replace), 1 => Just(Append), 1 => Just(Prepend)
    ];
    let stale =
        prop_oneof![4 => Just(Stale::Never), 2 => Just(Stale::IfOlder), 1 => Just(Stale::Always)];
    let sent_stale_uploaded = (prop::bool::weighted(0.2), stale, prop::bool::weighted(0.2));
    let flags = prop_oneof![Just(0), any::<u32>()];
    let direction = prop_oneof![Just(Direction::Increment), Just(Direction::Decrement)];
    let maybe_ttl = || prop::option::weighted(0.3, any_ttl());
    // Most operations use a few keys.
    let key = prop_oneof![3 => 0..3u8, 1 => 0..24u8];
    prop_oneof![
        4 => key.clone().prop_map(Operation::Get),
        2 => (key.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(key, noted, value)| Operation::Read(key, ReadOptions { noted, value })),
        2 => key.clone().prop_map(Operation::Peek),
        8 => (key.clone(), mode, any_with(), flags, any_ttl(), sent_stale_uploaded, any_value())
            .prop_map(|(key, mode, with, flags, ttl, (token_sent, stale, uploaded), value)| {
                Operation::Store { key, mode, with, flags, ttl, token_sent, stale, uploaded, value }
            }),
        2 => (key.clone(), any_token()).prop_map(|(key, token)| Operation::Delete(key, token)),
        2 => (key.clone(), any_ttl()).prop_map(|(key, ttl)| Operation::Touch(key, ttl)),
        2 => (key.clone(), any_token()).prop_map(|(key, token)| Operation::Claim(key, token)),
        2 => (key.clone(), any_with(), maybe_ttl())
            .prop_map(|(key, with, ttl)| Operation::MarkStale(key, with, ttl)),
        3 => (key, direction, prop_oneof![0..100u64, any::<u64>()], any_with(), maybe_ttl())
            .prop_map(|(key, direction, delta, with, ttl)| {
                Operation::Arithmetic { key, direction, delta, with, ttl }
            }),
        1 => Just(Operation::Clear),
        1 => (0..6u32).prop_map(Operation::ClearIn),
        2 => (1..8u32).prop_map(Operation::Tick),
        1 => Just(Operation::Maintain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_with_room_behaves_as_a_map(cas: bool, operations in prop::collection::vec(any_operation(), 1..200)) {
        let mut pair = Pair::new(16 << 20, cas);
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
    fn a_full_cache_behaves_as_a_map_that_forgets(cas: bool, operations in prop::collection::vec(any_operation(), 1..600)) {
        let mut pair = Pair::new(1 << 20, cas);
        for operation in &operations {
            // An operation may evict its own item, so enough memory is freed before each operation.
            let filler = [0xF1; 9000];
            for number in 0..8u8 {
                pair.cache.set([0xFF, number], filler, None).unwrap();
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
