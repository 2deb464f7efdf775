//! Tests of demotion, with a journal of evictions that keeps the evicted items in a map, the
//! *keeper*. Memory and the keeper together have every item, and the keeper never has an item that
//! is out of date.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use larder_item::{Deadline, Second, StoreMode};

use crate::engine::Engine;
use crate::fixtures::SMALL;
use crate::index::cursor::Cursor;
use crate::journal::{Change, Entry, Journal, Refusal};
use crate::open::Config;
use crate::ops::request::{StoreRequest, Stored};
use crate::ops::update_meta::{Deletion, MetaUpdate};
use crate::process::operation::Operation;

const NOW: Second = 10;

/// A value and its deadline.
type Item = (Vec<u8>, Deadline);

/// A journal of evictions that keeps the items in a map.
#[derive(Debug, Default)]
struct Keeper {
    items: Mutex<BTreeMap<Vec<u8>, Item>>,
    /// The number of items that the keeper still accepts.
    room: Mutex<Option<u32>>,
    /// The number of items that were offered although they are flushed, or belong to a removal by
    /// prefix.
    gone: Mutex<u32>,
}

impl Keeper {
    fn has(&self, key: &[u8]) -> Option<Item> {
        self.items.lock().unwrap().get(key).cloned()
    }
}

impl Journal for Keeper {
    fn records_stores(&self) -> bool {
        false
    }

    fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, _: bool) -> bool {
        assert!(change.is_resident, "a live item is demoted");
        if (change.is_gone)() {
            *self.gone.lock().unwrap() += 1;
            return true;
        }
        if let Some(room) = &mut *self.room.lock().unwrap() {
            if *room == 0 {
                return false;
            }
            *room -= 1;
        }
        let kept = (entry.value.to_vec(), entry.deadline);
        self.items.lock().unwrap().insert(entry.key.to_vec(), kept);
        true
    }

    fn item(&self, entry: &Entry<'_>, _: &Change<'_>) -> Result<(), Refusal> {
        panic!("stores are not recorded: {entry:?}");
    }

    fn removal(&self, key: &[u8], _: &Change<'_>) -> Result<(), Refusal> {
        self.items.lock().unwrap().remove(key);
        Ok(())
    }

    fn absence(&self, _: &[u8], _: &Change<'_>) -> Result<(), Refusal> {
        Ok(())
    }
}

fn with_keeper(config: &Config) -> (Engine, Arc<Keeper>) {
    let (mut engine, keeper) = (Engine::create(config).unwrap(), Arc::new(Keeper::default()));
    engine.set_journal(Arc::clone(&keeper) as Arc<dyn Journal>);
    (engine, keeper)
}

#[test]
fn an_offered_item_that_a_removal_takes_is_reported_from_its_beginning_on() {
    let (engine, keeper) = with_keeper(&SMALL);
    let thread = engine.register().unwrap();
    let store = |key: &str| {
        let request = StoreRequest::new(key.as_bytes(), StoreMode::Set);
        engine.store(&Operation::new(&thread, NOW), &request, b"value").unwrap();
    };
    let demote = || {
        let mut cursor = Cursor::default();
        while engine.demote_group(&thread, &mut cursor, NOW) {}
        (keeper.items.lock().unwrap().len(), std::mem::take(&mut *keeper.gone.lock().unwrap()))
    };
    ["user 1", "user 2", "other"].into_iter().for_each(store);
    // The keeper begins its removal while all items are offered.
    let (removal, demoted) =
        engine.begin_prefix_removal_with(&thread, b"user", demote, NOW).unwrap();
    assert_eq!(demoted, (1, 2), "kept, reported, while the removal begins");
    store("user 3");
    assert_eq!(demote(), (2, 2), "kept, reported, when a new item was stored");
    assert!(engine.remove_prefix_of_key(&thread, &removal, b"user 1", NOW).unwrap());
    for kept in ["user 3", "other", "user 1"] {
        let key = kept.as_bytes();
        assert!(!engine.remove_prefix_of_key(&thread, &removal, key, NOW).unwrap(), "{kept}");
    }
    assert_eq!((demote(), removal.removed()), ((2, 1), 1));
    drop(removal);
    assert_eq!(demote(), (3, 0), "kept, reported, after the removal");
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let bytes = if rng.u8(..16) == 0 { rng.usize(17_000..60_000) } else { rng.usize(..2000) };
    vec![rng.u8(b'a'..=b'z'); bytes]
}

