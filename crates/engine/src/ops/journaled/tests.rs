//! Tests that a journal contains the same items as memory: random changes are replayed from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use larder_item::{Deadline, Direction, Second, StoreMode};

use crate::engine::Engine;
use crate::error::StoreError;
use crate::fixtures::SMALL;
use crate::journal::{Change, Entry, Journal, Refusal};
use crate::ops::arithmetic::ArithmeticRequest;
use crate::ops::basis::Basis;
use crate::ops::request::{Stale, StoreRequest, Stored};
use crate::ops::update_meta::{Deletion, MetaOutcome, MetaUpdate};
use crate::process::operation::Operation;
use crate::process::thread_slot::ThreadSlot;

const NOW: Second = 10;

/// An item in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JournaledItem {
    value: Vec<u8>,
    flags: u32,
    deadline: Deadline,
    version: u64,
    stale: bool,
}

/// A journal that keeps the recorded items in a map. While `refusal` is set, it refuses every
/// change with it.
#[derive(Debug, Default)]
struct Recorder {
    items: Mutex<BTreeMap<Vec<u8>, JournaledItem>>,
    refusal: Mutex<Option<Refusal>>,
}

impl Recorder {
    fn refuse(&self, refusal: Option<Refusal>) {
        *self.refusal.lock().unwrap() = refusal;
    }

    fn refused(&self) -> Result<(), Refusal> {
        self.refusal.lock().unwrap().map_or(Ok(()), Err)
    }

    fn kept(&self, key: &[u8]) -> Option<JournaledItem> {
        self.items.lock().unwrap().get(key).cloned()
    }
}

impl Journal for Recorder {
    fn item(&self, entry: &Entry<'_>, change: &Change<'_>) -> Result<(), Refusal> {
        self.refused()?;
        if !(change.is_gone)() {
            let Entry { value, flags, deadline, version, stale, .. } = *entry;
            let kept = JournaledItem { value: value.to_vec(), flags, deadline, version, stale };
            self.items.lock().unwrap().insert(entry.key.to_vec(), kept);
        }
        Ok(())
    }

    fn removal(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        self.refused()?;
        assert!(change.is_resident, "a removal finds an item");
        self.items.lock().unwrap().remove(key);
        Ok(())
    }

    fn absence(&self, key: &[u8], _: &Change<'_>) -> Result<(), Refusal> {
        match self.items.lock().unwrap().contains_key(key) {
            true => Err(Refusal::NeedsDisk),
            false => Ok(()),
        }
    }
}

fn journaled() -> (Engine, Arc<Recorder>) {
    let (mut engine, recorder) = (Engine::create(&SMALL).unwrap(), Arc::new(Recorder::default()));
    engine.set_journal(Arc::clone(&recorder) as Arc<dyn Journal>);
    (engine, recorder)
}

fn in_memory(engine: &Engine, key: &[u8]) -> Option<JournaledItem> {
    let found = engine.index().find(engine.index().hash(key), key)?;
    engine.index().death(&found, NOW).is_none().then_some(())?;
    let meta = engine.index().meta(&found, 0, NOW);
    let value = engine.value_of(&found)?;
    let (flags, deadline, version, stale) = (meta.flags, meta.deadline, meta.cas, meta.stale);
    Some(JournaledItem { value, flags, deadline, version, stale })
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..8) {
        0 => rng.u32(..2000).to_string().into_bytes(),
        1 => vec![rng.u8(b'a'..=b'z'); rng.usize(17_000..60_000)],
        _ => vec![rng.u8(b'a'..=b'z'); rng.usize(..600)],
    }
}

