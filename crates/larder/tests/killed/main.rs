//! A process is killed at any instruction of any operation: a valid cache remains, and no process
//! waits for the dead one.
//!
//! A child performs one operation. After each instruction that changed the memory, a copy of the
//! memory shows the state that a kill at this point would leave: its row is still attached, and no
//! process holds its lock. Each copy is judged twice: by a process that opens it later, and by a
//! process that was attached all the time. Some children are really killed, to show that the copies
//! match the state after a kill. Beside others, which are stopped, writers are timed.
//!
//! Two instructions in between leave the same memory, so the child runs to its next store: it finds
//! the memory write-protected. Nor does it matter which bytes it has written where no process can
//! find them, such as those of a record that is not filed yet: states that differ only there are
//! judged once, and the process that opens the copy finds noise there.
//!
//! `LARDER_KILLED=all` judges every copy (`make crash`). `LARDER_KILLED=1000` judges about 1000
//! copies of each operation, drawn anew each time. The default is a fixed sample.
//! `LARDER_KILLED_SEED` selects another sample. An argument selects the operations with that part
//! in their name, `=evict` the operation of that name.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod copy;
mod judge;
mod operations;
mod stopped;
mod tracer;
mod trial;
mod victim;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use operations::{OPERATIONS, Operation};
use trial::Trial;
use victim::{Victim, open};

/// The extent of the test.
struct Plan {
    seed: u64,
    /// Largest number of judged copies of each operation; `None` for all.
    judged_max: Option<u64>,
    /// Number of children of each operation that are really killed.
    killed: u64,
    /// Number of long-stopped children of each operation beside which other processes continue.
    stopped: u64,
    /// The same beside which writers are timed; see `stopped`.
    stopped_beside_writers: u64,
    /// Number of copies of each operation that are repaired one instruction at a time.
    repaired: u64,
}

fn main() {
    if let Some((name, victim)) = victim::of_environment() {
        return play(&name, &victim);
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let seed = std::env::var("LARDER_KILLED_SEED").ok().and_then(|seed| seed.parse().ok());
    let asked = std::env::var("LARDER_KILLED").ok();
    let plan = match asked.as_deref() {
        Some(copies) => {
            let anew =
                || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
            let seed = seed.unwrap_or_else(anew);
            let number = || {
                let number = copies.parse().ok().filter(|number| *number > 0);
                number.expect("LARDER_KILLED is `all` or a number of copies, at least 1")
            };
            let judged_max = (copies != "all").then(number);
            Plan {
                seed,
                judged_max,
                killed: 20,
                stopped: 12,
                stopped_beside_writers: 40,
                repaired: 4,
            }
        }
        None => {
            let seed = seed.unwrap_or(1);
            Plan {
                seed,
                judged_max: Some(40),
                killed: 1,
                stopped: 1,
                stopped_beside_writers: 3,
                repaired: 1,
            }
        }
    };
    println!("LARDER_KILLED_SEED={}", plan.seed);
    let is_wanted = |operation: &&Operation| match wanted.is_empty() {
        true => asked.is_some() || !operation.is_long,
        false => wanted.iter().any(|part| match part.strip_prefix('=') {
            Some(whole) => operation.name == whole,
            None => operation.name.contains(part),
        }),
    };
    let chosen: Vec<&Operation> = OPERATIONS.iter().filter(is_wanted).collect();
    assert!(!chosen.is_empty(), "no operation has one of these names: {wanted:?}");
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

fn play(name: &str, victim: &Victim) {
    if name == REPAIR {
        drop(victim.steps(|| open(&victim.path)));
    } else {
        let operation = OPERATIONS.iter().find(|operation| operation.name == name);
        (operation.unwrap().act)(victim);
    }
}

/// The name under which a victim repairs the state that another one left.
const REPAIR: &str = "repair";
