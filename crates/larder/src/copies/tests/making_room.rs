//! Room for the lists of keys, which is limited.

use proptest::prelude::*;

use super::*;
use crate::copies::keys::Keys;

/// Returns copies whose stripes have room for this many keys of three bytes.
fn with_room(keys: usize, absent_keys: usize) -> Copies<Shelf> {
    let entry = entry_bytes(KEY) * STRIPES;
    let limits = CopyLimits {
        listed_bytes_max: keys * entry,
        absent_bytes_max: absent_keys * entry,
        ..AMPLE
    };
    usable(Copies::new(Shelf::default(), limits))
}

/// Returns the bucket with this number in one stripe.
fn place(number: u32) -> Place {
    Place { subscription: 0, bucket: number * STRIPES as u32 }
}

#[test]
fn other_copies_make_room() {
    let copies = with_room(2, 0);
    for (number, key) in (1..).zip([b"one", b"two", b"3rd", b"4th"]) {
        assert_eq!(fetch(&copies, place(number), key, value("v")), Ok(()));
        assert!(copies.store().has(key));
        assert_eq!(copies.store().keys().len(), 2.min(number as usize));
        assert_eq!(copies.listed_bytes(), copies.store().keys().len() * entry_bytes(KEY));
    }
    copies.invalidate_all();
    assert_eq!(copies.listed_bytes(), 0);
}

#[test]
fn a_copy_that_replaces_its_predecessor_needs_no_more_room() {
    let copies = with_room(2, 0);
    for _ in 0..3 {
        assert_eq!(fetch(&copies, place(1), b"one", value("v")), Ok(()));
        assert_eq!(fetch(&copies, place(2), b"two", value("v")), Ok(()));
    }
    assert_eq!(copies.store().keys(), [b"one", b"two"]);
}

#[test]
fn several_copies_make_room_for_a_long_key() {
    let copies = with_room(5, 0);
    for (number, key) in (1..).zip([b"one", b"two", b"3rd", b"4th", b"5th"]) {
        assert_eq!(fetch(&copies, place(number), key, value("v")), Ok(()));
    }
    let long = [b'k'; 100];
    assert_eq!(fetch(&copies, place(6), &long, value("v")), Ok(()));
    assert!(copies.store().has(&long));
    assert_eq!(copies.store().keys().len(), 3);
}

#[test]
fn a_key_that_is_longer_than_the_room_displaces_no_copy() {
    let copies = with_room(1, 1);
    assert_eq!(fetch(&copies, place(1), b"one", value("v")), Ok(()));
    for result in [value("v"), ABSENT] {
        assert_eq!(fetch(&copies, place(2), &[b'k'; 4], result), Err(NotKept::NoMemory));
    }
    assert_eq!(copies.store().keys(), [b"one"]);
}

#[test]
fn a_key_that_cannot_be_listed_is_not_kept() {
    let copies = copies();
    let long = [b'k'; Keys::KEY_BYTES_MAX + 1];
    for result in [value("v"), ABSENT] {
        assert_eq!(fetch(&copies, PLACE, &long, result), Err(NotKept::NoMemory));
    }
    assert_eq!((copies.store().has(&long), copies.listed_bytes()), (false, 0));
    assert_eq!(fetch(&copies, PLACE, &long[1..], value("v")), Ok(()));
}

#[test]
fn absent_keys_displace_absent_keys() {
    let copies = with_room(4, 1);
    assert_eq!(fetch(&copies, place(1), b"one", value("v")), Ok(()));
    assert_eq!(fetch(&copies, place(2), b"two", ABSENT), Ok(()));
    assert_eq!(fetch(&copies, place(3), b"3rd", ABSENT), Ok(()));
    assert!(copies.is_absent(place(3), b"3rd") && !copies.is_absent(place(2), b"two"));
    assert_eq!(copies.store().keys(), [b"one"]);
    // Without room for absent keys none is remembered.
    assert_eq!(fetch(&with_room(4, 0), place(1), b"one", ABSENT), Err(NotKept::NoMemory));
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Fetch { is_absent: bool },
    FetchUnkept,
    InvalidateKey,
    InvalidateBucket,
    Evict,
    InvalidateAll,
}

const ACTS: [Act; 9] = [
    Act::Fetch { is_absent: false },
    Act::Fetch { is_absent: false },
    Act::Fetch { is_absent: false },
    Act::Fetch { is_absent: true },
    Act::FetchUnkept,
    Act::InvalidateKey,
    Act::InvalidateBucket,
    Act::Evict,
    Act::InvalidateAll,
];

/// Nine keys of different lengths in three buckets.
fn name(key: usize) -> (Place, Vec<u8>) {
    (place(key as u32 / 3), vec![b'a' + key as u8; 1 + 20 * (key % 4)])
}

fn act(copies: &Copies<Shelf>, act: Act, key: usize) {
    let (place, key) = name(key);
    match act {
        Act::Fetch { is_absent } => {
            let result = if is_absent { ABSENT } else { value("v") };
            let _ = fetch(copies, place, &key, result);
        }
        Act::FetchUnkept => assert!(fetch(copies, place, &key, FlightResult::Uncopied).is_err()),
        Act::InvalidateKey => copies.invalidate_key(place, &key),
        Act::InvalidateBucket => {
            copies.invalidate_bucket(place.bucket);
        }
        Act::Evict => {
            copies.store().remove(&key);
            copies.forget(place, &key);
        }
        Act::InvalidateAll => copies.invalidate_all(),
    }
}

proptest! {
    #[test]
    fn the_bytes_are_those_of_the_copies_and_absent_keys_and_within_the_limits(
        acts in prop::collection::vec((prop::sample::select(&ACTS[..]), 0..9usize), 0..60),
        keys in 0..12usize,
        absent_keys in 0..4usize,
    ) {
        let copies = with_room(keys, absent_keys);
        for (each, key) in acts {
            act(&copies, each, key);
            let names = (0..9).map(name);
            let absent: Vec<_> =
                names.filter(|(place, key)| copies.is_absent(*place, key)).map(|name| name.1).collect();
            let bytes = |keys: &[Vec<u8>]| keys.iter().map(|key| entry_bytes(key)).sum::<usize>();
            let stored = copies.store().keys();
            prop_assert_eq!(copies.absent_bytes.load(SeqCst), bytes(&absent));
            prop_assert_eq!(copies.listed_bytes(), bytes(&absent) + bytes(&stored));
            prop_assert!(copies.listed_bytes() <= keys * entry_bytes(KEY));
            prop_assert!(bytes(&absent) <= absent_keys * entry_bytes(KEY));
            prop_assert!(absent.iter().all(|key| !stored.contains(key)));
        }
        for number in 0..3 {
            copies.invalidate_bucket(place(number).bucket);
        }
        prop_assert!(copies.store().keys().is_empty());
        prop_assert_eq!(copies.listed_bytes(), 0);
    }
}

/// Otherwise the hit ratio would fall as soon as the lists are full.
#[test]
fn a_new_copy_stays_while_older_ones_make_room() {
    let copies = with_room(10, 10);
    for number in 0..100 {
        let name = |number: u32| format!("{number:03}").into_bytes();
        assert_eq!(fetch(&copies, place(number), &name(number), value("v")), Ok(()));
        for recent in number.saturating_sub(8)..=number {
            assert!(copies.store().has(&name(recent)), "{recent} left when {number} came");
        }
    }
}
