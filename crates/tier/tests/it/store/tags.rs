//! The store distinguishes keys with the same tag by their records on the disk.

use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::store::{Change, Durability, Durable, Known, Refusal};

use super::faults::{NEW, item, put, value};
use super::keys::pairs;
use super::start;

#[test]
fn both_keys_of_a_pair_are_stored_found_and_removed_by_themselves() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    for [one, other] in &pairs()[..20] {
        put(&store, one, b"1").unwrap();
        let unknown = store.put(&item(other, b"2"), &NEW, &Known::default());
        assert_eq!(unknown, Err(Refusal::NeedsDisk), "the record found may be the key's own");
        put(&store, other, b"2").unwrap();
        put(&store, one, b"3").unwrap();
        assert_eq!(value(&store, one), Some(b"3".to_vec()));
        assert_eq!(value(&store, other), Some(b"2".to_vec()));
    }
    assert_eq!(store.sync(), Durable::Yes);
    drop(store);
    let (store, started) = start(&disk, 8, Durability::Sync);
    assert_eq!(started.items, 40, "a start tells the keys apart");
    for [one, other] in &pairs()[..20] {
        let known = store.find(one).unwrap().0;
        assert_eq!(known.others.len(), 1, "the other key's record is known as such");
        store.remove(one, &NEW, &known).unwrap();
        assert_eq!(value(&store, one), None);
        assert_eq!(value(&store, other), Some(b"2".to_vec()));
    }
}

#[test]
fn a_resident_item_is_its_tags_only_record_or_the_disk_is_asked() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    let [one, other] = &pairs()[0];
    let resident = Change { is_resident: true, ..NEW };
    put(&store, one, b"1").unwrap();
    assert_eq!(store.put(&item(one, b"2"), &resident, &Known::default()), Ok(()));
    put(&store, other, b"3").unwrap();
    // Two records have the tag. Either could belong to the resident item.
    let ambiguous = store.put(&item(one, b"4"), &resident, &Known::default());
    assert_eq!(ambiguous, Err(Refusal::NeedsDisk));
    let known = store.find(one).unwrap().0;
    assert_eq!(store.put(&item(one, b"4"), &resident, &known), Ok(()));
    assert_eq!(value(&store, other), Some(b"3".to_vec()));
}

#[test]
fn what_is_known_of_a_record_that_has_moved_is_not_used() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, 8, Durability::Sync);
    let [one, other] = &pairs()[0];
    put(&store, one, b"1").unwrap();
    let known = store.find(one).unwrap().0;
    put(&store, one, b"2").unwrap();
    put(&store, other, b"3").unwrap();
    let stale = store.put(&item(one, b"4"), &NEW, &known);
    assert_eq!(stale, Err(Refusal::NeedsDisk), "neither record is the one that is known");
    let resident = Change { is_resident: true, ..NEW };
    store.remove(one, &resident, &store.find(one).unwrap().0).unwrap();
    let stale = store.put(&item(one, b"5"), &NEW, &known);
    assert_eq!(stale, Err(Refusal::NeedsDisk), "the record that is left is the other key's");
}
