//! Keys that collide: in one group of the index, or with one tag.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::engine::Engine;
use crate::index::group::prefers_second_line;
use crate::interleavings::stage::scene::small_engine;

pub(crate) type Key = [u8; 8];

/// The group that [`of_one_group`] fills: the first group that is split by a scene's second split.
const GROUP: u64 = 1;

fn all() -> impl Iterator<Item = Key> {
    (0..10_000_000u32).map(|n| format!("{n:08}").into_bytes().try_into().unwrap())
}

/// Returns keys of one group that prefer its first line: `stays` keys that the split leaves in the
/// group, and `moves` keys that it moves.
pub(crate) fn of_one_group(stays: usize, moves: usize) -> (Vec<Key>, Vec<Key>) {
    static KEYS: OnceLock<(Vec<Key>, Vec<Key>)> = OnceLock::new();
    let (staying, moving) = KEYS.get_or_init(|| {
        let engine = small_engine();
        let in_group = |engine: &Engine, key: &Key| {
            let hash = engine.index().hash(key);
            hash & ((1 << engine.index().first_level()) - 1) == GROUP && !prefers_second_line(hash)
        };
        let keys: Vec<Key> = all().filter(|key| in_group(&engine, key)).take(40).collect();
        keys.into_iter()
            .partition(|key| engine.index().hash(key) >> engine.index().first_level() & 1 == 0)
    });
    (staying[..stays].to_vec(), moving[..moves].to_vec())
}

/// Returns two keys of one group with the same tag, so that slots do not distinguish them.
pub(crate) fn of_one_tag() -> (Key, Key) {
    static KEYS: OnceLock<(Key, Key)> = OnceLock::new();
    *KEYS.get_or_init(|| {
        let engine = small_engine();
        let mut seen = HashMap::new();
        let same = all().find_map(|key| {
            let hash = engine.index().hash(&key);
            let group = hash & ((1 << engine.index().first_level()) - 1);
            seen.insert((group, engine.index().tag_of(hash)), key).map(|other| (other, key))
        });
        same.unwrap()
    })
}
