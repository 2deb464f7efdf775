//! Simulates quotas by key prefix: how much a tenant that floods a cache costs the other tenants,
//! and what a quota for it gives them back.
//!
//! The traces have no tenants, so a scenario merges two of them: after each request of the
//! *others*, the *flooder* sends one, under another prefix. The flooder's trace begins again with
//! new keys when it ends. All requests run on the real engine, in virtual time. The quota is
//! enforced outside of it, by two mechanisms:
//!
//! - `scan`: one cache. When the flooder has more bytes than its quota, a hand passes the records
//!   in the order in which they were stored, and deletes the flooder's. An item that was read since
//!   the hand last passed it stays for another turn, as in the engine's main pool.
//! - `stream`: two caches that share the memory. The flooder has append streams with segments of
//!   the size of its quota, and the others have the rest.
//!
//! `make bench NAME=quotas` needs the traces (`LARDER_TRACES`). docs/decisions/0042 has the
//! results. Without `--bench`, which cargo bench adds, a run only plays a few generated requests.
//!
//! Files in reading order: [`scenario`], [`tenants`], [`ledger`], [`outcome`].
#![forbid(unsafe_code)]

mod ledger;
mod outcome;
mod scenario;
mod tenants;

use std::path::PathBuf;

use anyhow::Result;
use larder_loadgen::trace::Trace;

use outcome::Outcome;
use scenario::Scenario;
use tenants::Mechanism;

fn main() -> Result<()> {
    if !larder_bench::is_measuring() {
        let trace = Trace::of_lines("0,100\n1,200\n2,300\n0\n1\n")?;
        let scenario = Scenario { others: &trace, flooder: Some(&trace) };
        for mechanism in mechanisms() {
            Outcome::of(&scenario, MEMORY_BYTES, mechanism)?;
        }
        return Ok(());
    }
    let folder = std::env::var_os("LARDER_TRACES").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("../../../shared/traces"));
    let read =
        |name: &str, scale| Trace::read(&folder.join(name).with_extension("csv.zst"), None, scale);
    check(&read("orm-busy-2M", 16)?)?;
    for (name, others, flooder) in [
        ("orm-busy-2M, a scan", read("orm-busy-2M", 16)?, scenario::scan()?),
        ("w106-1M, synth-kv-write", read("w106-1M", 16)?, read("synth-kv-write", 16)?),
        ("synth-kv-ttl, adapt_size", read("synth-kv-ttl", 16)?, read("adapt_size", 1)?),
    ] {
        let alone = Scenario { others: &others, flooder: None };
        outcome::print_head(name, MEMORY_BYTES);
        Outcome::of(&alone, MEMORY_BYTES, Mechanism::None)?.print("no flooder", None);
        let scenario = Scenario { others: &others, flooder: Some(&flooder) };
        for mechanism in mechanisms() {
            let outcome = Outcome::of(&scenario, MEMORY_BYTES, mechanism)?;
            outcome.print(mechanism.name(), mechanism.quota_bytes());
        }
        println!();
    }
    Ok(())
}

/// Prints the miss ratio of a trace without a flooder, to compare it with `larder replay` and with
/// the table of the traces.
fn check(trace: &Trace) -> Result<()> {
    let scenario = Scenario { others: trace, flooder: None };
    let outcome = Outcome::of(&scenario, CHECKED_BYTES, Mechanism::None)?;
    println!(
        "check: orm-busy-2M, scale 16, {CHECKED_BYTES} bytes: miss ratio {:.4}",
        1.0 - outcome.others.hit_ratio()
    );
    println!();
    Ok(())
}

fn mechanisms() -> [Mechanism; 5] {
    let [small, large] = QUOTAS_BYTES;
    [
        Mechanism::None,
        Mechanism::Scan { quota_bytes: large },
        Mechanism::Stream { quota_bytes: large },
        Mechanism::Scan { quota_bytes: small },
        Mechanism::Stream { quota_bytes: small },
    ]
}

const MEMORY_BYTES: u64 = 64 << 20;
/// A sixteenth and a quarter of the memory.
const QUOTAS_BYTES: [u64; 2] = [4 << 20, 16 << 20];
/// The larger budget of the trace in its table of known miss ratios.
const CHECKED_BYTES: u64 = 28_629_598;
