//! A cache under long load: detects slowdown, leaks and wrong values.
//!
//! Two threads get, set, append to, delete and increment items with and without TTLs, in a cache of
//! 256 MiB. Values repeatedly grow from 50 bytes to 50 KB and shrink again, and some have 1 MiB, so
//! that memory used for one size must be reused for another. Every value contains its key and is
//! checked when it is read. Throughput is compared with the first tenth of the time, separately for
//! each operation and size, so that the current sizes do not matter.
//!
//! `cargo bench -p larder-bench --bench soak -- --minutes 60`. It fails, with exit code 1, if a
//! value was wrong, if the process used more memory than the cache and a small margin, or if the
//! cache's memory is not valid at the end. Without `--bench`, which cargo bench adds, it runs for
//! three seconds.
//!
//! Files in reading order: [`frame`], [`wave`], [`tally`], [`worker`], [`watch`].
#![forbid(unsafe_code)]

mod frame;
mod tally;
mod watch;
mod wave;
mod worker;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use larder::Cache;
use larder_bench::{is_measuring, resident_bytes};

use tally::Tally;
use watch::Watch;
use wave::Wave;
use worker::Worker;

#[derive(Parser)]
struct Arguments {
    /// Minutes to run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: u64,
    /// Cargo bench adds this.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    frame::prove();
    let time = match is_measuring() {
        true => Duration::from_secs(60 * arguments.minutes),
        false => Duration::from_secs(3),
    };
    // The first tenth and the last one have the same number of whole periods.
    let wave = Wave { period: (time / 10).min(Duration::from_secs(60)) };
    let resident_before = resident_bytes();
    let cache = Cache::builder().memory_bytes(MEMORY_BYTES).item_bytes_max(4 << 20).open();
    let cache = cache.expect("the machine has some memory");

    let (done, tally) = (AtomicBool::new(false), Mutex::new(Tally::default()));
    let mut watch = Watch::new(&cache, &tally, time, resident_before + MEMORY_BYTES + SLACK_BYTES);
    std::thread::scope(|scope| {
        let mut workers: Vec<_> = (0..THREADS).map(|number| Worker::new(&cache, number)).collect();
        workers.iter_mut().for_each(|worker| worker.warm_up(wave, 3 * MEMORY_BYTES));
        for worker in workers {
            let (done, tally) = (&done, &tally);
            scope.spawn(move || worker.work(wave, done, tally));
        }
        watch.run();
        done.store(true, Ordering::Relaxed);
    });
    match watch.conclude() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

const THREADS: u64 = 2;
pub(crate) const MEMORY_BYTES: u64 = 256 << 20;
/// Memory of the process in addition to the cache, in bytes: buffers for values of a megabyte, and
/// stacks.
const SLACK_BYTES: u64 = 16 << 20;
