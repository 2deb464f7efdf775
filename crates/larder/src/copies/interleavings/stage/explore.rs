//! Plays a scene many times, each time with the steps of its threads in another order.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// The number of orders with few switches between threads, at random places, that are played for
/// each of three numbers of switches.
const FEW_SWITCHES: usize = 1500;
/// The number of orders that are played in which each step may belong to any thread.
const ANY_SWITCHES: usize = 4000;
/// The number of orders that a scene of two short threads may have.
const ORDERS_MAX: usize = 2_000_000;
/// The seed of the random places. It is fixed, so that a test that has passed passes again.
const SEED: u64 = 0x0C09;
/// A scene has about a hundred steps. A scene with this many does not end.
const STEPS_MAX: usize = 50_000;

/// Plays a scene in many random orders. With `LARDER_INTERLEAVINGS=n`, plays n times as many, which
/// are different each time.
pub(crate) fn explore(scene: impl Fn() + Copy + Send + Sync + 'static) {
    let asked = std::env::var("LARDER_INTERLEAVINGS").ok().map(|n| n.parse::<usize>().unwrap());
    let (times, seed) = match asked {
        None => (1, SEED),
        Some(times) => (times, RandomState::new().hash_one(SEED)),
    };
    for depth in [3, 4, 6] {
        play(scene, PctScheduler::new_from_seed(seed, depth, times * FEW_SWITCHES));
    }
    play(scene, RandomScheduler::new_from_seed(seed, times * ANY_SWITCHES));
}

/// Plays a scene of two short threads in all orders.
pub(crate) fn explore_all(scene: impl Fn() + Copy + Send + Sync + 'static) {
    let played = play(scene, DfsScheduler::new(Some(ORDERS_MAX), false));
    assert!(played < ORDERS_MAX, "the scene has more than {ORDERS_MAX} orders: shorten it");
}

/// Returns the number of orders that were played.
fn play(scene: impl Fn() + Send + Sync + 'static, scheduler: impl Scheduler + 'static) -> usize {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    Runner::new(scheduler, config).run(scene)
}
