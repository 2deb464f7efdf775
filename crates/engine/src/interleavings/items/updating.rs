//! Changes of an item in place, while other threads read it.

use larder_item::Direction::{Decrement, Increment};
use larder_item::{Deadline, StoreMode};
use larder_stats::Counter;

use super::*;

const KEY: &[u8] = b"a key";

/// Stores a number and increments it, so that later changes happen in place. Returns its cas token.
fn set_number(scene: &Scene, number: u64) -> u64 {
    scene.stage.set_raw(KEY, (number - 1).to_string().as_bytes());
    let (told, token) = scene.stage.count(KEY, Increment).unwrap();
    assert_eq!(told, number);
    token
}

/// Returns a value of parts. Each part is too long to be copied in one step.
fn parts(letters: &[u8]) -> Vec<u8> {
    letters.iter().flat_map(|letter| [*letter; 20]).collect()
}

/// Stores a value of three parts and appends one, so that two more are appended in place.
fn set_growing(scene: &Scene) -> u64 {
    scene.stage.set_raw(KEY, &parts(b"ab"));
    scene.stage.append(KEY, &parts(b"c")).unwrap()
}

/// Ends a scene. Checks that at least `times` changes happened in place.
fn end_value_update(scene: &Scene, times: u64) {
    scene.end();
    assert!(scene.engine.counter(Counter::AlteredInPlace) >= times, "nothing changed in place");
}

#[test]
fn a_number_and_the_token_read_with_it_belong_together() {
    explore(|| {
        let scene = Scene::new();
        let token = set_number(&scene, 6);
        let writer =
            scene.start(|actor| [actor.count(KEY, Increment), actor.count(KEY, Increment)]);
        let reader = scene.start(|actor| [actor.raw(KEY), actor.raw(KEY)]);
        let [seventh, eighth] = writer.join().unwrap().map(Option::unwrap);
        let seen = reader.join().unwrap().map(Option::unwrap);
        end_value_update(&scene, 2);
        let history = [(6, token), seventh, eighth]
            .map(|(number, token)| (number.to_string().into_bytes(), token));
        let times = seen.map(|seen| history.iter().position(|there| *there == seen));
        assert!(times[0].is_some() && times.is_sorted(), "{times:?}");
    });
}

#[test]
fn two_increments_in_place_return_different_numbers_and_the_item_has_the_last_token() {
    explore(|| {
        let scene = Scene::new();
        set_number(&scene, 6);
        let first = scene.start(|actor| actor.count(KEY, Increment));
        let second = scene.start(|actor| actor.count(KEY, Increment));
        let mut told = [first.join().unwrap().unwrap(), second.join().unwrap().unwrap()];
        end_value_update(&scene, 2);
        told.sort_unstable();
        assert_eq!(told.map(|(number, _)| number), [7, 8]);
        assert!(told[0].1 < told[1].1, "{told:?}");
        assert_eq!(scene.stage.raw(KEY), Some((b"8".to_vec(), told[1].1)));
    });
}

/// A number is rewritten because it needs one more digit, while another thread decrements it in
/// place.
fn counted_while_it_gets_a_digit(keeps_versions: bool) {
    let scene = Scene::with_versions(keeps_versions);
    set_number(&scene, 9);
    let growing = scene.start(|actor| actor.count(KEY, Increment));
    let counting = scene.start(|actor| actor.count(KEY, Decrement));
    growing.join().unwrap().unwrap();
    counting.join().unwrap().unwrap();
    end_value_update(&scene, 1);
    assert_eq!(scene.stage.increment(KEY), Some(10));
}

#[test]
fn no_change_in_place_is_lost_to_a_number_that_gets_a_digit() {
    explore(|| counted_while_it_gets_a_digit(true));
}

#[test]
fn no_change_in_place_is_lost_to_a_number_without_token_that_gets_a_digit() {
    explore(|| counted_while_it_gets_a_digit(false));
}

#[test]
fn a_first_deadline_given_to_a_number_that_is_counted_stays_and_so_does_the_count() {
    explore(|| {
        let scene = Scene::new();
        set_number(&scene, 6);
        let touching = scene.start(|actor| actor.touch(KEY, 20));
        let counting = scene.start(|actor| actor.count(KEY, Increment));
        assert!(touching.join().unwrap());
        let (told, token) = counting.join().unwrap().unwrap();
        end_value_update(&scene, 1);
        assert_eq!((told, scene.stage.deadline(KEY)), (7, Deadline(20)));
        assert_eq!(scene.stage.raw(KEY), Some((b"7".to_vec(), token)));
    });
}

