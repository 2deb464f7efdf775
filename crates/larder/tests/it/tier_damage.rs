//! Salvaging a damaged directory never returns a value that a key did not have, and values marked
//! as current are current.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use larder::{
    Cache, DiskTier, Durability, TierDamage, TierInspection, TierMode, TierSalvaged, TierTrust,
};
use tempfile::TempDir;

const EXTENT: u64 = 4 << 20;

/// A directory, and the current and former values of its keys.
struct Scene {
    _folder: TempDir,
    path: PathBuf,
    current: BTreeMap<Vec<u8>, Vec<u8>>,
    earlier: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
}

/// The items that a salvage has returned.
struct Shown {
    items: BTreeMap<Vec<u8>, TierTrust>,
    damages: Vec<TierDamage>,
    salvaged: TierSalvaged,
}

fn open(path: &PathBuf, mode: TierMode) -> Cache {
    let disk = DiskTier::new(path, 32 << 20).mode(mode).durability(Durability::Async);
    let builder = Cache::builder().memory_bytes(16 << 20).item_bytes_max(4_000_000);
    builder.tier(disk.dirty_bytes(32 << 20).wait(Duration::from_secs(20))).open().unwrap()
}

impl Scene {
    /// Creates about three segments: replaces and deletes items, then stops cleanly.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier");
        let mut scene =
            Self { _folder: folder, path, current: BTreeMap::new(), earlier: BTreeMap::new() };
        let cache = open(&scene.path, TierMode::Store);
        for turn in 0..3_u32 {
            for n in (0..1500_u32).filter(|n| n % (turn + 1) == 0) {
                let value = format!("{turn} {n} ").repeat(550 + n as usize % 100);
                scene.set(&cache, format!("key {n}").as_bytes(), value.as_bytes());
            }
            cache.sync().unwrap();
        }
        for n in (0..1500).step_by(10) {
            cache.delete(format!("key {n}")).unwrap();
            scene.current.remove(format!("key {n}").as_bytes());
        }
        scene
    }

    fn set(&mut self, cache: &Cache, key: &[u8], value: &[u8]) {
        cache.set(key, value, None).unwrap();
        self.current.insert(key.to_vec(), value.to_vec());
        self.earlier.entry(key.to_vec()).or_default().insert(value.to_vec());
    }

    fn log(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path.join("log")).unwrap()
    }

    /// Salvages the directory, and checks the items.
    fn salvage(&self) -> Shown {
        let directory = TierInspection::open(&self.path).unwrap();
        let (mut items, mut damages) = (BTreeMap::new(), Vec::new());
        let mut last = (0, 0);
        let salvaged = directory.salvage(
            1_790_000_000,
            |done, total| last = (done, total),
            |damage| damages.push(damage.clone()),
            |item, trust| {
                let key = item.key.escape_ascii().to_string();
                assert!(self.earlier[item.key].contains(item.value), "{key} never had this value");
                let is_current = self.current.get(item.key).is_some_and(|it| it == item.value);
                assert!(is_current || trust == TierTrust::Doubtful, "{key} is called current");
                assert!(items.insert(item.key.to_vec(), trust).is_none(), "{key} is shown twice");
            },
        );
        let salvaged = salvaged.unwrap();
        assert!(last.0 == last.1 && last.1 > 0, "the progress ends at {last:?}");
        assert_eq!(salvaged.damages, damages.len() as u64);
        let doubtful = items.values().filter(|trust| **trust == TierTrust::Doubtful).count();
        assert_eq!(salvaged.doubtful, doubtful as u64);
        if damages.is_empty() {
            assert!(items.keys().eq(self.current.keys()), "without damage all is shown");
        }
        Shown { items, damages, salvaged }
    }
}

#[test]
fn an_undamaged_directory_is_shown_as_it_is() {
    let shown = Scene::new().salvage();
    assert_eq!((shown.damages.len(), shown.salvaged.doubtful, shown.salvaged.withheld), (0, 0, 0));
}

#[test]
fn a_flipped_bit_costs_an_item_at_most_and_no_old_value_is_called_current() {
    let scene = Scene::new();
    let (log, mut random) = (scene.log(), 7_u64);
    let (mut damaged, mut withheld) = (0, 0);
    for _ in 0..60 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (at, bit) = (random >> 33, random >> 29 & 7);
        // Usually after the header of an extent, sometimes within it.
        let at = if at % 9 == 0 { at % 3 * EXTENT + at / 9 % 100 } else { at % (3 * EXTENT) };
        let mut byte = [0];
        log.read_exact_at(&mut byte, at).unwrap();
        log.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
        let shown = scene.salvage();
        let is_there = |key: &&Vec<u8>| shown.items.contains_key(*key);
        let missing = scene.current.len() - scene.current.keys().filter(is_there).count();
        assert!(missing <= 1, "byte {at}: {missing} items are missing, {:?}", shown.damages);
        damaged += shown.damages.len();
        withheld += shown.salvaged.withheld;
        log.write_all_at(&byte, at).unwrap();
    }
    assert!(damaged > 30 && withheld > 0, "{damaged} damaged places, {withheld} withheld keys");
    assert_eq!(scene.salvage().damages.len(), 0);
}

