//! Checks the cache that a killed process left.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use larder::{Cache, Read, ReadOptions, StoreError, StoreMode, StoreRequest};
use larder_testkit::Random;

use crate::operations::{keys, value};
use crate::victim::open;

/// Maximum duration of a thousand operations, regardless of the state that was left.
const PATIENCE: Duration = Duration::from_secs(5);
const OPERATIONS_AFTER: u32 = 1000;

/// The visible state of an item, without its token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    value: Vec<u8>,
    flags: u32,
    deadline: u32,
    stale: bool,
    token_sent: bool,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value, flags, deadline, stale, token_sent } = self;
        let start = String::from_utf8_lossy(&value[..value.len().min(24)]);
        write!(f, "{} bytes {start:?}, {flags}, {deadline}, {stale}, {token_sent}", value.len())
    }
}

/// All items with their cas tokens.
pub(crate) type Contents = HashMap<String, (Seen, u64)>;

fn see(cache: &Cache, key: &str) -> Option<(Seen, u64)> {
    let mut value = Vec::new();
    let unnoted = ReadOptions { noted: false, value: true };
    let meta = match cache.read_as(key.as_bytes(), unnoted, &mut value, |_, _| ()) {
        Read::Hit(meta) => meta,
        Read::Large(meta, mut pieces) => {
            while pieces.next_piece(&mut value).unwrap() {}
            meta
        }
        Read::Miss(_) | Read::Failed(_) => return None,
    };
    let (deadline, stale, token_sent) = (meta.deadline.0, meta.stale, meta.token_sent);
    Some((Seen { value, flags: meta.flags, deadline, stale, token_sent }, meta.cas))
}

/// Returns the items of a cache with the names in use.
pub(crate) fn contents(cache: &Cache, also: &str) -> Contents {
    let names = keys().chain([also.to_string()]);
    names.filter_map(|key| see(cache, &key).map(|seen| (key, seen))).collect()
}

fn is(item: Option<&(Seen, u64)>) -> Option<&Seen> {
    item.map(|(seen, _)| seen)
}

/// The content that the cache may have after the kill: for each key the item before the operation,
/// the item after it, or, if the operation `evicts` or `loses` the key, no item.
pub(crate) struct Allowed {
    pub(crate) before: Contents,
    pub(crate) after: Contents,
    pub(crate) evicts: bool,
    pub(crate) loses: Option<&'static str>,
    /// The key that the preparation has chosen for this operation, in addition to [`keys`].
    pub(crate) detail: String,
}

impl Allowed {
    /// Checks the content, including the cas tokens if `tokens` is true. An item that a dead
    /// process was changing may keep its old token until it is repaired.
    fn check(&self, cache: &Cache, tokens: bool) -> Result<Contents, String> {
        let seen = contents(cache, &self.detail);
        for key in keys().chain([self.detail.clone()]) {
            let (old, new) = (self.before.get(&key), self.after.get(&key));
            let found = seen.get(&key);
            let is_old = is(found) == is(old);
            let may_lose = self.evicts || self.loses == Some(&*key);
            let is_allowed = is_old || is(found) == is(new) || may_lose && found.is_none();
            if !is_allowed {
                return Err(format!("{key} is {found:?}, was {old:?}, and would become {new:?}"));
            }
            let token = |item: Option<&(Seen, u64)>| item.map(|(_, token)| *token);
            let keeps_token = token(old) == token(new);
            if tokens && !is_old && !keeps_token && found.is_some() && token(found) == token(old) {
                return Err(format!("{key} has changed without a new token {:?}", token(old)));
            }
        }
        Ok(seen)
    }
}

/// A folder in which copies are checked.
pub(crate) struct Judge {
    path: PathBuf,
    random: Random,
    survivor: Option<(File, Cache)>,
}

impl Judge {
    pub(crate) fn new(folder: &Path, seed: u64) -> Self {
        Self { path: folder.join("judged"), random: Random::with_seed(seed | 1), survivor: None }
    }

