//! Random operations on a cache and on a plain map must come to the same, whatever the clock does. After
//! every run the cache's memory is checked for every invariant there is.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod pair;

use larder::{Counter, Direction, StoreMode};
use pair::{Operation, Pair, Token, Ttl, Value, key_of};
use proptest::prelude::*;

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
            // An operation may evict the very item it works on, so each is preceded by enough room.
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