#[test]
fn swapped_extents_are_read_all_the_same() {
    let scene = Scene::new();
    let log = scene.log();
    let [mut one, mut other] = [vec![0; EXTENT as usize], vec![0; EXTENT as usize]];
    log.read_exact_at(&mut one, 0).unwrap();
    log.read_exact_at(&mut other, EXTENT).unwrap();
    log.write_all_at(&other, 0).unwrap();
    log.write_all_at(&one, EXTENT).unwrap();
    let shown = scene.salvage();
    assert_eq!((shown.damages.len(), shown.salvaged.lost_bytes), (2, 0));
    assert!(shown.items.keys().eq(scene.current.keys()));
    assert!(shown.damages[0].to_string().contains("in the wrong place"), "{}", shown.damages[0]);
}

#[test]
fn a_missing_segment_makes_what_lies_before_it_doubtful() {
    let scene = Scene::new();
    scene.log().write_all_at(&vec![0; EXTENT as usize], EXTENT).unwrap();
    let shown = scene.salvage();
    let said = shown.damages[0].to_string();
    assert!(shown.damages.len() == 1 && said.contains("missing"), "{:?}", shown.damages);
    let current = shown.items.values().filter(|trust| **trust == TierTrust::Current).count();
    let doubtful = shown.items.len() - current;
    assert!(current > 100 && doubtful > 100, "{current} current, {doubtful} doubtful");
}

#[test]
fn pages_that_are_zero_or_cut_off_are_lost_and_said() {
    let scene = Scene::new();
    let log = scene.log();
    log.write_all_at(&[0; 3 * 4096], EXTENT + 40 * 4096).unwrap();
    let shown = scene.salvage();
    assert!(shown.damages.len() == 1 && shown.salvaged.lost_bytes >= 3 * 4096);
    log.set_len(EXTENT + EXTENT / 2 + 100).unwrap();
    let shown = scene.salvage();
    assert!(shown.salvaged.lost_bytes > EXTENT / 2, "{:?}", shown.salvaged);
    assert!(shown.items.len() > 300, "{} items", shown.items.len());
    assert!(shown.items.values().all(|trust| *trust == TierTrust::Doubtful));
}

#[test]
fn a_value_that_looks_like_records_does_not_hold_up_a_salvage() {
    let mut scene = Scene::new();
    let cache = open(&scene.path, TierMode::Store);
    // Record headers with a large length, one at each place where a record may begin.
    let mut head = [0_u8; 8];
    (head[4], head[5]) = (1, 9);
    head[..4].copy_from_slice(&1_000_000_u32.to_le_bytes());
    let value = head.repeat(3_000_000 / 8);
    scene.set(&cache, b"hostile", &value);
    drop(cache);
    // The header of the record.
    let log = scene.log();
    let mut bytes = vec![0; 5 * EXTENT as usize];
    log.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(7).rposition(|bytes| bytes == b"hostile").unwrap() as u64;
    log.write_all_at(&[7], at - 32 + 16).unwrap();
    let begun = Instant::now();
    let shown = scene.salvage();
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    assert!(!shown.items.contains_key(&b"hostile"[..]) && shown.salvaged.lost_bytes > 2_900_000);
}

#[test]
fn the_index_of_a_cache_names_what_is_current_past_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let cache = open(&path, TierMode::Cache);
    (0..2000).for_each(|n| cache.set(format!("key {n}"), vec![n as u8; 3000], None).unwrap());
    drop(cache);
    let log = OpenOptions::new().write(true).open(path.join("log")).unwrap();
    log.write_all_at(b"damage", 1_000_000).unwrap();
    let (mut items, mut damages) = (0, 0);
    let directory = TierInspection::open(&path).unwrap();
    let show = |item: &larder::TierItem<'_>, trust| {
        let n: u32 = str::from_utf8(&item.key[4..]).unwrap().parse().unwrap();
        assert!(item.value == vec![n as u8; 3000] && trust == TierTrust::Current);
        items += 1;
    };
    directory.salvage(1, |_, _| (), |_| damages += 1, show).unwrap();
    assert!((1990..2000).contains(&items) && damages == 1, "{items} items, {damages} damages");
}
