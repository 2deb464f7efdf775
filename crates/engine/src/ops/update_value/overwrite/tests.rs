use larder_item::{Meta, Second, StoreMode};

use super::*;
use crate::fixtures::SMALL;
use crate::index::removal::Removed;
use crate::open::Config;
use crate::ops::read::Read;
use crate::ops::request::Stale;
use crate::ops::update_meta::MetaUpdate;
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;

const NOW: Second = 10;

/// An engine with an item that is overwritten in place.
struct Scene {
    engine: Engine,
    thread: ThreadSlot,
}

fn set() -> StoreRequest<'static> {
    StoreRequest::new(b"k", StoreMode::Set)
}

impl Scene {
    fn new(keeps_versions: bool) -> Self {
        Self::of(&Config { keeps_versions, ..SMALL }, &set())
    }

    fn of(config: &Config, request: &StoreRequest<'_>) -> Self {
        let engine = Engine::create(config).unwrap();
        let thread = engine.register().unwrap();
        let scene = Self { engine, thread };
        for _ in 0..4 {
            scene.store(request, b"value a");
        }
        assert!(scene.found().header.is_overwritable());
        scene
    }

    fn store(&self, request: &StoreRequest<'_>, value: &[u8]) -> Stored {
        self.engine.store(&Operation::new(&self.thread, NOW), request, value).unwrap()
    }

    fn found(&self) -> Found {
        self.engine.index().find(self.engine.index().hash(b"k"), b"k").unwrap()
    }

    /// Stores a value and returns true if it was stored in place.
    fn overwrites(&self, request: &StoreRequest<'_>, value: &[u8]) -> bool {
        let before = self.engine.counter(Counter::AlteredInPlace);
        let record_at = self.found().record_at;
        assert!(matches!(self.store(request, value), Stored::Stored { .. }));
        let in_place = self.engine.counter(Counter::AlteredInPlace) - before == 1;
        assert_eq!(in_place, self.found().record_at == record_at);
        in_place
    }

    fn peek(&self) -> (Vec<u8>, Meta) {
        self.engine.peek_value(b"k", NOW).unwrap()
    }

