//! Replays traces on larderd and memcached.

use std::path::Path;

use anyhow::{Result, bail};
use larder_testkit::{Address, ServerUnderTest, Transport};

use crate::replay::Tool;

/// A trace and its scale. With this scale all its items are at least three times the largest `-m`.
const SCALES: [(&str, u32); 6] = [
    ("adapt_size", 1),
    ("orm-busy-2M", 16),
    ("synth-kv-ttl", 16),
    ("synth-kv-write", 16),
    ("w106-1M", 16),
    ("web07", 32),
];
/// Values of `-m`, in MiB. With a smaller limit, memcached exceeds it, because it allocates a page
/// for every slab class.
const MEMORY_MIB: [u64; 2] = [32, 64];

/// The result of a trace on a server.
struct Outcome {
    miss_ratio: f64,
    refused: f64,
}

/// Prints a row for each trace and `-m`, and the number of rows in which larderd misses less.
pub(crate) fn print(tool: &Tool, traces: &[&str], memcached: &Path, larderd: &Path) -> Result<()> {
    println!("Wire: misses with equal -m; refused: sets that the server refused.");
    println!();
    println!(
        "| trace | scale | -m | memcached | refused | larderd | refused | misses / memcached's |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let (mut rows, mut fewer) = (0, 0);
    for (trace, scale) in SCALES.into_iter().filter(|(trace, _)| traces.contains(trace)) {
        for memory_mib in MEMORY_MIB {
            let memcached = replay_on(memcached, tool, trace, scale, memory_mib)?;
            let larderd = replay_on(larderd, tool, trace, scale, memory_mib)?;
            rows += 1;
            fewer += u32::from(larderd.miss_ratio < memcached.miss_ratio);
            println!(
                "| {trace} | {scale} | {memory_mib} | {:.4} | {} | {:.4} | {} | {:.3} |",
                memcached.miss_ratio,
                memcached.refused,
                larderd.miss_ratio,
                larderd.refused,
                larderd.miss_ratio / memcached.miss_ratio,
            );
        }
    }
    println!();
    println!("fewer misses than memcached: {fewer} of {rows}, target all");
    Ok(())
}

/// Starts a server, replays the trace on it and stops it. Uses one thread to keep the requests in
/// the order of the trace.
fn replay_on(
    binary: &Path,
    tool: &Tool,
    trace: &str,
    scale: u32,
    memory_mib: u64,
) -> Result<Outcome> {
    let args = ["-t", "1", "-m", &memory_mib.to_string()];
    let server = ServerUnderTest::start(binary, Transport::Unix, &args)?;
    let Address::Unix(socket) = server.address() else { bail!("the server has no Unix socket") };
    let address = format!("unix:{}", socket.display());
    let printed = tool.replay(trace, scale, &["--server", &address, "--connections", "8"])?;
    Ok(Outcome {
        miss_ratio: printed.number("miss_ratio")?,
        refused: printed.number("sets_refused")?,
    })
}
