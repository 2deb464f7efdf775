//! Bytes written to the log of a store for each byte of a change.
//!
//! A sequence of changes is applied to a store in a real directory, to a simulated log, and to
//! RocksDB. The changes fill the log, continue for twice the size of the log, and are then measured
//! for twice the size of the log. In all columns the size of a change is the size of its record in
//! Larder's log.
//!
//! Files in reading order: [`target`], [`workload`], [`log`], [`simulated`], [`rocksdb`].

mod log;
mod rocksdb;
mod simulated;
mod target;
mod workload;

use std::env;

use anyhow::{Result, ensure};
use larder_bench::is_measuring;

use crate::scale::Scale;
use log::Log;
use rocksdb::RocksDb;
use simulated::Simulated;
use target::{RECORD_BYTES, VALUE_BYTES};
use workload::Workload;

pub(crate) fn run(scale: &Scale) -> Result<()> {
    println!(
        "values of {VALUE_BYTES} bytes, records of {RECORD_BYTES}, a log of {} MiB; bytes written \
         for each byte of a change",
        scale.log_bytes >> 20
    );
    println!("simulated: a log that copies what lives at its tail; of it: larder / simulated");
    println!(
        "{:<32} {:>6} {:>10} {:>9} {:>8} {:>7} {:>7} {:>8} {:>9}",
        "workload",
        "live",
        "changes MB",
        "simulated",
        "design",
        "larder",
        "of it",
        "zeros",
        "rocksdb"
    );
    let wanted = env::var("LARDER_WORKLOAD").unwrap_or_default();
    // The log of a short run is too small for more live items.
    let fits = |workload: &Workload| is_measuring() || workload.live_percent <= 60;
    let is_wanted = |workload: &&Workload| fits(workload) && workload.name.contains(&wanted);
    let mut failed = Vec::new();
    for workload in Workload::ALL.iter().filter(is_wanted) {
        if let Err(error) = measure(scale, workload) {
            println!("{:<32} {:>4} % failed: {error:#}", workload.name, workload.live_percent);
            failed.push(workload.name);
        }
    }
    ensure!(failed.is_empty(), "these failed: {}", failed.join(", "));
    Ok(())
}

fn measure(scale: &Scale, workload: &Workload) -> Result<()> {
    let log_bytes = scale.log_bytes;
    let simulated = workload.play(&mut Simulated::new(log_bytes), log_bytes)?;
    let folder = scale.folder()?;
    let mut log = Log::create(&folder.path().join("store"), log_bytes)?;
    let larder = workload.play(&mut log, log_bytes)?;
    drop(log);
    let rocksdb = match &scale.rocksdb {
        Some(binary) => {
            let mut rocksdb = RocksDb::start(binary, &folder.path().join("rocksdb"))?;
            let played = workload.play(&mut rocksdb, log_bytes)?;
            format!("{:.2}", played.amplification())
        }
        None => "-".to_owned(),
    };
    let of_design = workload.simulated_by_design.map_or("-".to_owned(), |of| format!("{of:.2}"));
    println!(
        "{:<32} {:>4} % {:>10.0} {:>9.2} {of_design:>8} {:>7.2} {:>7.2} {:>8.2} {rocksdb:>9}",
        workload.name,
        workload.live_percent,
        larder.changed_bytes as f64 / 1e6,
        simulated.amplification(),
        larder.amplification(),
        larder.amplification() / simulated.amplification(),
        larder.zeroed(),
    );
    Ok(())
}
