//! Which items a removal by prefix removes, and which it leaves.

use larder_item::{Deadline, Direction, StoreMode};

use super::*;
use crate::fixtures::SMALL;
use crate::open::Config;
use crate::ops::arithmetic::{Arithmetic, ArithmeticRequest};
use crate::ops::request::StoreRequest;
use crate::ops::update_meta::{MetaOutcome, MetaUpdate};
use crate::process::operation::Operation;
use crate::reclaim::empty::Emptied;

const NOW: Second = 10;

struct Scene {
    engine: Engine,
    thread: ThreadSlot,
}

/// Returns scenes with and without cas tokens, because the rule must hold in both.
fn scenes() -> [Scene; 2] {
    [true, false].map(|keeps_versions| {
        let engine = Engine::create(&Config { keeps_versions, evicts: false, ..SMALL }).unwrap();
        let thread = engine.register().unwrap();
        Scene { engine, thread }
    })
}

impl Scene {
    fn store(&self, mode: StoreMode, key: &[u8], value: &[u8]) {
        let request = StoreRequest::new(key, mode);
        self.engine.store(&Operation::new(&self.thread, NOW), &request, value).unwrap();
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.store(StoreMode::Set, key, value);
    }

    fn increment(&self, key: &[u8]) -> Option<u64> {
        let counting = ArithmeticRequest::new(key, Direction::Increment, 1);
        match self.engine.arithmetic(&Operation::new(&self.thread, NOW), &counting).unwrap() {
            Arithmetic::Number { number, .. } => Some(number),
            _ => None,
        }
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.engine.peek_value(key, NOW).map(|(value, _)| value)
    }

    fn begin(&self, prefix: &[u8]) -> PrefixRemoval {
        self.engine.begin_prefix_removal(&self.thread, prefix, NOW).unwrap()
    }

    fn end(&self, mut removal: PrefixRemoval) -> u64 {
        while self.engine.remove_prefix_of_group(&self.thread, &mut removal, NOW).unwrap() {}
        assert!((self.engine.progress_of(&removal) - 1.0).abs() < 1e-9);
        self.engine.validate().unwrap();
        removal.removed()
    }

    /// Moves all items to other segments.
    fn compact(&self) {
        self.engine.segments().detach_where(&self.thread, |_| true);
        let op = self.engine.op(&self.thread, NOW);
        let segment_of = |key| {
            let found = self.engine.index().find(self.engine.index().hash(key), key).unwrap();
            found.slot.segment()
        };
        let before = segment_of(b"other");
        let old = self.engine.segments().present_use(before);
        let emptied = self.engine.reclaimer().compact(&op, old).unwrap();
        assert!(matches!(emptied, Emptied::Yes(_)), "the segment is not emptied");
        assert_ne!(segment_of(b"other"), before, "the items have not moved");
    }
}

#[test]
fn items_stored_before_the_beginning_go_and_later_ones_stay() {
    for scene in scenes() {
        scene.set(b"p old", b"1");
        scene.set(b"p again", b"1");
        scene.set(b"p large", &[1; 100_000]);
        scene.set(b"other", b"1");
        let removal = scene.begin(b"p ");
        scene.set(b"p again", b"2");
        scene.set(b"p new", b"2");
        scene.set(b"p new and large", &[2; 100_000]);
        assert_eq!(scene.end(removal), 2);
        assert_eq!((scene.value(b"p old"), scene.value(b"p large")), (None, None));
        for key in [&b"p again"[..], b"p new"] {
            assert_eq!(scene.value(key).as_deref(), Some(&b"2"[..]), "{}", key.escape_ascii());
        }
        assert_eq!(scene.value(b"p new and large"), Some(vec![2; 100_000]));
        assert_eq!(scene.value(b"other").as_deref(), Some(&b"1"[..]));
        assert_eq!(scene.end(scene.begin(b"p ")), 3, "the next removal takes the rest");
    }
}

