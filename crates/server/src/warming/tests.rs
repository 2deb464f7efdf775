use std::time::{Duration, Instant};

use larder::{Deletion, StoreMode, StoreRequest, Stored, Wait, waited};

use super::*;

/// A server's cache to which items are copied.
struct Scene {
    cache: Cache,
    warming: Arc<Warming>,
    session: u64,
}

impl Scene {
    fn new() -> Self {
        Self::recording(1 << 20)
    }

    fn recording(keys_max: u64) -> Self {
        let cache = Cache::builder().memory_bytes(16 << 20).open().unwrap();
        let options =
            Options { memory_bytes: keys_max * MEMORY_BYTES_PER_KEY, ..Options::default() };
        let warming = Warming::new(cache.clone(), &options, Arc::default());
        let changes = Changes { warming: Arc::clone(&warming), followers: None };
        cache.set_change_listener(Arc::new(changes));
        let session = warming.begin().unwrap();
        Self { cache, warming, session }
    }

    /// Copies an item. Returns true if the server has stored it.
    fn copy(&self, key: &str) -> bool {
        let store = || {
            let request = StoreRequest::new(key.as_bytes(), StoreMode::Add);
            waited(self.cache.raw(Wait::Block).unannounced().store(&request, b"copied")).unwrap()
        };
        let is_stored = |stored: &Stored| matches!(stored, Stored::Stored { .. });
        match self.warming.store(self.session, key.as_bytes(), store, is_stored) {
            Copied::Tried(stored) => is_stored(&stored),
            Copied::Changed | Copied::Over(_) => false,
        }
    }

    /// Removes a copied item. Returns true if there was one.
    fn drop_copy(&self, key: &str) -> bool {
        let raw = self.cache.raw(Wait::Block).unannounced();
        let removed = self.warming.drop_copy(key.as_bytes(), || raw.delete(key.as_bytes(), None));
        matches!(waited(removed), Ok(Deletion::Deleted(_)))
    }

    fn value(&self, key: &str) -> Option<String> {
        self.cache.get(key).map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    fn wait_until_idle(&self) {
        let began = Instant::now();
        while self.warming.progress().0 != Phase::Idle {
            assert!(began.elapsed() < Duration::from_secs(10), "the removal does not end");
            std::thread::yield_now();
        }
    }
}

#[test]
fn an_item_is_not_copied_under_a_key_that_a_client_has_changed() {
    let scene = Scene::new();
    assert!(scene.copy("untouched"));
    scene.cache.delete("deleted").unwrap();
    assert!(!scene.copy("deleted"));
    scene.cache.set("set", "new", None).unwrap();
    scene.cache.delete("set").unwrap();
    assert!(!scene.copy("set"));
    let mut upload = scene.cache.upload(b"large", 500_000).unwrap();
    upload.push(&[7; 500_000]).unwrap();
    upload.store(&StoreRequest::new(b"large", StoreMode::Set)).unwrap();
    scene.cache.remove_prefix("large").unwrap();
    assert!(!scene.copy("large"));
    scene.cache.give_up(&StoreRequest::new(b"too large", StoreMode::Set));
    assert!(!scene.copy("too large"));
}

#[test]
fn a_copied_item_may_be_dropped_and_copied_again() {
    let scene = Scene::new();
    assert!(scene.copy("k"));
    assert!(scene.drop_copy("k"));
    assert_eq!(scene.value("k"), None);
    assert!(scene.copy("k"));
    scene.cache.delete("k").unwrap();
    assert!(!scene.copy("k"), "a client has deleted it");
}

#[test]
fn a_complete_copy_stays() {
    let scene = Scene::new();
    assert!(scene.copy("k"));
    scene.warming.complete(scene.session).unwrap();
    assert_eq!(scene.value("k").as_deref(), Some("copied"));
    assert!(!scene.copy("l"), "the session has ended");
    assert!(scene.warming.begin().is_ok());
}

#[test]
fn a_failed_copy_is_removed_and_other_items_stay() {
    let scene = Scene::new();
    scene.cache.set("before", "own", None).unwrap();
    assert!((0..1000).all(|number| scene.copy(&format!("copied {number}"))));
    scene.cache.set("after", "own", None).unwrap();
    scene.warming.fail(EndReason::Lost, Some(scene.session));
    assert!(!scene.copy("late"));
    scene.wait_until_idle();
    let mut left: Vec<_> = scene.cache.keys().collect();
    left.sort();
    assert_eq!(left, [&b"after"[..], b"before"]);
    assert_eq!(scene.warming.complete(scene.session), Err(EndReason::Lost));
}

#[test]
fn a_copy_of_more_keys_than_can_be_recorded_fails() {
    let scene = Scene::recording(KEYS_MIN);
    for number in 0..KEYS_MIN - 100 {
        scene.cache.delete(format!("deleted {number}")).unwrap();
    }
    let copied = (0..200).filter(|number| scene.copy(&format!("copied {number}"))).count();
    assert_eq!(copied, 100);
    scene.wait_until_idle();
    assert_eq!(scene.warming.complete(scene.session), Err(EndReason::Full));
    assert_eq!(scene.cache.keys().count(), 0);
}

#[test]
fn no_item_is_copied_after_a_change_that_could_not_be_recorded() {
    let scene = Scene::recording(KEYS_MIN);
    for number in 0..=KEYS_MIN {
        scene.cache.delete(format!("deleted {number}")).unwrap();
    }
    assert!(!scene.copy(&format!("deleted {KEYS_MIN}")));
}

#[test]
fn a_clear_and_a_removal_end_the_copy_first() {
    let scene = Scene::new();
    assert!(scene.copy("k"));
    scene.warming.interrupt(EndReason::Removal);
    scene.cache.clear();
    assert!(!scene.copy("k"));
    scene.wait_until_idle();
    assert_eq!(scene.value("k"), None);
    scene.warming.succession.begin();
    assert!(scene.warming.begin().is_err(), "two processes serve");
}
