//! Decides on the memory limit of a cache whose `-m` is a percentage. Does no I/O.

use larder_options::{MemoryBound, MemoryShare};

/// A look at the memory that this process may use.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observation {
    pub(super) bound: MemoryBound,
    /// Bytes in use below the bound, without page cache that the kernel can drop.
    pub(super) use_bytes: u64,
    /// The percentage of the last ten seconds in which at least one task waited for memory; `None`
    /// if the kernel does not measure it.
    pub(super) stalled_percent: Option<f32>,
}

/// The state between two looks.
#[derive(Debug)]
pub(super) struct LimitFollower {
    share: MemoryShare,
    /// The bound at the last look, in bytes.
    bound_bytes: u64,
    /// The limit of the cache, in bytes.
    limit_bytes: u64,
    /// Bytes by which the limit falls in a second, while it falls towards a lower bound.
    fall_bytes: u64,
    /// Steps by which pressure has lowered the limit.
    steps_down: u64,
    /// The second at which the last step up or down was taken.
    stepped_at: Option<u64>,
    /// The second at which memory was last short.
    short_at: u64,
    /// True if another process serves, so that this one gives its memory up.
    is_retired: bool,
}

/// A limit to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) limit_bytes: u64,
    /// The limit after all steps of a fall.
    pub(super) goal_bytes: u64,
    pub(super) cause: Cause,
    /// True if memory is short, so that the limit was lowered by a step.
    pub(super) is_short: bool,
}

/// Why a limit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The bound has changed.
    Bound,
    /// The limit still approaches the changed bound.
    Approach,
    /// Memory is short.
    Pressure,
    /// Memory was not short for a while.
    Relief,
}

impl LimitFollower {
    /// Creates the state of a cache that has just been opened with `limit_bytes`, which `share`
    /// resulted in for a bound of `bound_bytes`.
    pub(super) fn new(share: MemoryShare, bound_bytes: u64, limit_bytes: u64) -> Self {
        Self {
            share,
            bound_bytes,
            limit_bytes,
            fall_bytes: 0,
            steps_down: 0,
            stepped_at: None,
            short_at: 0,
            is_retired: false,
        }
    }

    pub(super) fn share(&self) -> MemoryShare {
        self.share
    }

    /// Lets the limit fall to the minimum. The process has a successor, whose cache needs the
    /// memory.
    pub(super) fn retire(&mut self) {
        self.is_retired = true;
    }

    /// Notes the limit of the cache, which could not have the one that was to be set. The next look
    /// asks for the limit again.
    pub(super) fn note_limit(&mut self, bytes: u64) {
        self.limit_bytes = bytes;
    }

    /// Returns the limit to set, if it changes. Called once a second; `second` counts seconds from
    /// any start.
    pub(super) fn look(&mut self, seen: &Observation, second: u64) -> Option<Change> {
        let has_changed = seen.bound.bytes != self.bound_bytes;
        self.bound_bytes = seen.bound.bytes;
        let stepped = self.step(seen, second);
        let target = self.target();
        let before = self.limit_bytes;
        if target >= before {
            self.fall_bytes = 0;
            self.limit_bytes = target;
        } else {
            if self.fall_bytes == 0 || has_changed {
                // A step of pressure is a part of the whole limit, and is taken in one fall.
                let whole = self.share.bytes_of(self.bound_bytes);
                self.fall_bytes = (before.max(whole) / STEPS).max(1);
            }
            self.limit_bytes = before.saturating_sub(self.fall_bytes).max(target);
        }
        let cause = match stepped {
            _ if has_changed => Cause::Bound,
            Some(cause) => cause,
            None => Cause::Approach,
        };
        let is_changed = self.limit_bytes != before;
        let is_short = stepped == Some(Cause::Pressure);
        is_changed.then_some(Change {
            limit_bytes: self.limit_bytes,
            goal_bytes: target,
            cause,
            is_short,
        })
    }