#[test]
fn an_item_that_has_moved_since_is_removed_all_the_same() {
    for scene in scenes() {
        scene.set(b"p", b"1");
        scene.set(b"other", b"1");
        let removal = scene.begin(b"p");
        scene.compact();
        assert_eq!((scene.end(removal), scene.value(b"p")), (1, None));
        // Without a removal, a move leaves the item.
        scene.set(b"p", b"2");
        scene.compact();
        assert_eq!(scene.value(b"p").as_deref(), Some(&b"2"[..]));
    }
}

#[test]
fn a_change_of_the_value_is_a_store_and_a_touch_is_none() {
    for scene in scenes() {
        for key in [&b"p counted"[..], b"p not counted"] {
            scene.set(key, b"5");
            // The second increment changes the item in place.
            assert_eq!((scene.increment(key), scene.increment(key)), (Some(6), Some(7)));
        }
        for key in [&b"p appended"[..], b"p not appended"] {
            scene.set(key, b"a long enough value for a record with room");
            scene.store(StoreMode::Append, key, b"a");
        }
        scene.set(b"p touched", b"1");
        let removal = scene.begin(b"p ");
        assert_eq!(scene.increment(b"p counted"), Some(8));
        scene.store(StoreMode::Append, b"p appended", b"b");
        let update = MetaUpdate { deadline: Some(Deadline(90)), ..MetaUpdate::default() };
        let touched =
            scene.engine.update_meta(&Operation::new(&scene.thread, NOW), b"p touched", &update);
        assert!(matches!(touched, Ok(MetaOutcome::NotFound)), "the removal comes first");
        assert_eq!(scene.end(removal), 3);
        assert_eq!(scene.value(b"p counted").as_deref(), Some(&b"8"[..]));
        assert!(scene.value(b"p appended").unwrap().ends_with(b"roomab"));
        assert_eq!((scene.value(b"p not counted"), scene.value(b"p not appended")), (None, None));
    }
}

#[test]
fn an_upload_that_ends_later_is_stored_later() {
    for scene in scenes() {
        let mut upload = scene.engine.upload(b"p", 100_000).unwrap();
        scene.engine.push(&scene.thread, &mut upload, &[1; 60_000], NOW).unwrap();
        let removal = scene.begin(b"p");
        scene.engine.push(&scene.thread, &mut upload, &[1; 40_000], NOW).unwrap();
        let request = StoreRequest::new(b"p", StoreMode::Set);
        scene.engine.publish_upload(&Operation::new(&scene.thread, NOW), upload, &request).unwrap();
        assert_eq!((scene.end(removal), scene.value(b"p")), (0, Some(vec![1; 100_000])));
    }
}

#[test]
fn a_load_that_began_before_is_overtaken_and_a_later_one_is_not() {
    for scene in scenes() {
        let until = Some(Deadline(90));
        let begin =
            |key| scene.engine.begin_load(&Operation::new(&scene.thread, NOW), key, until).unwrap();
        let old = begin(b"p old");
        let removal = scene.begin(b"p");
        let new = begin(b"p new");
        assert_eq!(scene.end(removal), 0, "a reservation is no item");
        for (key, basis, stays) in [(&b"p old"[..], old, false), (b"p new", new, true)] {
            let request = StoreRequest::new(key, StoreMode::Set);
            scene
                .engine
                .end_load(&Operation::new(&scene.thread, NOW), &request, basis, b"loaded")
                .unwrap();
            assert_eq!(scene.value(key).is_some(), stays, "{}", key.escape_ascii());
        }
    }
}

#[test]
fn a_dropped_removal_takes_no_more_and_two_go_on_beside_each_other() {
    for scene in scenes() {
        scene.set(b"p", b"1");
        scene.set(b"other", b"1");
        drop(scene.begin(b"p"));
        scene.compact();
        assert!(scene.value(b"p").is_some(), "a removal that was given up still removes");
        let (one, two) = (scene.begin(b"p"), scene.begin(b"o"));
        scene.set(b"p", b"2");
        assert_eq!((scene.end(one), scene.end(two)), (0, 1));
    }
}