    /// Checks a region by opening it later.
    pub(crate) fn later(&mut self, region: &[u8], allowed: &Allowed) -> Result<(), String> {
        fs::write(&self.path, region).unwrap();
        let cache = open(&self.path);
        self.judge(&cache, allowed)
    }

    /// Checks a cache in a file that other processes also use.
    pub(crate) fn judge(&mut self, cache: &Cache, allowed: &Allowed) -> Result<(), String> {
        cache.validate().map_err(|broken| format!("when opened: {broken}"))?;
        let seen = allowed.check(cache, true)?;
        self.use_it(cache, seen)
    }

    /// Checks a region in a process that was attached the whole time. `base` is the region before
    /// it was first opened.
    pub(crate) fn survivor(
        &mut self,
        base: &[u8],
        region: &[u8],
        allowed: &Allowed,
    ) -> Result<(), String> {
        let (file, cache) = self.survivor.take().unwrap_or_else(|| {
            let path = self.path.with_extension("survivor");
            fs::write(&path, base).unwrap();
            let cache = open(&path);
            cache.get("nobody's");
            let file = File::options().write(true).open(&path).unwrap();
            (file, cache)
        });
        file.write_all_at(region, 0).unwrap();
        let mut seen = allowed.check(&cache, false)?;
        if self.random.below(2) == 0 {
            cache.maintain();
            seen = allowed.check(&cache, true)?;
        }
        self.use_it(&cache, seen)?;
        self.survivor = Some((file, cache));
        Ok(())
    }

    fn use_it(&mut self, cache: &Cache, seen: Contents) -> Result<(), String> {
        let begun = Instant::now();
        let mut model = Model::of(seen);
        for _ in 0..OPERATIONS_AFTER {
            model.play(cache, &mut self.random)?;
        }
        cache.maintain();
        cache.validate().map_err(|broken| format!("at the end: {broken}"))?;
        model.check_all(cache)?;
        drain(cache)?;
        match begun.elapsed() {
            long if long > PATIENCE => Err(format!("it took {long:?}")),
            _ => Ok(()),
        }
    }
}

/// Performs operations while another process is stopped in the middle of an operation. They may be
/// refused. Returns the duration of the slowest operation.
pub(crate) fn go_on_beside(cache: &Cache, random: &mut Random) -> Result<Duration, String> {
    const PATIENCE: Duration = Duration::from_secs(4);
    let mut slowest = Duration::ZERO;
    for round in 0..8 {
        let names = ["new", "text", "large", "digits", "number", "grown", "dated"];
        let key = match random.below(2) {
            0 => names[random.below(names.len() as u64) as usize].to_string(),
            _ => format!("k{}", random.below(40)),
        };
        let begun = Instant::now();
        let done = match round {
            0..5 => cache.set(&key, value(1, [300, 3000, 9000][round % 3]), None).map(drop),
            5 => cache.delete(&key).map(drop),
            6 => {
                cache.maintain();
                Ok(())
            }
            _ => cache.touch(&key, Some(Duration::from_secs(10))).map(drop),
        };
        if let Err(error) = done
            && !matches!(error, StoreError::Stuck(_) | StoreError::NoMemory)
        {
            return Err(format!("while another process was stopped: {error}"));
        }
        slowest = slowest.max(begun.elapsed());
        if slowest > PATIENCE {
            return Err(format!(
                "operation {round} took {slowest:?} while another process was stopped"
            ));
        }
    }
    Ok(slowest)
}