    /// Lowers the target by a step if memory is short, and raises it by a step if it has not been
    /// short for a while.
    fn step(&mut self, seen: &Observation, second: u64) -> Option<Cause> {
        let percent = u128::from(seen.use_bytes) * 100 / u128::from(seen.bound.bytes.max(1));
        let stalled = seen.stalled_percent.unwrap_or(0.0);
        let is_critical = percent >= USE_PERCENT_CRITICAL;
        let is_short = is_critical || (percent >= USE_PERCENT_HIGH && stalled >= STALLED_HIGH);
        let is_quiet = percent < USE_PERCENT_HIGH && stalled < STALLED_LOW;
        if !is_quiet {
            self.short_at = second;
        }
        let since_step = self.stepped_at.map(|at| second.saturating_sub(at));
        let has_waited = |secs| since_step.is_none_or(|since| since >= secs);
        let down_secs = if is_critical { 1 } else { DOWN_SECS };
        if is_short && self.steps_down < STEPS_DOWN_MAX && has_waited(down_secs) {
            self.steps_down += 1;
            self.stepped_at = Some(second);
            return Some(Cause::Pressure);
        }
        let quiet_secs = second.saturating_sub(self.short_at);
        if self.steps_down > 0 && quiet_secs >= QUIET_SECS && has_waited(UP_SECS) {
            self.steps_down -= 1;
            self.stepped_at = Some(second);
            return Some(Cause::Relief);
        }
        None
    }

    /// Returns the limit for the current bound and pressure.
    fn target(&self) -> u64 {
        if self.is_retired {
            return MemoryShare::CACHE_BYTES_MIN;
        }
        let whole = self.share.bytes_of(self.bound_bytes).max(MemoryShare::CACHE_BYTES_MIN);
        let lowered = whole - whole / STEPS * self.steps_down;
        lowered.max(MemoryShare::CACHE_BYTES_MIN)
    }
}

/// The steps from nothing to the whole limit: each is 5 %.
const STEPS: u64 = 20;

/// Pressure does not lower the limit by more steps than these. The cause may be another process,
/// whose use the cache cannot lower.
const STEPS_DOWN_MAX: u64 = 10;

/// Percentage of the bound from which a stalled process is taken for short of memory.
const USE_PERCENT_HIGH: u128 = 90;

/// Percentage of the bound from which memory is short even if no task has waited. Memory of items
/// cannot be swapped out in most containers, so that the kernel ends a process without much delay.
const USE_PERCENT_CRITICAL: u128 = 95;

/// Percentage of time that tasks wait, from which memory is short.
const STALLED_HIGH: f32 = 10.0;

/// Percentage of time that tasks wait, below which memory is not short.
const STALLED_LOW: f32 = 1.0;

/// Seconds between two steps down. The kernel's average needs as long to show the effect.
const DOWN_SECS: u64 = 10;

/// Seconds without pressure before the first step up.
const QUIET_SECS: u64 = 300;

