//! The extent of the test: which operations, and how much of each.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::operations::{OPERATIONS, Operation};
use crate::trial::Trial;
use crate::victim::{self, Victim, open};

/// The extent of the test.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Largest number of judged copies of each operation; `None` for all.
    pub(crate) judged_max: Option<u64>,
    /// Number of children of each operation that are really killed.
    pub(crate) killed: u64,
    /// Number of long-stopped children of each operation beside which other processes continue.
    pub(crate) stopped: u64,
    /// The same beside which writers are timed; see `stopped`.
    pub(crate) stopped_beside_writers: u64,
    /// Number of copies of each operation whose repair is watched.
    pub(crate) repaired: u64,
}

/// The name under which a victim repairs the state that another one left.
pub(crate) const REPAIR: &str = "repair";

impl Plan {
    const SAMPLE: Self = Self {
        seed: 1,
        judged_max: Some(40),
        killed: 1,
        stopped: 1,
        stopped_beside_writers: 3,
        repaired: 1,
    };

    fn of_environment() -> Self {
        let seed = std::env::var("LARDER_KILLED_SEED").ok().and_then(|seed| seed.parse().ok());
        let Ok(copies) = std::env::var("LARDER_KILLED") else {
            return Self { seed: seed.unwrap_or(1), ..Self::SAMPLE };
        };
        let anew = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
        let number = || {
            let number = copies.parse().ok().filter(|number| *number > 0);
            number.expect("LARDER_KILLED is `all` or a number of copies, at least 1")
        };
        Self {
            seed: seed.unwrap_or_else(anew),
            judged_max: (copies != "all").then(number),
            killed: 20,
            stopped: 12,
            stopped_beside_writers: 40,
            repaired: 4,
        }
    }
}

/// Runs what the environment and the arguments ask for.
pub(crate) fn run() {
    if let Some((name, victim)) = victim::of_environment() {
        return play(&name, &victim);
    }
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let plan = Plan::of_environment();
    println!("LARDER_KILLED_SEED={}", plan.seed);
    let chosen = chosen();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(8) {
            scope.spawn(|| {
                while let Some(operation) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let begun = Instant::now();
                    match Trial::of(operation, &plan).run() {
                        Ok(said) => {
                            println!("{} … {said}, {:.1?}", operation.name, begun.elapsed())
                        }
                        Err(why) => {
                            failed.fetch_add(1, Relaxed);
                            println!("{} … FAILED: {why}", operation.name);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "operations left an invalid cache");
}

fn chosen() -> Vec<&'static Operation> {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_meant = |operation: &Operation, part: &String| match part.strip_prefix('=') {
        Some(whole) => operation.name == whole,
        None => operation.name.contains(part),
    };
    let is_wanted = |operation: &&Operation| {
        wanted.is_empty() || wanted.iter().any(|part| is_meant(operation, part))
    };
    let chosen: Vec<_> = OPERATIONS.iter().filter(is_wanted).collect();
    assert!(!chosen.is_empty(), "no operation has one of these names: {wanted:?}");
    chosen
}

fn play(name: &str, victim: &Victim) {
    if name == REPAIR {
        drop(victim.steps(|| open(&victim.path)));
    } else {
        let operation = OPERATIONS.iter().find(|operation| operation.name == name);
        (operation.unwrap().act)(victim);
    }
}
