//! Replays traces on the library, in virtual time.

use anyhow::Result;

use crate::known::KNOWN;
use crate::replay::Tool;
use crate::segcache;

/// The targets: the increase of misses over the better S3-FIFO, on average and on the worst trace.
const MEAN_MAX: f64 = 0.02;
const WORST_MAX: f64 = 0.10;

/// Prints a row for each trace and memory size, and a summary.
pub(crate) fn print(tool: &Tool, traces: &[&str]) -> Result<()> {
    println!(
        "Library: miss ratios with equal bytes, all in; segcache's of its best setting. Beyond: misses / \
         those of the better S3-FIFO - 1."
    );
    println!();
    println!(
        "| trace | scale | memory | LRU | S3-FIFO 1 | S3-FIFO 2 | segcache | its misses / larder's | larder | \
         beyond | live share |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut beyond = Vec::new();
    for known in KNOWN.iter().filter(|known| traces.contains(&known.trace)) {
        let memory = known.memory_bytes.to_string();
        let printed = tool.replay(known.trace, known.scale, &["--memory", &memory])?;
        let miss_ratio = printed.number("miss_ratio")?;
        beyond.push(miss_ratio / known.s3_fifo() - 1.0);
        let path = tool.path(known.trace);
        let segcache = segcache::miss_ratio(&path, known.scale, known.memory_bytes)?;
        let of_segcache = match segcache {
            Some(of_segcache) => format!("{of_segcache:.4} | {:.2}", of_segcache / miss_ratio),
            None => "– | –".to_owned(),
        };
        println!(
            "| {} | {} | {memory} | {:.4} | {:.4} | {:.4} | {of_segcache} | {miss_ratio:.4} | {:+.1} % | \
             {:.2} |",
            known.trace,
            known.scale,
            known.lru,
            known.s3_fifo_1,
            known.s3_fifo_2,
            beyond[beyond.len() - 1] * 100.0,
            printed.number("live_share")?,
        );
    }
    let mean = beyond.iter().sum::<f64>() / beyond.len() as f64;
    let worst = beyond.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    println!();
    print_target("mean", mean, MEAN_MAX);
    print_target("worst", worst, WORST_MAX);
    println!();
    Ok(())
}

fn print_target(name: &str, found: f64, target: f64) {
    let met = if found <= target { "met" } else { "missed" };
    println!("{name}: {:+.1} %, target {:+.0} %: {met}", found * 100.0, target * 100.0);
}
