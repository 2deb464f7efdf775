//! The dictionaries of a directory: two copies each, and a manifest that names them.

use larder_tier::compression::Compression;
use larder_tier::disk::Directory;
use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::format::{DictionaryFile, Manifest, Mode};
use larder_tier::store::{DamageKind, Durable, Store, Trust, inspect, salvage};
use larder_tier::{OpenError, Tier};

use super::{
    BEFORE, COMPRESSION, ITEMS, NOW, STOP, check, fill, json, key, open, put, settings, start,
    start_as, value, wait_for_dictionary,
};

const COPIES: [&str; 2] = ["DICTIONARY.1", "DICTIONARY.1.copy"];

/// Returns a stopped store with compressed and plain items.
fn stopped() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    disk
}

fn read(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    disk.open().read_small(name).unwrap().unwrap()
}

/// Damages a file in a way that no single flipped bit explains.
fn damage(disk: &SimulatedDisk, name: &str) {
    (0..9).for_each(|nth| assert!(disk.flip_bit(name, 1000 + nth * 77)));
}

fn version(disk: &SimulatedDisk) -> u8 {
    read(disk, "MANIFEST")[8]
}

#[test]
fn only_a_start_with_compression_changes_the_version() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start_as(&disk, Mode::Store, None);
    put(&store, b"k", &json(1));
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    assert_eq!(version(&disk), 1);
    let store = start(&disk);
    assert_eq!(version(&disk), 2, "before the first compressed record");
    assert_eq!(value(&store, b"k"), Some(json(1)));
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    let store = start_as(&disk, Mode::Store, None);
    assert_eq!(version(&disk), 2);
    drop(store);
}

#[test]
fn a_damaged_copy_is_written_again() {
    let disk = stopped();
    let [whole, copy] = COPIES.map(|name| read(&disk, name));
    assert_eq!(whole, copy);
    for name in COPIES {
        for flips in [1, 9] {
            match flips {
                1 => assert!(disk.flip_bit(name, 2000)),
                _ => damage(&disk, name),
            }
            let (store, started) = start_as(&disk, Mode::Store, Some(COMPRESSION));
            assert_eq!(started.dictionary_copies, 1, "{flips} bits of {name}");
            check(&store, name);
            drop(store);
            assert_eq!(read(&disk, name), whole, "{flips} bits of {name}");
        }
    }
    // One flipped bit in each copy.
    COPIES.iter().for_each(|name| assert!(disk.flip_bit(name, 3000)));
    let (store, started) = start_as(&disk, Mode::Store, Some(COMPRESSION));
    assert_eq!(started.dictionary_copies, 2);
    check(&store, "both");
    drop(store);
    assert_eq!(COPIES.map(|name| read(&disk, name)), [whole, copy]);
}

#[test]
fn a_lost_dictionary_is_an_error_that_names_it() {
    let disk = stopped();
    COPIES.iter().for_each(|name| damage(&disk, name));
    let error = open(&disk, Mode::Store).unwrap_err();
    assert!(matches!(error, OpenError::Dictionary { number: 1, .. }), "{error}");
    let message = error.to_string();
    for expected in ["DICTIONARY.1: its checksum is wrong", "DICTIONARY.1.copy", "larder export"] {
        assert!(message.contains(expected), "{message}");
    }
    let tier = Tier::open_existing(disk.open()).unwrap();
    let inspected = inspect(&tier, NOW, &mut |_, _| (), &mut |_| true).unwrap_err();
    assert!(inspected.to_string().starts_with("dictionary 1 is lost"), "{inspected}");
    let (mut damages, mut shown) = (Vec::new(), 0);
    let report = salvage(
        &tier,
        NOW,
        &mut |_, _| (),
        &mut |damage| damages.push(damage.clone()),
        &mut |item, trust| {
            assert_eq!((item.value, trust), (&json(shown)[..], Trust::Current));
            assert_eq!(item.key, key(shown));
            shown += 1;
        },
    );
    let report = report.unwrap();
    assert_eq!((shown, report.withheld), (BEFORE, u64::from(ITEMS - BEFORE)));
    let is_of_dictionary = |kind: &DamageKind| matches!(kind, DamageKind::Dictionary(_));
    assert_eq!(damages.iter().filter(|damage| is_of_dictionary(&damage.wrong)).count(), 2);
    let said = damages[0].to_string();
    assert!(said.contains("values that dictionary 1 compresses are lost"), "{said}");
}

#[test]
fn the_dictionary_of_another_directory_is_not_used() {
    let disk = stopped();
    let mut bytes = read(&disk, "DICTIONARY.1");
    let uuid = larder_tier::format::Uuid([7; 16]);
    let file = DictionaryFile::decode(uuid, 1, &bytes).unwrap();
    let other = DictionaryFile { uuid: larder_tier::format::Uuid([8; 16]), ..file.clone() };
    let later = DictionaryFile { number: 2, ..file };
    for foreign in [other, later] {
        bytes = foreign.encode();
        for name in COPIES {
            disk.open().replace_small(name, &bytes).unwrap();
        }
        let message = open(&disk, Mode::Store).unwrap_err().to_string();
        assert!(message.contains("it is another dictionary"), "{message}");
    }
}

#[test]
fn a_dictionary_that_the_manifest_does_not_name_is_written_anew() {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    // A process wrote the files and was killed before it wrote the manifest.
    for name in COPIES {
        disk.open().replace_small(name, &[1; 60_000]).unwrap();
    }
    let store = start(&disk);
    assert_eq!(store.statistics().dictionary, 0);
    fill(&store);
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let manifest = Manifest::decode(&read(&disk, "MANIFEST")).unwrap();
    assert_eq!(manifest.dictionaries, Some(1));
    check(&start(&disk), "after a kill");
}

#[test]
fn a_full_disk_delays_the_dictionary() {
    use larder_tier::disk::Call;
    use larder_tier::disk::simulated::{Fault, When};
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    const ENOSPC: i32 = 28;
    disk.inject(When::nth(Call::Create, 1), Fault::Errno(ENOSPC));
    (0..BEFORE).for_each(|number| put(&store, &key(number), &json(number)));
    for number in BEFORE.. {
        if store.statistics().dictionary > 0 {
            break;
        }
        put(&store, b"other", &json(number));
        assert_eq!(store.failure(), None);
    }
    wait_for_dictionary(&store, 1);
    drop(store);
    check_first(&disk);
}

fn check_first(disk: &SimulatedDisk) {
    let store = start(disk);
    for number in 0..BEFORE {
        assert_eq!(value(&store, &key(number)), Some(json(number)));
    }
}

#[test]
fn a_dictionary_of_the_longest_length_is_read() {
    let disk = SimulatedDisk::new(1);
    let longest = larder_tier::format::DICTIONARY_BYTES_MAX;
    let compression = Compression { dictionary_bytes: longest, train_after_bytes: 64 << 10 };
    let tier = open(&disk, Mode::Store).unwrap();
    let (store, _) = Store::start(tier, settings(Some(compression)), &mut |_, _| ()).unwrap();
    fill(&store);
    drop(store);
    check(&start(&disk), "after a stop");
}
