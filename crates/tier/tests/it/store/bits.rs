//! After one bit of a stopped store is flipped, a start finds every value or refuses.

use std::env;
use std::time::Duration;

use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::format::SEGMENT_BYTES;
use larder_tier::store::{Durability, Store};

use super::faults::put;
use super::{NOW, settings, start, try_open};

const ITEMS: [(&[u8], &[u8]); 2] = [(b"a", b"the value of a"), (b"longer key", b"2")];

fn stopped() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Async);
    for (key, value) in ITEMS {
        put(&store, key, value).unwrap();
    }
    assert_eq!(store.stop(Duration::from_secs(20)), 0);
    disk
}

/// Returns the bits of a file in areas that are not all zero.
fn bits_of(disk: &SimulatedDisk, name: &str) -> Vec<u64> {
    let bytes = disk.platter(name).unwrap();
    let is_used = |word: &[u8]| word.iter().any(|byte| *byte != 0);
    let words = bytes.chunks(8).enumerate().filter(|(_, word)| is_used(word));
    words
        .flat_map(|(at, word)| (0..word.len() * 8).map(move |bit| (at * 64 + bit) as u64))
        .collect()
}

/// Starts a store and checks its items. Returns false if the start was refused.
fn is_started(disk: &SimulatedDisk, what: &str) -> bool {
    let Ok(tier) = try_open(disk, 8) else { return false };
    let Ok((store, _)) = Store::start(tier, settings(Durability::Async), &mut |_, _| ()) else {
        return false;
    };
    for (key, value) in ITEMS {
        match store.find(key) {
            Ok((_, Some(found))) => {
                assert_eq!((found.value.as_slice(), found.flags), (value, 9), "{what}");
                assert!(!found.is_expired(NOW), "{what}");
            }
            Ok((_, None)) => panic!("{what}: {key:?} is a silent miss"),
            Err(_) => {}
        }
    }
    true
}

#[test]
fn no_flipped_bit_of_a_stopped_store_is_a_silent_miss_or_a_wrong_value() {
    // Testing all bits takes a minute: `make verify ONLY=tier`.
    let step = if env::var_os("LARDER_SEEDS").is_some() { 1 } else { 13 };
    for (name, bits_min) in [("MANIFEST", 400), ("INDEX", 700), ("log", 1000)] {
        let bits = bits_of(&stopped(), name);
        assert!(bits.len() >= bits_min, "{} bits of {name}", bits.len());
        let segment_bits = SEGMENT_BYTES as u64 * 8;
        let (mut starts, mut flips) = (0, 0);
        for bit in bits.iter().step_by(step) {
            flips += 1;
            let disk = stopped();
            assert!(disk.flip_bit(name, *bit));
            let what =
                format!("bit {} of segment {} of {name}", bit % segment_bits, bit / segment_bits);
            starts += u32::from(is_started(&disk, &what));
        }
        // A flipped bit of the manifest is repaired, and a damaged index is not needed.
        let expected = if name == "log" { 1..=flips } else { flips..=flips };
        assert!(expected.contains(&starts), "{starts} of {flips} starts with a damaged {name}");
    }
}
