//! Measures a prototype of compressed values: zstd with a dictionary for each key prefix, applied
//! to the cold items of a cache. The engine has no such feature; decision 0052 has the results.
//!
//! - `values`: compresses values of several kinds, with and without a dictionary. Prints the bytes
//!   that remain, and the time of a compression, which a relocation would pay, and of a
//!   decompression, which a read would pay.
//! - `traces`: replays traces on a simulated cache that compresses some of its items, and prints
//!   the hit ratio and the work. The traces contain sizes and no values, so the simulation takes
//!   the compressed size from a stated ratio, or from the generated records of the first part.
//!
//! `make bench NAME=compressed` needs the traces (`LARDER_TRACES`). An argument of the bench names
//! one part. Without `--bench`, which cargo bench adds, a run only plays a few records and
//! requests.
//!
//! Files in reading order: [`corpus`], [`codec`], [`ratio`], [`cache`], [`replay`].
#![forbid(unsafe_code)]

mod cache;
mod codec;
mod corpus;
mod ratio;
mod replay;

use std::path::{Path, PathBuf};

use anyhow::Result;
use larder_bench::{is_asked_for, is_measuring};

use corpus::Corpus;
use ratio::Ratio;

/// Values of each generated corpus, half of them for training.
const VALUES: usize = 3_000;

/// Values from which the ratios of the traces are computed.
const VALUES_OF_RATIOS: usize = 30_000;

fn main() -> Result<()> {
    if !is_measuring() {
        let records = corpus::records(&[100, 300], 200);
        codec::print(&records)?;
        return replay::rehearse(&Ratio::of_records(&records)?);
    }
    let folder = std::env::var_os("LARDER_TRACES").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from("../../../shared/traces"));
    let sizes = corpus::sizes(&folder)?;
    if is_asked_for("values") {
        print_values(&sizes)?;
    }
    if is_asked_for("traces") {
        print_traces(&folder, &corpus::records(&sizes, VALUES_OF_RATIOS))?;
    }
    Ok(())
}

fn print_values(sizes: &[usize]) -> Result<()> {
    codec::print_head();
    for corpus in [
        corpus::packages()?,
        corpus::locked_packages()?,
        corpus::records(&[150], VALUES),
        corpus::records(&[500], VALUES),
        corpus::records(&[2000], VALUES),
        corpus::records(sizes, VALUES),
        corpus::random(&[500], VALUES),
    ] {
        codec::print(&corpus)?;
    }
    Ok(())
}

fn print_traces(folder: &Path, records: &Corpus) -> Result<()> {
    let as_records = Ratio::of_records(records)?;
    println!("\nratio of the records by size: {as_records}\n");
    replay::check(folder)?;
    replay::print(folder, &as_records)
}