/// Makes a random change.
fn change(engine: &Engine, thread: &ThreadSlot, key: &[u8], rng: &mut Rng) {
    let deadline = if rng.bool() { Deadline::NEVER } else { Deadline(rng.u32(11..99)) };
    let modes = [
        StoreMode::Set,
        StoreMode::Set,
        StoreMode::Add,
        StoreMode::Replace,
        StoreMode::Append,
        StoreMode::Prepend,
    ];
    let mode = modes[rng.usize(..modes.len())];
    let cas = (rng.u8(..8) == 0).then(|| engine.peek(key, NOW).map_or(7, |meta| meta.cas));
    match rng.u8(..16) {
        0..8 => {
            let stale = if rng.u8(..6) == 0 { Stale::Always } else { Stale::Never };
            let flags = rng.u32(..3);
            let request =
                StoreRequest { flags, deadline, cas, stale, ..StoreRequest::new(key, mode) };
            // The memory may be temporarily too small.
            let _ = engine.store(&Operation::new(thread, NOW), &request, &random_value(rng));
        }
        8..10 => {
            let direction = if rng.bool() { Direction::Increment } else { Direction::Decrement };
            let counting = ArithmeticRequest::new(key, direction, rng.u64(..50));
            let _ = engine.arithmetic(&Operation::new(thread, NOW), &counting);
        }
        10..13 => {
            let deadline = rng.bool().then_some(deadline);
            let update = MetaUpdate { cas, deadline, stale: rng.bool(), ..MetaUpdate::default() };
            let _ = engine.update_meta(&Operation::new(thread, NOW), key, &update);
        }
        13 => {
            let meta = engine.peek(key, NOW);
            engine.claim(&Operation::new(thread, NOW), key, meta.map_or(0, |meta| meta.cas));
        }
        14 => {
            let request = StoreRequest { deadline, ..StoreRequest::new(key, StoreMode::Set) };
            if let Ok(basis) =
                engine.begin_load(&Operation::new(thread, NOW), key, Some(Deadline(20)))
                && basis != Basis::OVERTAKEN
            {
                let _ = engine.end_load(
                    &Operation::new(thread, NOW),
                    &request,
                    basis,
                    &random_value(rng),
                );
            }
        }
        _ => {
            let _ = engine.delete(&Operation::new(thread, NOW), key, cas);
        }
    }
}

#[test]
fn what_memory_has_is_what_the_journal_has_recorded_last() {
    let (engine, recorder) = journaled();
    let thread = engine.register().unwrap();
    let mut rng = Rng::with_seed(3);
    let mut evicted = 0;
    for step in 0..30_000 {
        let key = [b'k', rng.u8(..)];
        change(&engine, &thread, &key, &mut rng);
        match in_memory(&engine, &key) {
            Some(item) => assert_eq!(Some(item), recorder.kept(&key), "step {step}"),
            // A live item that is missing from memory was evicted, and the engine has forgotten it.
            None if recorder.kept(&key).is_some() => {
                evicted += 1;
                recorder.items.lock().unwrap().remove(&key[..]);
            }
            None => {}
        }
    }
    engine.validate().unwrap();
    assert!(evicted > 0, "memory was never full");
}

#[test]
fn a_refused_change_changes_nothing() {
    let (engine, recorder) = journaled();
    let thread = engine.register().unwrap();
    let mut rng = Rng::with_seed(5);
    let mut refused = 0;
    for step in 0..20_000 {
        let key = [b'k', rng.u8(..12)];
        let before = in_memory(&engine, &key);
        let is_refused = rng.bool();
        recorder.refuse(is_refused.then_some(Refusal::Full));
        change(&engine, &thread, &key, &mut rng);
        let after = in_memory(&engine, &key);
        if is_refused {
            refused += 1;
            assert!(after == before || after.is_none(), "step {step}: {after:?}");
        }
        if step % 500 == 0 {
            engine.validate().unwrap();
        }
    }
    assert!(refused > 1000);
    engine.validate().unwrap();
}

