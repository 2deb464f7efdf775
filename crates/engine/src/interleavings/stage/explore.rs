//! Plays a scene many times, each time with the steps of its threads in another order. A preemption
//! is a switch to another thread at a point where the first thread could have continued.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::num::NonZeroUsize;
use std::time::Duration;

use larder_region::turns::{self, YieldPoint};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
pub(crate) use shuttle::thread;
use shuttle::{Config, Runner};

/// The number of orders to play with two or three preemptions at random places.
const FEW_PREEMPTIONS: usize = 1500;
/// The number of orders to play in which each step may belong to any thread.
const ALL_PREEMPTIONS: usize = 100;
/// The maximal number of orders with at most two preemptions that are played for a scene if more
/// orders than usual are requested. A scene with two long operations has millions of them.
const ORDERS_MAX: usize = 50_000;
/// The seed of the random places. It is fixed, so that a test that has passed passes again.
const SEED: u64 = 0x1A2D;
/// A scene has some hundred steps. A scene with this many does not end.
const STEPS_MAX: usize = 200_000;

/// Plays a scene in every order with at most one preemption, and in many orders with more.
///
/// With `LARDER_INTERLEAVINGS=n`, also plays every order with two preemptions, up to [`ORDERS_MAX`]
/// orders, and n times as many random orders. The random orders are different each time.
pub(crate) fn explore(scene: impl Fn() + Copy + Send + Sync + 'static) {
    play(scene, Preemptions::up_to(1));
    if asked_times().is_some() {
        play(scene, Preemptions { orders_left: ORDERS_MAX, ..Preemptions::up_to(2) });
    }
    explore_some(scene);
}

fn asked_times() -> Option<NonZeroUsize> {
    std::env::var("LARDER_INTERLEAVINGS").ok().map(|n| n.parse().unwrap())
}

/// Same as [`explore`], but only with random orders, for scenes that are too long to play every
/// order with one preemption.
pub(crate) fn explore_some(scene: impl Fn() + Copy + Send + Sync + 'static) {
    let (times, seed) = match asked_times() {
        None => (1, SEED),
        Some(times) => (times.get(), RandomState::new().hash_one(SEED)),
    };
    for depth in [3, 4] {
        play(scene, PctScheduler::new_from_seed(seed, depth, times * FEW_PREEMPTIONS / 2));
    }
    play(scene, RandomScheduler::new_from_seed(seed, times * ALL_PREEMPTIONS));
}

/// Allows or forbids preemption before each access from now on.
pub(crate) fn preempt(preempt: bool) {
    turns::schedule_by(preempt.then_some(offer));
}

/// Decides whether a thread yields.
fn offer(turn: YieldPoint) {
    match turn {
        // This thread is unwinding because it has failed. The other threads need not notice that.
        _ if std::thread::panicking() => {}
        YieldPoint::Access => thread::sleep(Duration::ZERO),
        YieldPoint::Wait => thread::yield_now(),
    }
}

fn play(scene: impl Fn() + Send + Sync + 'static, scheduler: impl Scheduler + 'static) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    Runner::new(scheduler, config).run(scene);
}

/// A scheduler for `shuttle` that plays every order with a bounded number of preemptions. The first
/// task sets up the scene and checks its end, and is never preempted.
#[derive(Debug)]
struct Preemptions {
    /// The maximal number of preemptions in an execution.
    bound: usize,
    /// The decisions of this execution, in the order of its steps. The next execution repeats them
    /// up to the last one that has an untried choice, and takes that choice.
    decisions: Vec<Decision>,
    /// The number of decisions that this execution has made so far.
    decided: usize,
    /// The number of preemptions in this execution so far.
    preempted: usize,
    /// True once the first execution has begun.
    begun: bool,
    /// The number of orders that may still be played.
    orders_left: usize,
}

/// A point of an execution at which one of several threads can continue. There are `ways` choices,
/// and this execution takes the one with the number `taken`.
#[derive(Debug)]
struct Decision {
    taken: usize,
    ways: usize,
}

impl Preemptions {
    fn up_to(bound: usize) -> Self {
        Self {
            bound,
            decisions: Vec::new(),
            decided: 0,
            preempted: 0,
            begun: false,
            orders_left: usize::MAX,
        }
    }

    fn decide(&mut self, ways: usize) -> usize {
        if ways == 1 {
            return 0;
        }
        if self.decided == self.decisions.len() {
            self.decisions.push(Decision { taken: 0, ways });
        }
        let decision = &self.decisions[self.decided];
        assert_eq!(decision.ways, ways, "the scene does not depend on the schedule alone");
        self.decided += 1;
        decision.taken
    }
}

impl Scheduler for Preemptions {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.orders_left = self.orders_left.checked_sub(1)?;
        if self.begun {
            while self.decisions.pop_if(|last| last.taken + 1 == last.ways).is_some() {}
            self.decisions.last_mut()?.taken += 1;
        }
        (self.begun, self.decided, self.preempted) = (true, 0, 0);
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_waiting: bool,
    ) -> Option<TaskId> {
        let mut tasks: Vec<TaskId> = runnable.iter().map(|task| task.id()).collect();
        let first = TaskId::from(0);
        if tasks.contains(&first) && (!is_waiting || tasks.len() == 1) {
            return Some(first);
        }
        let going_on = current.filter(|current| tasks.contains(current));
        let Some(going_on) = going_on else {
            return Some(tasks[self.decide(tasks.len())]);
        };
        tasks.retain(|task| *task != going_on);
        if tasks.is_empty() {
            return Some(going_on);
        }
        if is_waiting {
            return Some(tasks[self.decide(tasks.len())]);
        }
        if self.preempted == self.bound {
            return Some(going_on);
        }
        match self.decide(1 + tasks.len()) {
            0 => Some(going_on),
            other => {
                self.preempted += 1;
                Some(tasks[other - 1])
            }
        }
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("a scene asks for no random numbers")
    }
}