/// A reader that runs at the same time as two appends in place reads none, one or both of them,
/// with the matching token.
fn read_while_appended_to(keeps_versions: bool) {
    let scene = Scene::with_versions(keeps_versions);
    let token = set_growing(&scene);
    let writer =
        scene.start(|actor| [b"d", b"e"].map(|part| actor.append(KEY, &parts(part)).unwrap()));
    let reader = scene.start(|actor| [actor.raw(KEY), actor.raw(KEY)]);
    let [second, third] = writer.join().unwrap();
    let seen = reader.join().unwrap().map(Option::unwrap);
    end_value_update(&scene, 2);
    let history = [(parts(b"abc"), token), (parts(b"abcd"), second), (parts(b"abcde"), third)];
    let times = seen.map(|seen| history.iter().position(|there| *there == seen));
    assert!(times[0].is_some() && times.is_sorted(), "{times:?}");
}

#[test]
fn a_value_that_is_appended_to_is_read_with_whole_parts_and_the_token_that_belongs_to_them() {
    explore(|| read_while_appended_to(true));
}

#[test]
fn a_value_without_token_that_is_appended_to_is_read_with_whole_parts() {
    explore(|| read_while_appended_to(false));
}

#[test]
fn of_two_appends_in_place_none_is_lost() {
    explore(|| {
        let scene = Scene::new();
        set_growing(&scene);
        let first = scene.start(|actor| actor.append(KEY, &parts(b"d")));
        let second = scene.start(|actor| actor.append(KEY, &parts(b"e")));
        assert!(first.join().unwrap().is_some() && second.join().unwrap().is_some());
        end_value_update(&scene, 2);
        let (value, _) = scene.stage.raw(KEY).unwrap();
        assert!([parts(b"abcde"), parts(b"abced")].contains(&value));
    });
}

/// A value is rewritten because one thread prepends to it, while a second thread appends to it in
/// place.
fn prepended_and_appended_to(keeps_versions: bool) {
    let scene = Scene::with_versions(keeps_versions);
    set_growing(&scene);
    let appending = scene.start(|actor| actor.append(KEY, &parts(b"d")));
    let prepending = scene.start(|actor| actor.extend(KEY, StoreMode::Prepend, &parts(b"z")));
    assert!(appending.join().unwrap().is_some() && prepending.join().unwrap().is_some());
    scene.end();
    assert_eq!(scene.stage.raw(KEY).unwrap().0, parts(b"zabcd"));
}

#[test]
fn no_append_in_place_is_lost_to_a_prepend() {
    explore(|| prepended_and_appended_to(true));
}

#[test]
fn no_append_in_place_is_lost_to_a_prepend_of_a_value_without_token() {
    explore(|| prepended_and_appended_to(false));
}

#[test]
fn an_append_in_place_and_an_overwrite_happen_one_after_the_other() {
    explore(|| {
        let scene = Scene::new();
        set_growing(&scene);
        let appending = scene.start(|actor| actor.append(KEY, &parts(b"d")));
        let writer = scene.start(|actor| actor.set_raw(KEY, &parts(b"z")));
        assert!(appending.join().unwrap().is_some());
        writer.join().unwrap();
        scene.end();
        let (value, _) = scene.stage.raw(KEY).unwrap();
        assert!([parts(b"z"), parts(b"zd")].contains(&value));
    });
}

#[test]
fn a_digit_appended_in_place_and_an_increment_happen_one_after_the_other() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set_raw(KEY, b"5");
        scene.stage.append(KEY, b"1").unwrap();
        let appending = scene.start(|actor| actor.append(KEY, b"2"));
        let counting = scene.start(|actor| actor.increment(KEY));
        assert!(appending.join().unwrap().is_some());
        let told = counting.join().unwrap();
        scene.end();
        let there = scene.stage.increment(KEY).map(|next| next - 1);
        assert!(
            [(Some(513), Some(513)), (Some(52), Some(522))].contains(&(told, there)),
            "{told:?}"
        );
    });
}
