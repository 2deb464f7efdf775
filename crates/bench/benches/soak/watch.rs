//! Observes the cache while threads use it, and decides whether the run has passed.

use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder::Cache;
use larder_bench::resident_bytes;

use crate::tally::{Operation, Tally};

pub(crate) struct Watch<'a> {
    cache: &'a Cache,
    /// The counts of all threads so far.
    tally: &'a Mutex<Tally>,
    /// The length of the run.
    time: Duration,
    resident_max: u64,
    /// The largest resident memory seen, in bytes.
    resident_seen: u64,
    /// The counts of the first tenth of the time, once it is over.
    first_tenth: Option<Tally>,
    /// The counts before the last tenth.
    before_last_tenth: Option<Tally>,
    /// The live share in each second after the first tenth.
    live_shares: Vec<f64>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        cache: &'a Cache,
        tally: &'a Mutex<Tally>,
        time: Duration,
        resident_max: u64,
    ) -> Self {
        Self {
            cache,
            tally,
            time,
            resident_max,
            resident_seen: 0,
            first_tenth: None,
            before_last_tenth: None,
            live_shares: Vec::new(),
        }
    }

    /// Runs the maintenance of a server each second, and prints a line every ten seconds.
    pub(crate) fn run(&mut self) {
        print_head();
        let started = Instant::now();
        let (mut before, mut printed) = (Tally::default(), 0);
        // At least a hundred steps, so that the tenths begin and end on time.
        let step = (self.time / 100).min(Duration::from_secs(1));
        let (mut next_step, mut maintained) = (step, Duration::ZERO);
        while next_step <= self.time {
            sleep(next_step.saturating_sub(started.elapsed()));
            let now = next_step;
            next_step += step;
            self.resident_seen = self.resident_seen.max(resident_bytes());
            if now >= maintained + Duration::from_secs(1) {
                self.cache.maintain();
                maintained = now;
                if self.first_tenth.is_some() {
                    self.live_shares.push(self.live_share());
                }
            }
            if now >= self.time / 10 && self.first_tenth.is_none() {
                self.first_tenth = Some(self.counted());
            }
            if now >= self.time - self.time / 10 && self.before_last_tenth.is_none() {
                self.before_last_tenth = Some(self.counted());
            }
            if now.as_secs() / 10 > printed || next_step > self.time {
                printed = now.as_secs() / 10;
                let counted = self.counted();
                self.print_line(now, &counted.since(&before), &counted);
                before = counted;
            }
        }
    }

    fn counted(&self) -> Tally {
        self.tally.lock().expect("no thread panics").clone()
    }

    fn print_line(&self, now: Duration, window: &Tally, all: &Tally) {
        print!("{:>6}", now.as_secs());
        for (operation, _) in Operation::ALL {
            print!(" {:>9.0} {}", window.ns(operation), self.speed(window, &[operation]));
        }
        let live_share = self.live_share();
        let resident_mib = resident_bytes() >> 20;
        println!(
            "  {live_share:.3} {resident_mib:>4} {:>6} {:>8}  {:.2}",
            all.wrong_values,
            all.refused,
            window.timed_share()
        );
    }

    /// Returns the bytes of live items divided by the memory of the segments with items.
    fn live_share(&self) -> f64 {
        let report = self.cache.report();
        report.live_bytes as f64 / (report.segments_items * report.segment_bytes) as f64
    }

    fn speed(&self, window: &Tally, operations: &[Operation]) -> String {
        let speed = self.first_tenth.as_ref().and_then(|first| window.speed(operations, first));
        speed.map_or_else(|| "    -".to_owned(), |speed| format!("x{speed:.2}"))
    }

    /// Prints the results after the threads have ended. Returns true if all checks passed.
    pub(crate) fn conclude(&self) -> bool {
        let counted = self.counted();
        let empty = Tally::default();
        let last = counted.since(self.before_last_tenth.as_ref().unwrap_or(&empty));
        println!();
        println!(
            "throughput of the last tenth / the first, same operations on values of the same sizes:"
        );
        for (operation, name) in Operation::ALL {
            println!("  {name:<7} {}", self.speed(&last, &[operation]));
        }
        println!(
            "  all     {}",
            self.speed(&last, &Operation::ALL.map(|(operation, _)| operation))
        );

        let (seconds, sum) = (self.live_shares.len().max(1), self.live_shares.iter().sum::<f64>());
        let least = self.live_shares.iter().copied().fold(f64::INFINITY, f64::min);
        println!("live share: {:.3} in the mean, {least:.3} at least", sum / seconds as f64);
        let is_bounded = self.resident_seen <= self.resident_max;
        let validity = self.cache.validate();
        println!(
            "wrong values: {}; stores without memory: {}",
            counted.wrong_values, counted.refused
        );
        println!(
            "memory: at most {} KiB, {} allowed{}",
            self.resident_seen >> 10,
            self.resident_max >> 10,
            if is_bounded { "" } else { ": TOO MUCH" }
        );
        match &validity {
            Ok(()) => println!("the cache's memory is valid"),
            Err(broken) => println!("the cache's memory is BROKEN: {broken}"),
        }
        counted.wrong_values == 0 && is_bounded && validity.is_ok()
    }
}

fn print_head() {
    println!("ns an operation took, and the throughput / that of the first tenth at equal sizes;");
    println!("live: bytes of items / memory of the segments that hold items; RSS in MiB;");
    println!(
        "timed: the share of the time in which the threads kept their processors, which alone counts"
    );
    print!("second");
    for (_, name) in Operation::ALL {
        print!(" {name:>9}      ");
    }
    println!("  live  RSS  wrong  refused timed");
}