#[test]
fn memory_and_keeper_together_have_every_item_as_it_was_stored_last() {
    let (engine, keeper) = with_keeper(&SMALL);
    let thread = engine.register().unwrap();
    let (mut rng, mut model) = (Rng::with_seed(7), BTreeMap::new());
    for _ in 0..30_000 {
        let key = rng.u32(..4000).to_string().into_bytes();
        let deadline = if rng.bool() { Deadline::NEVER } else { Deadline(rng.u32(11..99)) };
        match rng.u8(..8) {
            0 => {
                // If the key is absent from memory, the keeper's item stays, because a caller first
                // looks for it there.
                if engine.delete(&Operation::new(&thread, NOW), &key, None).unwrap()
                    != Deletion::NotFound
                {
                    model.remove(&key);
                }
            }
            1 if engine.peek(&key, NOW).is_none() => {
                // The item is restored, and the keeper still has it.
                if let Some((value, deadline)) = keeper.has(&key) {
                    let request =
                        StoreRequest { deadline, ..StoreRequest::new(&key, StoreMode::Set) };
                    // With one thread, the keeper's item is always current.
                    let restored = engine.restore(&thread, &request, &value, &|| true, NOW);
                    assert!(matches!(restored, Ok(Stored::Stored { .. })), "{restored:?}");
                }
            }
            1 | 2 => {
                let update = MetaUpdate { deadline: Some(deadline), ..MetaUpdate::default() };
                engine.update_meta(&Operation::new(&thread, NOW), &key, &update).unwrap();
                if let Some((value, _)) = engine.peek_value(&key, NOW) {
                    model.insert(key, (value, deadline));
                }
            }
            _ => {
                let value = random_value(&mut rng);
                let request = StoreRequest { deadline, ..StoreRequest::new(&key, StoreMode::Set) };
                engine.store(&Operation::new(&thread, NOW), &request, &value).unwrap();
                model.insert(key, (value, deadline));
            }
        }
    }
    let mut evicted = 0;
    for (key, item) in &model {
        let in_memory = engine.peek_value(key, NOW).map(|(value, meta)| (value, meta.deadline));
        evicted += u32::from(in_memory.is_none());
        let (name, kept) = (String::from_utf8_lossy(key), keeper.has(key));
        if let (Some(in_memory), Some(kept)) = (&in_memory, &kept) {
            assert!(in_memory == kept, "key {name} has changed since it was kept");
        }
        assert!(in_memory.or(kept).as_ref() == Some(item), "key {name} is lost, or an old one");
    }
    assert!(evicted > 500, "only {evicted} of {} items were evicted", model.len());
}

#[test]
fn a_walk_offers_every_item_and_goes_on_where_the_keeper_had_no_room() {
    let (engine, keeper) = with_keeper(&SMALL);
    let thread = engine.register().unwrap();
    for n in 0..500_u32 {
        let key = n.to_string();
        let request = StoreRequest::new(key.as_bytes(), StoreMode::Set);
        engine.store(&Operation::new(&thread, NOW), &request, b"v").unwrap();
    }
    *keeper.room.lock().unwrap() = Some(100);
    let mut cursor = Cursor::default();
    for _ in 0..10_000 {
        if !engine.demote_group(&thread, &mut cursor, NOW) {
            break;
        }
    }
    assert_eq!(keeper.items.lock().unwrap().len(), 100, "the walk waits for room");
    *keeper.room.lock().unwrap() = None;
    while engine.demote_group(&thread, &mut cursor, NOW) {}
    assert_eq!(keeper.items.lock().unwrap().len(), 500);
    assert_eq!(engine.peek_value(b"7", NOW).unwrap().0, b"v", "an demoted item stays in memory");
}
