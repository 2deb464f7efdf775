//! Applies the memory limit that `-m` as a percentage results in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use larder::{Cache, LimitError};
use larder_stats::{Counter, Counters};

use crate::log;
use crate::memory::files::MemoryFiles;
use crate::memory::follower::{Cause, Change, LimitFollower, Observation};

/// Whether the memory limit of the cache follows that of the process, and what it follows.
#[derive(Debug, Default)]
pub(crate) struct MemoryControl {
    /// `None`: `-m` is a number, or the size stays for another reason. The lock keeps a limit that
    /// an operator sets from being replaced by one that was decided before.
    follower: Mutex<Option<LimitFollower>>,
    /// The memory that this process may use, in bytes; 0: unknown.
    bound_bytes: AtomicU64,
    /// True once an operator has set a limit. Written under the lock of `follower`.
    is_set_by_hand: AtomicBool,
}

impl MemoryControl {
    pub(super) fn new(follower: Option<LimitFollower>, bound_bytes: u64) -> Self {
        let (follower, bound_bytes) = (Mutex::new(follower), AtomicU64::new(bound_bytes));
        Self { follower, bound_bytes, is_set_by_hand: AtomicBool::new(false) }
    }

    /// True if the limit follows the memory of the process.
    pub(crate) fn is_followed(&self) -> bool {
        self.follower().is_some()
    }

    /// Returns the memory that this process may use, in bytes; 0: unknown.
    pub(crate) fn bound_bytes(&self) -> u64 {
        self.bound_bytes.load(Relaxed)
    }

    /// Sets a limit by order of an operator, which ends the following.
    ///
    /// # Errors
    /// Fails if the cache cannot have this limit. The following then continues.
    pub(crate) fn set_by_hand(&self, cache: &Cache, bytes: u64) -> Result<(), LimitError> {
        let mut follower = self.follower();
        cache.set_memory_limit(bytes)?;
        self.is_set_by_hand.store(true, Relaxed);
        if let Some(ended) = follower.take() {
            log::info(format_args!(
                "larderd: cache_memlimit set {}, which ends the following of -m {}% until the next \
                 start",
                Mebibytes(bytes),
                ended.share().percent,
            ));
        }
        Ok(())
    }

    /// Sets the limit of the options when the start ends, unless an operator has already set one.
    ///
    /// # Errors
    /// Fails if the cache cannot have this limit.
    pub(crate) fn set_at_start(&self, cache: &Cache, bytes: u64) -> Result<(), LimitError> {
        let _lock = self.follower();
        if self.is_set_by_hand.load(Relaxed) || cache.memory_limit() == bytes {
            return Ok(());
        }
        cache.set_memory_limit(bytes)
    }

    /// Gives the memory up step by step, if the limit is followed, because a successor serves.
    pub(crate) fn retire(&self) {
        if let Some(follower) = self.follower().as_mut() {
            follower.retire();
        }
    }

    /// Decides on the limit and sets it. Returns what was done, for the log.
    fn follow(&self, cache: &Cache, seen: &Observation, second: u64) -> Option<Followed> {
        self.bound_bytes.store(seen.bound.bytes, Relaxed);
        let mut follower = self.follower();
        let follower = follower.as_mut()?;
        let before = cache.memory_limit();
        let change = follower.look(seen, second)?;
        let mut limited = cache.set_memory_limit(change.limit_bytes);
        if let Err(LimitError { min, max, .. }) = limited {
            let possible = change.limit_bytes.clamp(min as u64, max as u64);
            if let Err(error) = cache.set_memory_limit(possible) {
                limited = Err(error);
            }
        }
        let after = cache.memory_limit();
        follower.note_limit(after);
        Some(Followed {
            change,
            before,
            after,
            refused: limited.err(),
            percent: follower.share().percent,
        })
    }

    fn follower(&self) -> MutexGuard<'_, Option<LimitFollower>> {
        self.follower.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change that was applied, as far as possible.
struct Followed {
    change: Change,
    before: u64,
    after: u64,
    refused: Option<LimitError>,
    percent: u8,
}

/// Looks at the memory of this process once a second, on the main thread. Costs nothing if `-m` is
/// a number.
#[derive(Debug, Default)]
pub(crate) struct MemoryWatch {
    /// `None`: there is nothing to follow.
    files: Option<MemoryFiles>,
    /// When the first look was.
    begun: Option<Instant>,
    looked: Option<Instant>,
    /// True if the last look failed, which was logged.
    has_failed: bool,
    /// True if the log has the reason why the cache cannot have the limit.
    has_refused: bool,
}

impl MemoryWatch {
    pub(super) fn new(files: MemoryFiles) -> Self {
        Self { files: Some(files), ..Self::default() }
    }

    /// Sets the limit that the memory of the process now results in. Bumps `counters` if pressure
    /// lowers it.
    ///
    /// Cost: a read of the clock; once per second a few files, which the kernel makes from memory.
    pub(crate) fn look(&mut self, control: &MemoryControl, cache: &Cache, counters: &Counters) {
        let Some(files) = &self.files else { return };
        if self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            return;
        }
        self.looked = Some(Instant::now());
        if !control.is_followed() {
            // An operator has ended it.
            self.files = None;
            return;
        }
        let seen = match files.observe() {
            Ok(seen) => seen,
            Err(why) => {
                if !self.has_failed {
                    log::warn(format_args!(
                        "larderd: the memory limit stays, because {why}; larderd tries again each \
                         second"
                    ));
                }
                self.has_failed = true;
                return;
            }
        };
        self.has_failed = false;
        let second = self.begun.get_or_insert_with(Instant::now).elapsed().as_secs();
        if let Some(followed) = control.follow(cache, &seen, second) {
            if followed.change.is_short {
                counters.bump(Counter::MemoryLowered);
            }
            self.report(&followed, &seen);
        }
    }

