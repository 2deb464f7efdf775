//! Measures how long expired items stay in memory if no client reads them.
//!
//! A steady load stores items with TTLs of 20 s, 5 min and 1 h and without a TTL, each under a new
//! key, and never reads. Time is simulated: the bench advances the cache's clock second by second
//! and runs its maintenance once per second, like larderd. Some cohorts (items that expire in the
//! same second) have a size that no other item has, so that the cache's list of sizes shows how
//! many of their items are in memory before and after they expire.
//!
//! The load runs with memory for all items that are ever stored, with memory for one and a half
//! times the live items, and with memory for a part of the live items. Without `--bench`, which
//! cargo bench adds, a shorter run only tests that everything works.
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

/// The load stores about 800 MB in total, of which 170 MB are live at a time.
const MEMORY_MIB: [u64; 3] = [1024, 256, 64];