#[test]
fn a_refused_set_says_why_and_keeps_the_old_value() {
    let (engine, recorder) = journaled();
    let thread = engine.register().unwrap();
    let set = StoreRequest::new(b"k", StoreMode::Set);
    for value in [vec![1; 10], vec![2; 50_000]] {
        recorder.refuse(None);
        engine.store(&Operation::new(&thread, NOW), &set, b"old").unwrap();
        recorder.refuse(Some(Refusal::Full));
        let stored = engine.store(&Operation::new(&thread, NOW), &set, &value);
        assert_eq!(stored, Err(StoreError::Journal(Refusal::Full)));
        assert_eq!(in_memory(&engine, b"k").unwrap().value, b"old");
        let deleted = engine.delete(&Operation::new(&thread, NOW), b"k", None);
        assert_eq!(deleted, Err(StoreError::Journal(Refusal::Full)));
        let touch = MetaUpdate { deadline: Some(Deadline(50)), ..MetaUpdate::default() };
        let touched = engine.update_meta(&Operation::new(&thread, NOW), b"k", &touch);
        assert_eq!(touched, Err(StoreError::Journal(Refusal::Full)));
        assert_eq!(in_memory(&engine, b"k").unwrap().deadline, Deadline::NEVER);
    }
    engine.validate().unwrap();
}

#[test]
fn an_item_is_restored_only_if_memory_has_none_and_it_is_still_current() {
    let (engine, recorder) = journaled();
    let thread = engine.register().unwrap();
    for value in [b"small".to_vec(), vec![9; 70_000]] {
        let request = StoreRequest {
            version: Some(777),
            flags: 5,
            deadline: Deadline(60),
            stale: Stale::Always,
            ..StoreRequest::new(b"k", StoreMode::Set)
        };
        let restore = |is_current: bool| {
            engine.restore(&thread, &request, &value, &|| is_current, NOW).unwrap()
        };
        assert_eq!(restore(false), Stored::NotFound);
        assert!(matches!(restore(true), Stored::Stored { cas: 777, .. }));
        assert_eq!(restore(true), Stored::NotStored);
        let kept = JournaledItem {
            value: value.clone(),
            flags: 5,
            deadline: Deadline(60),
            version: 777,
            stale: true,
        };
        assert_eq!(in_memory(&engine, b"k"), Some(kept));
        assert_eq!(recorder.kept(b"k"), None, "a restored item is not recorded again");
        let deleted = engine.delete(&Operation::new(&thread, NOW), b"k", None).unwrap();
        assert!(matches!(deleted, Deletion::Deleted(_)));
    }
}

#[test]
fn a_restored_text_is_a_number_for_arithmetic_and_later_versions_are_higher() {
    let (engine, recorder) = journaled();
    let thread = engine.register().unwrap();
    let request = StoreRequest { version: Some(41), ..StoreRequest::new(b"n", StoreMode::Set) };
    engine.restore(&thread, &request, b"9", &|| true, NOW).unwrap();
    engine.raise_versions(1000);
    let counting = ArithmeticRequest::new(b"n", Direction::Increment, 1);
    for text in ["10", "11", "12"] {
        engine.arithmetic(&Operation::new(&thread, NOW), &counting).unwrap();
        let kept = recorder.kept(b"n").unwrap();
        assert_eq!(kept.value, text.as_bytes());
        assert!(kept.version > 1000, "version {}", kept.version);
    }
}

#[test]
fn a_load_asks_whether_the_key_has_an_item_outside_memory() {
    let (engine, recorder) = journaled();
    let thread = engine.register().unwrap();
    let kept = JournaledItem {
        value: vec![1],
        flags: 0,
        deadline: Deadline::NEVER,
        version: 1,
        stale: false,
    };
    recorder.items.lock().unwrap().insert(b"k".to_vec(), kept);
    let basis = engine.begin_load(&Operation::new(&thread, NOW), b"k", Some(Deadline(20)));
    assert_eq!(basis, Err(StoreError::Journal(Refusal::NeedsDisk)));
    assert!(matches!(
        engine.update_meta(&Operation::new(&thread, NOW), b"k", &MetaUpdate::default()),
        Ok(MetaOutcome::NotFound)
    ));
}
