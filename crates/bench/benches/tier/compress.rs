//! Values that are compressed on the disk (`--tier-compress`), and the same values without it.
//!
//! The values are JSON of about 285 bytes: names, addresses, times, numbers, and a random token of
//! 32 digits, which no compression makes shorter than 16 bytes.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use larder_testkit::stream::Stream;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::daemon::Daemon;
use crate::scale::Scale;

/// The number of sets per request, and of keys per get.
const SETS: u64 = 64;
const KEYS: u64 = 16;
/// Each server runs this many times, in alternation.
const ROUNDS: usize = 2;

const NAMES: [&str; 24] = [
    "Anna", "Ben", "Carla", "David", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira",
    "Liam", "Mona", "Nils", "Olga", "Paul", "Quinn", "Rosa", "Samir", "Tara", "Uwe", "Vera",
    "Willem", "Yara",
];
const CITIES: [&str; 12] = [
    "Aarhus", "Berlin", "Dublin", "Essen", "Firenze", "Gent", "Hamburg", "Izmir", "Kyiv", "Lisboa",
    "Madrid", "Oslo",
];
const PAGES: [&str; 8] =
    ["home", "search", "basket", "orders", "account", "help", "reviews", "settings"];
const WORDS: [&str; 16] = [
    "garden", "kitchen", "summer", "winter", "music", "travel", "books", "tools", "paper", "light",
    "water", "stone", "cotton", "silver", "coffee", "bread",
];

/// What a run with a server has measured, per set or per item read from the disk.
struct Row {
    live_bytes: f64,
    written_bytes: f64,
    set_us: f64,
    get_us: f64,
    /// The part of the gets that read the disk.
    from_disk: f64,
}

pub(crate) fn run(scale: &Scale) -> Result<()> {
    let (mut bytes, mut value) = (0, String::new());
    for key in 0..1000 {
        json(key, &mut value);
        bytes += value.len();
    }
    println!(
        "{} items of JSON, {} bytes on average, keys of 20 bytes, larderd -t 1 -m 64, durability \
         async; {SETS} sets per request, {KEYS} keys per get; processor time of larderd",
        scale.items,
        bytes / 1000,
    );
    println!(
        "{:>9} {:>14} {:>15} {:>11} {:>11} {:>10}",
        "compress", "on disk/item", "written/set", "us/set", "us/get", "from disk"
    );
    for _ in 0..ROUNDS {
        for (name, option) in [("off", ""), ("on", " --tier-compress")] {
            let row = measure(scale, option)?;
            println!(
                "{name:>9} {:>12.0} B {:>13.0} B {:>11.2} {:>11.2} {:>9.0}%",
                row.live_bytes,
                row.written_bytes,
                row.set_us,
                row.get_us,
                row.from_disk * 100.0,
            );
        }
    }
    Ok(())
}

fn measure(scale: &Scale, option: &str) -> Result<Row> {
    let folder = scale.folder()?;
    let files = folder.path().join("store");
    let options = format!("-m 64 --tier-mode store --tier-size 4g --durability async{option}");
    let daemon = Daemon::larderd(&scale.larderd, &files, &options)?;
    daemon.wait_until_it_serves()?;
    let mut stream = daemon.server().connect()?;
    let items = scale.items / SETS * SETS;
    let before = cpu_us(&daemon)?;
    set_all(&mut stream, items)?;
    let set_us = (cpu_us(&daemon)? - before) / items as f64;
    let stored = daemon.tier_statistics()?;
    ensure!(stored.of("tier_items")? == items, "{} items", stored.of("tier_items")?);
    let before = cpu_us(&daemon)?;
    let gets = get_some(&mut stream, items, items / 4)?;
    let get_us = (cpu_us(&daemon)? - before) / gets as f64;
    let read = daemon.tier_statistics()?;
    let row = Row {
        live_bytes: stored.of("tier_live_bytes")? as f64 / items as f64,
        written_bytes: stored.of("tier_written_bytes")? as f64 / items as f64,
        set_us,
        get_us,
        from_disk: read.growth(&stored, "tier_reads")? as f64 / gets as f64,
    };
    daemon.kill()?;
    Ok(row)
}

fn set_all(stream: &mut Stream, items: u64) -> Result<()> {
    let (mut request, mut value) = (String::new(), String::new());
    for first in (0..items).step_by(SETS as usize) {
        request.clear();
        for key in first..first + SETS {
            json(key, &mut value);
            let len = value.len();
            write!(request, "set session:{key:012} 0 0 {len} noreply\r\n{value}\r\n")?;
        }
        request.push_str("mn\r\n");
        let answer = stream.ask(request.as_bytes(), b"MN\r\n")?;
        ensure!(answer == b"MN\r\n", "{}", answer.escape_ascii());
    }
    Ok(())
}

/// Gets random items and checks their values. Returns how many.
fn get_some(stream: &mut Stream, items: u64, count: u64) -> Result<u64> {
    let mut rng = SmallRng::seed_from_u64(1);
    let (mut request, mut value) = (String::new(), String::new());
    let rounds = count / KEYS;
    for round in 0..rounds {
        request.clear();
        request.push_str("get");
        let keys: Vec<u64> = (0..KEYS).map(|_| rng.random_range(0..items)).collect();
        keys.iter().try_for_each(|key| write!(request, " session:{key:012}"))?;
        request.push_str("\r\n");
        let answer = stream.ask(request.as_bytes(), b"END\r\n")?;
        if round % 64 == 0 {
            json(keys[0], &mut value);
            let expected =
                format!("VALUE session:{:012} 0 {}\r\n{value}\r\n", keys[0], value.len());
            ensure!(answer.starts_with(expected.as_bytes()), "{}", answer.escape_ascii());
        }
    }
    Ok(rounds * KEYS)
}

/// Writes the value of a key.
fn json(key: u64, into: &mut String) {
    let mut rng = SmallRng::seed_from_u64(key);
    let mut pick = |from: &'static [&'static str]| from[rng.random_range(0..from.len())];
    let (first, last, city, page) = (pick(&NAMES), pick(&NAMES), pick(&CITIES), pick(&PAGES));
    let (one, two) = (pick(&WORDS), pick(&WORDS));
    let token: u128 = rng.random();
    into.clear();
    let _ = write!(
        into,
        "{{\"id\":{key},\"name\":\"{first} {last}\",\"email\":\"{first}.{last}{}@example.com\",\
         \"city\":\"{city}\",\"session\":\"{token:032x}\",\"visits\":{},\"balance\":{}.{:02},\
         \"active\":{},\"last_page\":\"/{page}\",\"last_seen\":\"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z\",\
         \"interests\":[\"{one}\",\"{two}\"]}}",
        rng.random_range(0..100),
        rng.random_range(0..5000),
        rng.random_range(0..10_000),
        rng.random_range(0..100),
        rng.random::<bool>(),
        rng.random_range(1..13),
        rng.random_range(1..29),
        rng.random_range(0..24),
        rng.random_range(0..60),
        rng.random_range(0..60),
    );
}

/// Returns the processor time of all threads of the server, in microseconds.
fn cpu_us(daemon: &Daemon) -> Result<f64> {
    let mut ns = 0.0;
    for task in fs::read_dir(format!("/proc/{}/task", daemon.server().pid()))? {
        let account = fs::read_to_string(task?.path().join("schedstat"))?;
        let first = account.split(' ').next().context("schedstat is empty")?;
        ns += first.parse::<f64>()?;
    }
    Ok(ns / 1000.0)
}