    fn read(&self) -> Meta {
        match self.engine.read(&self.thread, b"k", NOW, &mut Vec::new(), |_, _| {}) {
            Read::Hit(meta) => meta,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_item_that_is_stored_often_is_overwritten_in_place() {
    for keeps_versions in [false, true] {
        let scene = Scene::new(keeps_versions);
        for value in [b"value b", b"value c"] {
            assert!(scene.overwrites(&set(), value));
            assert_eq!(scene.peek().0, value);
        }
        // A record is a multiple of eight bytes.
        assert!(scene.overwrites(&set(), b"value"));
        assert_eq!(scene.peek().0, b"value");
        assert!(!scene.overwrites(&set(), b"a much longer value"));
        scene.engine.validate().unwrap();
    }
}

#[test]
fn a_value_with_other_fields_needs_a_new_record() {
    let scene = Scene::new(true);
    assert!(!scene.overwrites(&StoreRequest { flags: 7, ..set() }, b"value b"));
    assert_eq!(scene.peek().1.flags, 7);
    let scene = Scene::new(true);
    assert!(!scene.overwrites(&StoreRequest { deadline: Deadline(90), ..set() }, b"value b"));
    assert_eq!(scene.peek().1.deadline, Deadline(90));
}

#[test]
fn flags_and_deadline_are_overwritten_too() {
    let request = StoreRequest { flags: 7, deadline: Deadline(90), ..set() };
    let scene = Scene::of(&SMALL, &request);
    let other = StoreRequest { flags: 8, deadline: Deadline(80), ..set() };
    assert!(scene.overwrites(&other, b"value b"));
    let (value, meta) = scene.peek();
    assert_eq!((&*value, meta.flags, meta.deadline), (&b"value b"[..], 8, Deadline(80)));
    // The deadline field stays, and contains no deadline.
    assert!(scene.overwrites(&StoreRequest { deadline: Deadline::NEVER, ..other }, b"value c"));
    assert_eq!(scene.peek().1.deadline, Deadline::NEVER);
}

#[test]
fn an_overwritten_item_is_a_new_item() {
    let scene = Scene::new(true);
    assert!(scene.read().fetched || scene.read().fetched, "the second read finds the first");
    let update = MetaUpdate { stale: true, ..MetaUpdate::default() };
    let operation = Operation::new(&scene.thread, NOW);
    scene.engine.update_meta(&operation, b"k", &update).unwrap();
    let old = scene.peek().1;
    assert!(old.stale && old.fetched);
    let stored = scene.engine.counter(Counter::ItemsTotal);
    assert!(scene.overwrites(&set(), b"value b"));
    let new = scene.peek().1;
    assert_eq!((new.stale, new.token_sent, new.fetched, new.seen), (false, false, false, NOW));
    assert!(new.cas > old.cas);
    assert_eq!(scene.engine.counter(Counter::ItemsTotal) - stored, 1);
    assert!(!scene.read().fetched && scene.read().fetched);
}

#[test]
fn conditions_hold_for_overwrites_in_place() {
    let scene = Scene::new(true);
    let cas = scene.peek().1.cas;
    let with = |cas| StoreRequest { cas: Some(cas), ..set() };
    assert_eq!(scene.store(&with(cas + 1), b"value b"), Stored::Exists);
    let add = StoreRequest::new(b"k", StoreMode::Add);
    assert_eq!(scene.store(&add, b"value b"), Stored::NotStored);
    assert_eq!(scene.peek().0, b"value a");
    assert!(scene.overwrites(&with(cas), b"value b"));
    assert!(scene.overwrites(&StoreRequest { version: Some(1 << 40), ..set() }, b"value c"));
    assert_eq!(scene.peek().1.cas, 1 << 40);
    let stale = StoreRequest { stale: Stale::Always, token_sent: true, ..set() };
    assert!(scene.overwrites(&stale, b"value d"));
    let meta = scene.peek().1;
    assert!(meta.stale && meta.token_sent);
}

#[test]
fn a_cache_without_tokens_shows_none_of_an_overwritten_item() {
    let scene = Scene::new(false);
    let stored = scene.store(&StoreRequest { version: Some(77), ..set() }, b"value b");
    assert_eq!(stored, Stored::Stored { cas: 0, value_bytes: 7 });
    assert_eq!((scene.peek().1.cas, scene.read().cas), (0, 0));
    assert_eq!(scene.store(&StoreRequest { cas: Some(77), ..set() }, b"value c"), Stored::Exists);
    let basis = scene.engine.begin_load(&Operation::new(&scene.thread, NOW), b"k", None).unwrap();
    assert!(scene.overwrites(&set(), b"value d"));
    let operation = Operation::new(&scene.thread, NOW);
    let loaded = scene.engine.end_load(&operation, &set(), basis, b"value e");
    assert_eq!(loaded, Ok(Stored::Exists), "the overwrite was not noticed");
    assert_eq!(scene.peek().0, b"value d");
}

#[test]
fn a_dead_item_is_not_overwritten_in_place() {
    let scene = Scene::new(true);
    scene.engine.flush();
    assert!(!scene.overwrites(&set(), b"value b"));
    assert_eq!(scene.peek().0, b"value b");
}

#[test]
fn a_removal_listener_receives_the_overwritten_value() {
    let scene = Scene::new(false);
    let (sender, receiver) = std::sync::mpsc::channel::<Removed>();
    let removals = scene.engine.index().removals();
    removals.set_listener(Box::new(move |removed| sender.send(removed).unwrap()));
    removals.is_wanted().store(true, Relaxed);
    assert!(scene.overwrites(&set(), b"value b"));
    let removed = receiver.try_recv().unwrap();
    assert_eq!(removed.value.as_deref(), Some(&b"value a"[..]));
    assert_eq!(removed.reason, Reason::Replaced);
}
