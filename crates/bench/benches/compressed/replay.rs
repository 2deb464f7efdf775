//! Replays traces on simulated caches.

use std::path::Path;

use anyhow::Result;
use larder_loadgen::trace::{Operation, Request, Trace};

use crate::cache::{Cache, Compresses, Settings, Work};
use crate::ratio::Ratio;

/// Bytes of an item of larderd in addition to key and value, with its part of the index
/// (docs/benchmarks.md).
const OVERHEAD_BYTES: usize = 56;

/// The traces, with a memory for sizes multiplied by 16, and the miss ratio of S3-FIFO for it
/// according to the traces' description.
const TRACES: [(&str, u32, usize, f64); 5] = [
    ("orm-busy-2M", 16, 28_629_598, 0.1298),
    ("w106-1M", 16, 19_310_616, 0.1516),
    ("synth-kv-ttl", 16, 45_845_609, 0.2654),
    ("synth-kv-write", 16, 46_688_267, 0.2456),
    ("adapt_size", 1, 27_973_779, 0.6137),
];

/// The result of a replay.
struct Outcome {
    gets: u64,
    misses: u64,
    requests: u64,
    work: Work,
    /// Items in memory, averaged over the second half of the replay.
    items: f64,
}

impl Outcome {
    fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.gets.max(1) as f64
    }
}

/// Prints the miss ratios of the simulated cache without compression next to the known ones.
pub(crate) fn check(folder: &Path) -> Result<()> {
    println!("| check: trace | miss ratio | known |\n|---|--:|--:|");
    for (name, scale, memory_bytes, known) in TRACES {
        let trace = read(folder, name, scale)?;
        let (compresses, ratio) = (Compresses::Nothing, &Ratio::Fixed(1.0));
        let settings = Settings { memory_bytes, overhead_bytes: 24, compresses, ratio };
        println!("| {name} | {:.4} | {known:.4} |", replay(&trace, settings).miss_ratio());
    }
    println!();
    Ok(())
}

/// Prints a table of the traces, what is compressed, and ratios.
pub(crate) fn print(folder: &Path, as_records: &Ratio) -> Result<()> {
    println!(
        "| trace, memory | compressed | ratio | miss ratio | misses | items | compressions of 1000 \
         requests | decompressions |\n|---|---|--:|--:|--:|--:|--:|--:|"
    );
    for (name, scale, memory_bytes, _) in TRACES {
        let memory_bytes = memory_bytes / scale as usize;
        let trace = read(folder, name, 1)?;
        let play = |compresses, ratio: &Ratio| {
            let overhead_bytes = OVERHEAD_BYTES;
            replay(&trace, Settings { memory_bytes, overhead_bytes, compresses, ratio })
        };
        let plain = play(Compresses::Nothing, &Ratio::Fixed(1.0));
        let name = format!("{name}, {:.1} MB", memory_bytes as f64 / 1e6);
        print_row(&name, "nothing", "", &plain, &plain);
        for (what, compresses) in [
            ("cold survivors", Compresses::ColdSurvivors),
            ("evicted, one turn", Compresses::Evicted),
            ("everything", Compresses::Everything),
        ] {
            for ratio in [Ratio::Fixed(0.3), Ratio::Fixed(0.5), Ratio::Fixed(0.7)] {
                print_row(&name, what, &ratio.to_string(), &play(compresses, &ratio), &plain);
            }
            print_row(&name, what, "records", &play(compresses, as_records), &plain);
        }
    }
    Ok(())
}

fn print_row(name: &str, what: &str, ratio: &str, outcome: &Outcome, plain: &Outcome) {
    let of_thousand = |count: u64| 1000.0 * count as f64 / outcome.requests as f64;
    println!(
        "| {name} | {what} | {ratio} | {:.4} | {:.3} | {:.2} | {:.0} | {:.0} |",
        outcome.miss_ratio(),
        outcome.misses as f64 / plain.misses.max(1) as f64,
        outcome.items / plain.items.max(1.0),
        of_thousand(outcome.work.compressions),
        of_thousand(outcome.work.decompressions)
    );
}

/// Plays a few requests, to test that everything works.
pub(crate) fn rehearse(ratio: &Ratio) -> Result<()> {
    let lines: String = (0..400).map(|at| format!("{},{}\n", at % 37, 100 + at % 37)).collect();
    let trace = Trace::of_lines(&lines)?;
    let compresses = Compresses::ColdSurvivors;
    let settings = Settings { memory_bytes: 4000, overhead_bytes: 24, compresses, ratio };
    let outcome = replay(&trace, settings);
    anyhow::ensure!(outcome.misses > 0 && outcome.gets == 400, "the replay lost requests");
    Ok(())
}

fn read(folder: &Path, name: &str, scale: u32) -> Result<Trace> {
    Trace::read(&folder.join(name).with_extension("csv.zst"), None, scale)
}

fn replay(trace: &Trace, settings: Settings<'_>) -> Outcome {
    let mut cache = Cache::new(settings, trace.key_count());
    let (mut gets, mut misses, mut items) = (0, 0, 0);
    let count = trace.request_count();
    for (at, (second, request)) in trace.requests().enumerate() {
        let Request { id, operation, item_bytes, ttl_secs } = *request;
        let is_get = operation == Operation::LookAside;
        let is_hit = is_get && cache.get(id, second);
        if is_get {
            gets += 1;
            misses += u64::from(!is_hit);
        }
        if !is_hit {
            let deadline = if ttl_secs == 0 { 0 } else { second + ttl_secs };
            cache.set(id, item_bytes, deadline);
        }
        items += if at >= count / 2 { cache.len() as u64 } else { 0 };
    }
    let items = items as f64 / (count - count / 2) as f64;
    Outcome { gets, misses, requests: count as u64, work: cache.work, items }
}
