//! Reads while other threads store and delete.

use super::*;
use crate::interleavings::stage::actor::assert_in_order;
use crate::interleavings::stage::keys::of_one_tag;

const KEY: &[u8] = b"a key";

#[test]
fn a_read_beside_an_overwrite_finds_the_old_value_or_the_new_one_and_never_goes_back() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let (_, seen) =
            scene.race(|actor| actor.set(KEY, 2), |actor| [actor.fill_of(KEY), actor.fill_of(KEY)]);
        assert!(seen.is_sorted() && seen[0] >= Some(1), "{seen:?}");
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn a_read_beside_a_delete_and_a_store_finds_what_was_there_at_some_time_in_that_order() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let (_, seen) = scene.race(
            |actor| {
                assert!(actor.delete(KEY));
                actor.set(KEY, 2);
            },
            |actor| [actor.fill_of(KEY), actor.fill_of(KEY)],
        );
        assert_in_order(seen, [Some(1), None, Some(2)]);
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
#[cfg_attr(miri, ignore = "two such keys take long to find")]
fn a_key_is_found_while_another_with_its_tag_is_overwritten_and_deleted() {
    explore(|| {
        let (still, busy) = of_one_tag();
        let scene = Scene::new();
        scene.stage.set(&busy, 1);
        scene.stage.set(&still, 7);
        let (_, (of_still, of_busy)) = scene.race(
            move |actor| {
                actor.set(&busy, 2);
                assert!(actor.delete(&busy));
            },
            move |actor| (actor.fill_of(&still), actor.fill_of(&busy)),
        );
        assert_eq!(of_still, Some(7));
        assert!([Some(1), Some(2), None].contains(&of_busy), "{of_busy:?}");
    });
}

#[test]
fn a_reader_that_unlinks_an_expired_item_leaves_the_one_stored_meanwhile() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_until(KEY, 1, scene::NOW);
        let (_, seen) = scene.race(|actor| actor.set(KEY, 2), |actor| actor.fill_of(KEY));
        assert!([None, Some(2)].contains(&seen), "{seen:?}");
        assert_eq!(scene.stage.fill_of(KEY), Some(2));
    });
}

#[test]
fn a_read_that_is_noted_in_the_slot_does_not_bring_a_deleted_item_back() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        let (seen, _) = scene.race(|actor| actor.fill_of(KEY), |actor| assert!(actor.delete(KEY)));
        assert!([Some(1), None].contains(&seen), "{seen:?}");
        assert_eq!(scene.stage.fill_of(KEY), None);
    });
}