/// Seconds between two steps up.
const UP_SECS: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A follower of 80 % of a bound without a fixed part, in MiB.
    struct Scene {
        follower: LimitFollower,
        second: u64,
        bound: u64,
        use_percent: u64,
        stalled: f32,
    }

    impl Scene {
        fn new(bound: u64) -> Self {
            let share = MemoryShare { percent: 80, fixed_bytes: 0 };
            let limit = share.bytes_of(bound * MIB);
            let follower = LimitFollower::new(share, bound * MIB, limit);
            Self { follower, second: 0, bound, use_percent: 50, stalled: 0.0 }
        }

        /// Looks each second, and returns the changes with their seconds, limits in MiB and causes.
        fn run(&mut self, secs: u64) -> Vec<(u64, u64, Cause)> {
            let mut changes = Vec::new();
            for _ in 0..secs {
                self.second += 1;
                let bytes = self.bound * MIB;
                let seen = Observation {
                    bound: MemoryBound { bytes, origin: String::new() },
                    use_bytes: bytes / 100 * self.use_percent,
                    stalled_percent: Some(self.stalled),
                };
                let change = self.follower.look(&seen, self.second);
                changes.extend(change.map(|of| (self.second, of.limit_bytes / MIB, of.cause)));
            }
            changes
        }

        fn limits(&mut self, secs: u64) -> Vec<u64> {
            self.run(secs).into_iter().map(|(_, limit, _)| limit).collect()
        }
    }

    #[test]
    fn nothing_changes_while_nothing_happens() {
        let mut scene = Scene::new(1000);
        assert_eq!(scene.run(10_000), []);
        scene.stalled = 99.0;
        assert_eq!(scene.run(100), [], "the stall has another cause: half of the memory is free");
        (scene.stalled, scene.use_percent) = (9.9, 94);
        assert_eq!(scene.run(100), []);
    }

    #[test]
    fn a_higher_bound_raises_the_limit_immediately() {
        let mut scene = Scene::new(1000);
        scene.bound = 1500;
        assert_eq!(scene.run(5), [(1, 1200, Cause::Bound)]);
    }

    #[test]
    fn a_lower_bound_lowers_the_limit_in_steps() {
        let mut scene = Scene::new(1000);
        scene.bound = 800;
        let changes = scene.run(10);
        assert_eq!(changes[0], (1, 760, Cause::Bound));
        assert_eq!(
            changes[1..],
            [720, 680, 640].map(|limit| (changes_at(limit), limit, Cause::Approach))
        );
        scene.bound = 1;
        let limits = scene.limits(30);
        assert_eq!((limits[0], limits.len()), (608, 20));
        assert_eq!(limits.last(), Some(&8), "the limit stays at the minimum of a cache");
        assert_eq!(scene.run(100), []);
    }

    fn changes_at(limit: u64) -> u64 {
        (800 - limit) / 40
    }

    #[test]
    fn a_bound_that_changes_while_the_limit_falls_is_followed_from_there() {
        let mut scene = Scene::new(1000);
        scene.bound = 500;
        assert_eq!(scene.limits(3), [760, 720, 680]);
        scene.bound = 900;
        assert_eq!(scene.run(3), [(4, 720, Cause::Bound)]);
    }

    #[test]
    fn pressure_lowers_the_limit_by_a_step_in_ten_seconds_to_one_half() {
        let mut scene = Scene::new(1000);
        scene.run(50);
        (scene.use_percent, scene.stalled) = (91, 10.0);
        let changes = scene.run(1000);
        assert_eq!(changes[0], (51, 760, Cause::Pressure));
        assert_eq!(changes[1], (61, 720, Cause::Pressure));
        assert_eq!((changes.len(), changes[9].1), (10, 400));
    }

    #[test]
    fn memory_that_is_almost_used_up_lowers_the_limit_each_second() {
        let mut scene = Scene::new(1000);
        scene.use_percent = 95;
        assert_eq!(scene.limits(3), [760, 720, 680]);
        scene.use_percent = 94;
        assert_eq!(scene.limits(1000), [0; 0], "94 % are not quiet enough for a step up");
    }

    #[test]
    fn the_limit_rises_by_steps_after_five_minutes_without_pressure() {
        let mut scene = Scene::new(1000);
        scene.use_percent = 95;
        assert_eq!(scene.limits(2), [760, 720]);
        scene.use_percent = 80;
        assert_eq!(scene.run(299), []);
        assert_eq!(scene.run(1), [(302, 760, Cause::Relief)]);
        scene.stalled = 1.0;
        assert_eq!(scene.run(1), [], "a stall begins the five minutes again");
        scene.stalled = 0.0;
        assert_eq!(scene.run(1000), [(603, 800, Cause::Relief)]);
    }

    #[test]
    fn the_second_step_up_follows_a_minute_after_the_first() {
        let mut scene = Scene::new(1000);
        scene.use_percent = 95;
        scene.run(3);
        scene.use_percent = 10;
        let seconds: Vec<_> = scene.run(1000).into_iter().map(|(second, ..)| second).collect();
        assert_eq!(seconds, [303, 363, 423]);
    }

    #[test]
    fn a_changed_bound_keeps_the_steps_of_pressure() {
        let mut scene = Scene::new(1000);
        scene.use_percent = 95;
        scene.run(2);
        (scene.use_percent, scene.bound) = (50, 2000);
        assert_eq!(scene.run(1), [(3, 1440, Cause::Bound)]);
    }

    #[test]
    fn a_retired_server_gives_its_memory_up() {
        let mut scene = Scene::new(1000);
        scene.follower.retire();
        let limits = scene.limits(60);
        assert_eq!((limits[0], limits.len()), (760, 20));
        assert_eq!(limits.last(), Some(&8));
    }

    #[test]
    fn extreme_observations_do_no_harm() {
        let share = MemoryShare { percent: 100, fixed_bytes: u64::MAX };
        let mut follower = LimitFollower::new(share, 0, 0);
        for (second, bytes) in [(0, 0), (u64::MAX, u64::MAX), (1, 1), (0, u64::MAX)] {
            for stalled_percent in [None, Some(f32::NAN), Some(f32::INFINITY), Some(-1.0)] {
                let bound = MemoryBound { bytes, origin: String::new() };
                let seen = Observation { bound, use_bytes: u64::MAX, stalled_percent };
                follower.look(&seen, second);
            }
        }
    }
}
