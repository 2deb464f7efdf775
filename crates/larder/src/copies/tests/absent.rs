//! Keys that are absent at the origin.

use super::*;

#[test]
fn an_absent_key_is_remembered_until_it_is_invalidated() {
    let invalidations: [fn(&Copies<Shelf>); 3] = [
        |copies| copies.invalidate_key(PLACE, KEY),
        |copies| assert_eq!(copies.invalidate_bucket(BUCKET), 2),
        Copies::invalidate_all,
    ];
    for invalidate in invalidations {
        let copies = copies();
        assert_eq!(fetch(&copies, PLACE, b"present", value("v")), Ok(()));
        assert!(!copies.is_absent(PLACE, KEY));
        assert_eq!(fetch(&copies, PLACE, KEY, ABSENT), Ok(()));
        assert!(copies.is_absent(PLACE, KEY));
        assert!(!copies.is_absent(PLACE, b"present"));
        assert!(!copies.is_absent(NEXT_PLACE, KEY));
        assert!(!copies.is_absent(Place { subscription: 1, ..PLACE }, KEY));
        invalidate(&copies);
        assert!(!copies.is_absent(PLACE, KEY));
    }
}

#[test]
fn the_copy_of_an_item_and_the_absence_of_its_key_replace_each_other() {
    let copies = copies();
    for _ in 0..2 {
        assert_eq!(fetch(&copies, PLACE, KEY, value("v")), Ok(()));
        assert!(!copies.is_absent(PLACE, KEY));
        assert_eq!(copies.absent_bytes.load(SeqCst), 0);
        assert_eq!(fetch(&copies, PLACE, KEY, ABSENT), Ok(()));
        assert!(copies.is_absent(PLACE, KEY));
        assert_eq!(copies.store().value(KEY), None);
        assert_eq!(copies.absent_bytes.load(SeqCst), copies.listed_bytes());
    }
    assert_eq!(copies.listed_bytes(), entry_bytes(KEY));
}
