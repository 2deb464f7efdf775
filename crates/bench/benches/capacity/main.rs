//! Compares the number of items that larderd and memcached hold with equal `-m`, and the memory of
//! their processes.
//!
//! The bench stores items of 20-byte keys and 100-byte values, three times as many as fit. Then it
//! reads all of them, and counts and checks the hits.
//!
//! `LARDERD` and `MEMCACHED` name the servers to measure; `make bench NAME=capacity` sets them.
//! Without `--bench`, which cargo bench adds, one small case only tests that everything works.
//!
//! Files in reading order: [`case`], [`load`].
#![forbid(unsafe_code)]

mod case;
mod load;

use anyhow::{Error, Result};
use larder_bench::{binary, is_measuring};
use larder_testkit::Subject;
use larder_testkit::server::version;

use case::{Case, Held};

fn main() -> Result<()> {
    let larderd = binary("LARDERD").map_err(Error::msg)?;
    let memcached = binary("MEMCACHED").map_err(Error::msg)?;
    println!("{}, {}", version(&memcached)?, version(&larderd)?);
    println!("20-byte keys, {}-byte values, stored until three times full", load::VALUE_BYTES);
    println!(
        "readable: found by get. RSS: memory of the process; beyond: RSS / readable - key - value"
    );
    println!();
    println!(
        "| -m | cas | exptime | server | curr_items | readable | RSS MiB | beyond, bytes | x memcached |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let cases = if is_measuring() { Case::ALL } else { &Case::ALL[..1] };
    for case in cases {
        let memcached = case.measure(&memcached)?;
        let larderd = case.measure(&larderd)?;
        print_row(case, Subject::Memcached, &memcached, &memcached);
        print_row(case, Subject::Larder, &larderd, &memcached);
    }
    Ok(())
}

fn print_row(case: &Case, subject: Subject, held: &Held, memcached: &Held) {
    println!(
        "| {} | {} | {} | {subject} | {} | {} | {:.1} | {:.1} | {:.2} |",
        case.memory_mib,
        if case.cas { "yes" } else { "no" },
        case.exptime,
        held.curr_items,
        held.readable,
        held.rss_bytes as f64 / f64::from(1 << 20),
        held.rss_bytes as f64 / held.readable as f64 - load::ITEM_BYTES as f64,
        held.readable as f64 / memcached.readable as f64,
    );
}
