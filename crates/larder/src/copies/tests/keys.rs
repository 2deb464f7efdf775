//! The keys of a bucket, compared with a simple list.

use proptest::prelude::*;

use crate::copies::keys::{Keys, entry_bytes};

#[derive(Clone, Debug)]
enum Change {
    Add(Vec<u8>, bool),
    Remove(Vec<u8>),
}

/// Returns keys of which some are equal, some begin with each other, and some have the maximal
/// length.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let repeated = (0..3u8, prop::sample::select(vec![0usize, 1, 2, 3, 249, 250, 255]));
    repeated.prop_map(|(byte, bytes)| vec![byte; bytes])
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (key(), any::<bool>()).prop_map(|(key, is_absent)| Change::Add(key, is_absent)),
        key().prop_map(Change::Remove),
    ]
}

proptest! {
    #[test]
    fn keys_are_a_list(changes in prop::collection::vec(change(), 0..40)) {
        let mut keys = Keys::default();
        let mut list: Vec<(Vec<u8>, bool)> = Vec::new();
        for change in changes {
            match change {
                Change::Add(key, _) if list.iter().any(|(listed, _)| *listed == key) => {}
                Change::Add(key, is_absent) => {
                    keys.add(&key, is_absent);
                    list.push((key, is_absent));
                }
                Change::Remove(key) => {
                    let at = list.iter().position(|(listed, _)| *listed == key);
                    let removed = at.map(|at| list.remove(at).1);
                    prop_assert_eq!(keys.remove(&key), removed);
                }
            }
            let found: Vec<_> = keys.iter().map(|(key, absent)| (key.to_vec(), absent)).collect();
            prop_assert_eq!(&found, &list);
            prop_assert_eq!(keys.is_empty(), list.is_empty());
        }
    }
}

#[test]
fn a_key_that_is_too_long_is_not_added() {
    let mut keys = Keys::default();
    keys.add(&[0; Keys::KEY_BYTES_MAX + 1], false);
    assert!(keys.is_empty());
}

#[test]
fn an_entry_is_counted_with_the_memory_around_it() {
    assert_eq!(entry_bytes(b"key"), 59);
}