    fn report(&mut self, followed: &Followed, seen: &Observation) {
        let Followed { change, before, after, refused, percent } = followed;
        let (before, after) = (Mebibytes(*before), Mebibytes(*after));
        let bound = Mebibytes(seen.bound.bytes);
        match change.cause {
            Cause::Bound => log::info(format_args!(
                "larderd: -m {percent}% follows the memory limit, which is now {bound} ({}): the \
                 cache goes from {before} to {}{}",
                seen.bound.origin,
                Mebibytes(change.goal_bytes),
                if change.goal_bytes < change.limit_bytes { ", by 5 % each second" } else { "" },
            )),
            Cause::Approach => {}
            Cause::Pressure => log::warn(format_args!(
                "larderd: memory is short: {} of {bound} are in use ({}), tasks waited for memory \
                 {} of the last 10 s; the cache goes from {before} to {after}",
                Mebibytes(seen.use_bytes),
                seen.bound.origin,
                seen.stalled_percent.map_or("an unknown part".into(), |of| format!("{of} %")),
            )),
            Cause::Relief => log::info(format_args!(
                "larderd: memory is no longer short: the cache goes from {before} to {after}"
            )),
        }
        match refused {
            Some(LimitError { asked, min, max }) if !self.has_refused => {
                self.has_refused = true;
                log::warn(format_args!(
                    "larderd: the cache cannot have {}, but only {} to {} until the next start, so \
                     it has {after}",
                    Mebibytes(*asked as u64),
                    Mebibytes(*min as u64),
                    Mebibytes(*max as u64),
                ));
            }
            Some(_) => {}
            None => self.has_refused = false,
        }
    }
}

/// An amount of memory, shown in MiB.
pub(super) struct Mebibytes(pub(super) u64);

impl std::fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MiB", self.0 >> 20)
    }
}

/// How often the memory of the process is looked at.
const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use larder_options::MemoryShare;

    use super::*;
    use crate::memory::tree::Tree;

    const MIB: u64 = 1 << 20;

    /// A cache of 80 % of a cgroup of 40 MiB, which can grow to 64 MiB.
    struct Scene {
        tree: Tree,
        cache: Cache,
        control: MemoryControl,
        watch: MemoryWatch,
        counters: Counters,
    }

    impl Scene {
        fn new() -> Self {
            let tree = Tree::new();
            tree.group("pod", "memory.max", &(40 * MIB).to_string());
            tree.group("pod", "memory.current", "0");
            let cache = Cache::builder().memory_bytes(32 * MIB).memory_bytes_max(64 * MIB);
            let cache = cache.maintainer(true).open().unwrap();
            let share = MemoryShare { percent: 80, fixed_bytes: 0 };
            let follower = LimitFollower::new(share, 40 * MIB, 32 * MIB);
            let control = MemoryControl::new(Some(follower), 40 * MIB);
            let watch = MemoryWatch::new(tree.files());
            Self { tree, cache, control, watch, counters: Counters::default() }
        }

        /// Writes the limit of the cgroup, looks, and returns the limit of the cache in MiB.
        fn look(&mut self, max: &str) -> u64 {
            self.tree.group("pod", "memory.max", max);
            self.watch.looked = None;
            self.watch.look(&self.control, &self.cache, &self.counters);
            self.cache.memory_limit() / MIB
        }
    }

    #[test]
    fn a_limit_that_cannot_be_read_stays_until_it_can() {
        let mut scene = Scene::new();
        assert_eq!(scene.look("x"), 32);
        assert!(scene.watch.has_failed);
        assert_eq!(scene.look(""), 32);
        assert_eq!(scene.look(&(50 * MIB).to_string()), 40);
        assert!(!scene.watch.has_failed);
        assert_eq!(scene.control.bound_bytes(), 50 * MIB);
    }

    #[test]
    fn a_cache_that_cannot_grow_further_has_the_maximum() {
        let mut scene = Scene::new();
        let max = scene.look(&(400 * MIB).to_string());
        assert!((64..80).contains(&max), "{max}");
        assert!(scene.watch.has_refused);
        assert!(scene.control.is_followed());
        assert_eq!(scene.look(&(75 * MIB).to_string()), 60);
        assert!(!scene.watch.has_refused);
    }

    #[test]
    fn memory_that_is_almost_used_up_is_counted() {
        let mut scene = Scene::new();
        scene.tree.group("pod", "memory.current", &(39 * MIB).to_string());
        assert_eq!(scene.look(&(40 * MIB).to_string()), 30);
        assert_eq!(scene.counters.read(Counter::MemoryLowered), 1);
    }

    #[test]
    fn a_limit_set_by_hand_ends_the_following_but_a_refused_one_does_not() {
        let mut scene = Scene::new();
        assert!(scene.control.set_by_hand(&scene.cache, 1 << 40).is_err());
        assert!(scene.control.is_followed());
        scene.control.set_by_hand(&scene.cache, 20 * MIB).unwrap();
        assert!(!scene.control.is_followed());
        scene.control.set_at_start(&scene.cache, 32 * MIB).unwrap();
        assert_eq!(scene.look(&(80 * MIB).to_string()), 20);
        scene.control.retire();
        assert_eq!(scene.look(&(80 * MIB).to_string()), 20);
    }
}
