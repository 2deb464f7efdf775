//! Overwrites of a value in place, while other threads use the item.

use larder_item::Deadline;
use larder_stats::Counter;

use super::*;

const KEY: &[u8] = b"a key";

/// Returns a value that is too long to be copied in one step.
fn filled(letter: u8) -> Vec<u8> {
    vec![letter; 40]
}

/// Returns a scene with an item whose record is overwritable, and the item's cas token.
fn overwritable(keeps_versions: bool) -> (Scene, u64) {
    let scene = Scene::with_versions(keeps_versions);
    let token = scene.stage.set_overwritable(KEY, &filled(b'a'));
    (scene, token)
}

/// Ends a scene. Checks that at least `times` overwrites happened in place.
fn end(scene: &Scene, times: u64) {
    scene.end();
    let in_place = scene.engine.counter(Counter::AlteredInPlace);
    assert!(in_place >= times, "{in_place} overwrites happened in place");
}

/// Two reads at the same time as two overwrites return whole values with the tokens that belong to
/// them, the older value first.
fn read_while_overwritten(keeps_versions: bool) {
    let (scene, token) = overwritable(keeps_versions);
    let writer = scene.start(|actor| [b'b', b'c'].map(|with| actor.overwrite(KEY, &filled(with))));
    let reader = scene.start(|actor| [actor.raw(KEY), actor.raw(KEY)]);
    let [second, third] = writer.join().unwrap();
    let seen = reader.join().unwrap().map(Option::unwrap);
    end(&scene, 2);
    let history = [(filled(b'a'), token), (filled(b'b'), second), (filled(b'c'), third)];
    let times = seen.map(|seen| history.iter().position(|there| *there == seen));
    assert!(times[0].is_some() && times.is_sorted(), "{times:?}");
    assert_eq!(token == 0, !keeps_versions);
}

#[test]
fn a_value_that_is_overwritten_is_read_whole_and_with_its_token() {
    explore(|| read_while_overwritten(true));
}

#[test]
fn a_value_without_token_that_is_overwritten_is_read_whole() {
    explore(|| read_while_overwritten(false));
}

/// Values of two lengths that take the same space overwrite each other.
fn read_while_its_length_changes(keeps_versions: bool) {
    let (scene, token) = overwritable(keeps_versions);
    let shorter = || vec![b'b'; 39];
    let writer = scene.start(move |actor| actor.overwrite(KEY, &shorter()));
    let reader = scene.start(|actor| actor.raw(KEY).unwrap());
    let second = writer.join().unwrap();
    let seen = reader.join().unwrap();
    end(&scene, 1);
    assert!([(filled(b'a'), token), (shorter(), second)].contains(&seen), "{seen:?}");
}

#[test]
fn a_value_whose_length_changes_in_place_is_read_whole() {
    explore(|| read_while_its_length_changes(true));
}

#[test]
fn a_value_without_token_whose_length_changes_in_place_is_read_whole() {
    explore(|| read_while_its_length_changes(false));
}

#[test]
fn of_two_overwrites_in_place_the_one_with_the_higher_token_stays() {
    explore(|| {
        let (scene, _) = overwritable(true);
        let writers =
            [b'b', b'c'].map(|with| scene.start(move |actor| actor.overwrite(KEY, &filled(with))));
        let tokens = writers.map(|writer| writer.join().unwrap());
        end(&scene, 2);
        let last = if tokens[0] > tokens[1] { (b'b', tokens[0]) } else { (b'c', tokens[1]) };
        assert_eq!(scene.stage.raw(KEY), Some((filled(last.0), last.1)));
    });
}

/// A value is appended to, which writes a new record, while it is overwritten in place.
fn appended_to_while_overwritten(keeps_versions: bool) {
    let (scene, _) = overwritable(keeps_versions);
    let writer = scene.start(|actor| actor.overwrite(KEY, &filled(b'b')));
    let appending = scene.start(|actor| actor.append(KEY, &filled(b'c')));
    writer.join().unwrap();
    assert!(appending.join().unwrap().is_some());
    scene.end();
    let (value, _) = scene.stage.raw(KEY).unwrap();
    let both = [filled(b'b'), filled(b'c')].concat();
    assert!([both, filled(b'b')].contains(&value), "{value:?}");
}

#[test]
fn an_append_and_an_overwrite_in_place_happen_one_after_the_other() {
    explore(|| appended_to_while_overwritten(true));
}

#[test]
fn an_append_and_an_overwrite_in_place_of_a_value_without_token_happen_one_after_the_other() {
    explore(|| appended_to_while_overwritten(false));
}

/// An item receives its first deadline, which copies the record, while it is overwritten.
fn touched_while_overwritten(keeps_versions: bool) {
    let (scene, _) = overwritable(keeps_versions);
    let writer = scene.start(|actor| actor.overwrite(KEY, &filled(b'b')));
    let touching = scene.start(|actor| actor.touch(KEY, 20));
    let token = writer.join().unwrap();
    assert!(touching.join().unwrap());
    scene.end();
    assert_eq!(scene.stage.raw(KEY), Some((filled(b'b'), token)));
    assert!([Deadline(20), Deadline::NEVER].contains(&scene.stage.deadline(KEY)));
}

#[test]
fn a_first_deadline_and_an_overwrite_in_place_leave_the_new_value() {
    explore(|| touched_while_overwritten(true));
}

#[test]
fn a_first_deadline_and_an_overwrite_in_place_leave_the_new_value_without_token() {
    explore(|| touched_while_overwritten(false));
}

#[test]
fn an_item_that_is_deleted_while_it_is_overwritten_is_gone_or_has_the_new_value() {
    explore(|| {
        let (scene, _) = overwritable(true);
        let writer = scene.start(|actor| actor.overwrite(KEY, &filled(b'b')));
        let deleting = scene.start(|actor| actor.delete(KEY));
        let token = writer.join().unwrap();
        assert!(deleting.join().unwrap());
        scene.end();
        let there = scene.stage.raw(KEY);
        assert!([None, Some((filled(b'b'), token))].contains(&there), "{there:?}");
    });
}

#[test]
fn a_value_that_is_overwritten_while_it_is_flushed_does_not_come_back() {
    explore(|| {
        let (scene, _) = overwritable(true);
        scene.fill_segment();
        let write = |actor: &Actor| actor.overwrite(KEY, &filled(b'b'));
        let (_, token) = scene.race(|actor| actor.engine.flush(), write);
        let there = scene.stage.raw(KEY);
        assert!([None, Some((filled(b'b'), token))].contains(&there), "{there:?}");
    });
}

/// An item is overwritten twice while its segment is emptied.
fn overwritten_while_moved(keeps_versions: bool) {
    let (scene, _) = overwritable(keeps_versions);
    let segment = scene.seal_alone(&[KEY]);
    let write = |actor: &Actor| [b'b', b'c'].map(|with| actor.overwrite(KEY, &filled(with)));
    let (emptied, tokens) = scene.race(move |actor| actor.reclaim(segment), write);
    assert!(emptied, "no reader holds the segment");
    // A store that finds the item moved since it looked writes a new record.
    assert!(scene.engine.counter(Counter::AlteredInPlace) >= 1);
    assert!(scene.engine.counter(Counter::BytesRelocated) > 0);
    assert_eq!(scene.stage.raw(KEY), Some((filled(b'c'), tokens[1])));
}

#[test]
fn no_overwrite_in_place_is_lost_while_the_item_is_moved() {
    explore(|| overwritten_while_moved(true));
}

#[test]
fn no_overwrite_in_place_is_lost_while_an_item_without_token_is_moved() {
    explore(|| overwritten_while_moved(false));
}
