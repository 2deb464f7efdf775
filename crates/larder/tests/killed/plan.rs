//! The extent of the test: the operations, and the sample of each.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use libtest_mimic::Arguments;

use crate::operations::OPERATIONS;
use crate::trial::Trial;
use crate::victim::{self, Victim, open};

/// The extent of the test.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Maximum number of checked copies per operation; `None` for all.
    pub(crate) judged_max: Option<u64>,
    /// Number of children per operation that are really killed.
    pub(crate) killed: u64,
    /// Number of children per operation that are stopped for a long time while other processes
    /// continue.
    pub(crate) stopped: u64,
    /// Number of stopped children per operation during which writers are measured; see
    /// `stopped.rs`.
    pub(crate) stopped_beside_writers: u64,
    /// Number of copies per operation whose repair is watched.
    pub(crate) repaired: u64,
}

/// The name of the operation in which a victim repairs the state that another victim left.
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

/// Runs the tests that the environment and the arguments select. Each operation is a test.
pub(crate) fn run() -> ExitCode {
    if let Some((name, victim)) = victim::of_environment() {
        play(&name, &victim);
        return ExitCode::SUCCESS;
    }
    let plan = Arc::new(Plan::of_environment());
    let trials = OPERATIONS.iter().map(|operation| {
        let plan = Arc::clone(&plan);
        libtest_mimic::Trial::test(operation.name, move || {
            let seed = plan.seed;
            let said = Trial::of(operation, &plan)
                .run()
                .map_err(|why| format!("LARDER_KILLED_SEED={seed}: {why}"))?;
            println!("{} … {said}, LARDER_KILLED_SEED={seed}", operation.name);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn play(name: &str, victim: &Victim) {
    if name == REPAIR {
        drop(victim.steps(|| open(&victim.path)));
    } else {
        let operation = OPERATIONS.iter().find(|operation| operation.name == name);
        (operation.unwrap().act)(victim);
    }
}