/// Deletes all items. Afterwards no memory may be in use.
fn drain(cache: &Cache) -> Result<(), String> {
    let names: Vec<Vec<u8>> = cache.keys().collect();
    for name in names {
        cache.delete(&name).map_err(|error| error.to_string())?;
    }
    // The lease that a dead process may have held is free.
    let lease = cache.lease("text", Duration::from_secs(60)).map_err(|error| error.to_string())?;
    let lease = lease.ok_or("a dead process holds a lease")?;
    if !cache.release("text", lease).map_err(|error| error.to_string())? {
        return Err("another process has ended a lease".to_owned());
    }
    for _ in 0..4 {
        cache.maintain();
    }
    cache.validate().map_err(|broken| format!("when empty: {broken}"))?;
    let report = cache.report();
    let used = report.segments_index + report.segments_ghost + report.segments_items;
    // Two appenders hold one segment each.
    let is_empty = report.items == 0
        && report.live_bytes == 0
        && report.segments_pinned == 0
        && report.segments_items <= 2
        && report.segments_free + used == report.segments;
    if is_empty { Ok(()) } else { Err(format!("not all memory was freed: {report:?}")) }
}

/// The expected values.
struct Model {
    values: HashMap<String, Vec<u8>>,
    evictions: u64,
}

fn evictions(cache: &Cache) -> u64 {
    cache.counter(larder::Counter::Evictions)
}

impl Model {
    fn of(seen: Contents) -> Self {
        let values = seen.into_iter().map(|(key, (seen, _))| (key, seen.value)).collect();
        Self { values, evictions: 0 }
    }

    fn play(&mut self, cache: &Cache, random: &mut Random) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("a later operation: {error}");
        let names = ["new", "text", "large", "digits", "number", "grown", "dated"];
        let key = match random.below(3) {
            0 => names[random.below(names.len() as u64) as usize].to_string(),
            _ => format!("k{}", random.below(40)),
        };
        let evictions_before = evictions(cache);
        match random.below(12) {
            0..4 => {
                let bytes = [1, 30, 200, 1000, 20_000][random.below(40).min(44) as usize / 9];
                let value = value(random.below(1000), bytes);
                cache.set(&key, &value, None).map_err(|error| failed(&error))?;
                self.values.insert(key, value);
            }
            4 => {
                let was = cache.delete(&key).map_err(|error| failed(&error))?;
                self.note_evictions(cache, evictions_before);
                let expected = self.values.remove(&key);
                if was != expected.is_some() && (was || !self.may_miss()) {
                    return Err(format!("delete {key} returned {was}, expected {expected:?}"));
                }
            }
            5 => {
                let request = StoreRequest::new(key.as_bytes(), StoreMode::Append);
                let stored = cache.store(&request, b"+").map_err(|error| failed(&error))?;
                if matches!(stored, larder::Stored::Stored { .. }) {
                    self.values.entry(key.clone()).or_default().push(b'+');
                }
                self.note_evictions(cache, evictions_before);
                self.look(cache, &key)?;
            }
            6 => {
                cache
                    .touch(&key, Some(Duration::from_secs(900)))
                    .map_err(|error| failed(&error))?;
                self.note_evictions(cache, evictions_before);
                self.look(cache, &key)?;
            }
            _ => {
                self.look(cache, &key)?;
            }
        }
        self.note_evictions(cache, evictions_before);
        Ok(())
    }

    fn note_evictions(&mut self, cache: &Cache, before: u64) {
        self.evictions += evictions(cache) - before;
    }

    fn may_miss(&self) -> bool {
        self.evictions > 0
    }

    fn look(&mut self, cache: &Cache, key: &str) -> Result<(), String> {
        let found = see(cache, key).map(|(seen, _)| seen.value);
        let expected = self.values.get(key);
        if found.as_ref() == expected {
            return Ok(());
        }
        if found.is_none() && self.may_miss() {
            self.values.remove(key);
            return Ok(());
        }
        let bytes = |value: Option<&Vec<u8>>| value.map(Vec::len);
        Err(format!("{key} has {:?} bytes, expected {:?}", bytes(found.as_ref()), bytes(expected)))
    }

    fn check_all(&mut self, cache: &Cache) -> Result<(), String> {
        let names: Vec<String> = self.values.keys().cloned().collect();
        names.iter().try_for_each(|key| self.look(cache, key))
    }
}
