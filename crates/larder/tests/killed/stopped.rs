//! Writers while another process is stopped within an operation. Writers that do not need the group
//! that the process has locked do not wait, and do not evict items that are read often.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use larder::Cache;
use larder_testkit::waited_for_processor;

use crate::copy::Copy;
use crate::operations::value;
use crate::victim::open;

/// The operations within which the process is stopped.
pub(crate) const OPERATIONS: [&str; 4] = ["evict", "compact", "set_over", "split"];

/// Number of items stored while a process is stopped: more than fit into the memory.
const STORES: u64 = 400;
const VALUE_BYTES: usize = 3000;

/// One of this number of items is read often.
const HOT_PART: usize = 11;

/// Upper bound of the median of the slowest stores during each stop. The time that a store waits
/// for a processor does not count.
const MEDIAN_MAX: Duration = Duration::from_millis(20);

/// Upper bound of every store: below the second after which a wait for a stopped process ends.
const SLOWEST_MAX: Duration = Duration::from_millis(500);

/// The keys that writers use, and the group of each.
pub(crate) struct Keys {
    groups: HashMap<String, usize>,
    hot: Vec<Vec<u8>>,
}

impl Keys {
    /// Chooses keys for a prepared cache, and reads the hot keys often.
    pub(crate) fn of(path: &Path) -> Self {
        let groups = groups_of_keys(path);
        let cache = open(path);
        let hot: Vec<Vec<u8>> = cache.keys().step_by(HOT_PART).collect();
        let keys = Self { groups, hot };
        (0..4).for_each(|_| assert_eq!(keys.hot_missing(&cache), 0));
        keys
    }

    /// Reads the hot items. Returns the number of missing items.
    fn hot_missing(&self, cache: &Cache) -> usize {
        self.hot.iter().filter(|key| cache.get(key.as_slice()).is_none()).count()
    }

    /// Stores items while a process is stopped. Returns the duration of the slowest store.
    pub(crate) fn store_beside(&self, stopped: &Copy, cache: &Cache) -> Result<Duration, String> {
        let locked: HashSet<usize> = stopped.locked_groups().collect();
        let mut slowest = Duration::ZERO;
        for (key, _) in self.groups.iter().filter(|(_, group)| !locked.contains(group)) {
            let value = value(1, VALUE_BYTES);
            let (waited, begun) = (waited_for_processor(), Instant::now());
            let stored = cache.set(key, value, None);
            let took = begun.elapsed().saturating_sub(waited_for_processor() - waited);
            stored.map_err(|error| format!("a store after {took:.1?}: {error}"))?;
            slowest = slowest.max(took);
            if took > SLOWEST_MAX {
                return Err(format!("a store took {took:.1?}"));
            }
            match self.hot_missing(cache) {
                0 => {}
                missing => return Err(format!("{missing} items were evicted though often read")),
            }
        }
        Ok(slowest)
    }
}

/// Finds the groups of new keys in a copy of a cache: the group of a key is the group that changes
/// when the key is stored. A store may also split a group. Keys of a new group are left out: if the
/// stopped process is splitting off this group, these keys need the group that it has locked.
fn groups_of_keys(path: &Path) -> HashMap<String, usize> {
    let copied = path.with_extension("groups");
    fs::copy(path, &copied).unwrap();
    let cache = open(&copied);
    let (prepared, mut copy) = (Copy::of(path), Copy::of(&copied));
    let mut groups = HashMap::new();
    for number in 0.. {
        let key = format!("beside{number}");
        copy.update(copy.pages());
        cache.set(&key, "12345678", None).unwrap();
        let changed = copy.update(copy.pages());
        // An eviction changes groups of other keys.
        if let [group] = copy.groups_in(&changed)[..]
            && prepared.has_group(group)
        {
            groups.insert(key.clone(), group);
        }
        cache.delete(&key).unwrap();
        if groups.len() as u64 == STORES {
            break;
        }
    }
    groups
}

/// Checks the slowest stores of all stops. Returns a report.
pub(crate) fn judge(mut slowest: Vec<Duration>) -> Result<String, String> {
    slowest.sort();
    let part = |percent: usize| slowest[(slowest.len() - 1) * percent / 100];
    let report = format!(
        "with {} stopped processes, the slowest of {STORES} stores took {:.1?} (median), {:.1?} (90 %), {:.1?} (maximum)",
        slowest.len(),
        part(50),
        part(90),
        part(100)
    );
    if part(50) > MEDIAN_MAX { Err(report) } else { Ok(report) }
}
