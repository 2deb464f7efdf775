//! Recounts of accounts while other threads store and remove.

use super::*;

const KEY: &[u8] = b"key";

#[test]
fn an_account_counted_again_beside_an_overwrite_of_the_same_length_says_not_too_little() {
    explore(|| {
        let scene = Scene::new();
        scene.stage.set(KEY, 1);
        scene.engine.segments().suspect(scene.segment_of(KEY));
        scene.race(
            |actor| actor.engine.recount_suspects(&actor.thread, usize::MAX),
            |actor| actor.set(KEY, 2),
        );
    });
}
