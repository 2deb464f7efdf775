//! How long expired items stay in memory while no client reads them.
//!
//! A steady load stores items with TTLs of 20 s, 5 min and 1 h and without a TTL, each under a new
//! key, and never reads. Time is simulated: the bench moves the cache's clock each second and runs
//! its maintenance once in it, as larderd does. Some cohorts (items that expire in the same second)
//! have a size that no other item has, so the cache's list of sizes shows how many of them are held
//! before and after.
//!
//! The load runs with memory for everything ever stored, with memory for all live items and half as
//! much again, and with memory for a part of them. Without `--bench`, which cargo bench adds, a
//! shorter run only shows that everything works.
//!
//! Files in reading order: [`cohort`], [`simulation`], [`held`].
#![forbid(unsafe_code)]

mod cohort;
mod held;
mod simulation;

use cohort::{SAMPLES_MAX, TTLS};
use held::Held;
use simulation::Simulation;

fn main() {
    let samples = if larder_bench::is_measuring() { SAMPLES_MAX } else { 3 };
    println!("share of the items that expire in a second still held at this time after it");
    println!();
    println!("| memory | TTL | expired | 1 s | 10 s | 60 s | 600 s |");
    println!("|---|---|---|---|---|---|---|");
    let mut runs = Vec::new();
    for memory_mib in MEMORY_MIB {
        let mut simulation = Simulation::new(memory_mib << 20, samples);
        let held = simulation.run();
        for (secs, cohorts) in TTLS.iter().zip(&held.cohorts) {
            let percents = cohorts.percents().join(" | ");
            println!("| {memory_mib} MiB | {secs} s | {} | {percents} |", cohorts.expired);
        }
        runs.push((memory_mib, simulation.evictions(), held));
    }
    println!();
    println!("means over the samples");
    println!();
    println!(
        "| memory | evictions | expired bytes / bytes held | live bytes / memory of used segments |"
    );
    println!("|---|---|---|---|");
    for (memory_mib, evictions, Held { expired_shares, live_shares, .. }) in &runs {
        let [expired, live] = [expired_shares, live_shares]
            .map(|shares| shares.iter().sum::<f64>() * 100.0 / shares.len() as f64);
        println!("| {memory_mib} MiB | {evictions} | {expired:.1} % | {live:.1} % |");
    }
}

/// For about 800 MB stored in all, of which 170 MB are live at a time.
const MEMORY_MIB: [u64; 3] = [1024, 256, 64];
