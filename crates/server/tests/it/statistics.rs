//! Statistics as dashboards read them: numbers parse, agree with each other, and have memcached's
//! names and order.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_testkit::server::memcached;
use larder_testkit::{ServerUnderTest, Stream, Transport};

use crate::binary;

type Lines = Vec<(String, String)>;

fn start(binary: &Path, args: &[&str]) -> Result<(ServerUnderTest, Stream)> {
    let server = ServerUnderTest::start(binary, Transport::Unix, args)?;
    let stream = server.connect()?;
    Ok((server, stream))
}

fn start_larderd(args: &[&str]) -> Result<(ServerUnderTest, Stream)> {
    start(&binary(), args)
}

fn ask(stream: &mut Stream, command: &str) -> Result<Lines> {
    let answer = stream.ask(format!("{command}\r\n").as_bytes(), b"END\r\n")?;
    let answer = String::from_utf8(answer)?;
    let stats = answer.lines().filter_map(|line| line.strip_prefix("STAT "));
    stats
        .map(|stat| {
            let (name, value) = stat.split_once(' ').context("a name without a value")?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect()
}

fn number(lines: &Lines, name: &str) -> Result<u64> {
    let (_, value) =
        lines.iter().find(|(found, _)| found == name).with_context(|| format!("no {name}"))?;
    value.parse().with_context(|| format!("{name} is {value}"))
}

/// Returns the sum over all classes.
fn sum(lines: &Lines, name: &str) -> Result<u64> {
    let of_class = lines.iter().filter(|(found, _)| found.rsplit(':').next() == Some(name));
    let values = of_class.map(|(found, value)| value.parse::<u64>().context(found.clone()));
    values.sum()
}

/// Stores values of many sizes, some with a time to live, and reads some.
fn fill(stream: &mut Stream, items: usize) -> Result<()> {
    for item in 0..items {
        let value = "x".repeat([1, 40, 300, 2000, 9000][item % 5]);
        let (ttl, bytes) = (item % 2 * 1000, value.len());
        let set = format!("set key{item} 0 {ttl} {bytes}\r\n{value}\r\n");
        stream.ask(set.as_bytes(), b"STORED\r\n")?;
        stream.ask(format!("get key{}\r\n", item / 2).as_bytes(), b"END\r\n")?;
    }
    Ok(())
}

#[test]
fn an_exporter_finds_what_it_needs_and_all_of_it_is_numbers() -> Result<()> {
    let (_server, mut stream) = start_larderd(&[])?;
    fill(&mut stream, 100)?;
    let general = ask(&mut stream, "stats")?;
    for name in ["cmd_set", "cas_misses", "cas_hits", "cas_badval", "curr_items", "bytes"] {
        number(&general, name)?;
    }
    let words = [
        "version",
        "libevent",
        "slab_reassign_last_busy_status",
        "larder_version",
        "larder_commit",
    ];
    for (name, value) in general.iter().filter(|(name, _)| !words.contains(&&name[..])) {
        let parses = match name.starts_with("rusage_") {
            true => value.split_once('.').is_some_and(|(_, micros)| micros.len() == 6),
            false => value.parse::<u64>().is_ok(),
        };
        ensure!(parses, "{name} is {value}");
        ensure!(value.parse::<f64>().is_ok(), "{name} is {value}");
    }
    for command in ["stats items", "stats slabs", "stats larder"] {
        let numbers = ask(&mut stream, command)?;
        for (name, value) in numbers.iter().filter(|(name, _)| !words.contains(&&name[..])) {
            ensure!(value.parse::<u64>().is_ok(), "{command}: {name} is {value}");
        }
    }
    Ok(())
}

#[test]
fn classes_add_up_to_the_whole() -> Result<()> {
    let (_server, mut stream) = start_larderd(&["-m", "2", "-I", "64k"])?;
    fill(&mut stream, 4000)?;
    stream.ask(b"delete key3999\r\n", b"DELETED\r\n")?;
    // A thread reclaims memory ahead of need, so all compared numbers must be from the same moment.
    let (general, items, slabs) = loop {
        let asked = ["stats", "stats items", "stats slabs", "stats"].map(|it| ask(&mut stream, it));
        let [before, items, slabs, after] = asked;
        let (before, items, slabs, after) = (before?, items?, slabs?, after?);
        let count = number(&after, "curr_items")?;
        if number(&before, "curr_items")? == count && sum(&items, "number")? == count {
            break (after, items, slabs);
        }
        // One census serves all requests of a second.
        std::thread::sleep(Duration::from_millis(1100));
    };
    ensure!(number(&general, "evictions")? > 1000, "the cache should be full");
    for (whole, parts, name) in [
        ("evictions", &items, "evicted"),
        ("evicted_unfetched", &items, "evicted_unfetched"),
        ("reclaimed", &items, "reclaimed"),
        ("crawler_reclaimed", &items, "crawler_reclaimed"),
        ("curr_items", &items, "number"),
        ("get_hits", &slabs, "get_hits"),
        ("cmd_set", &slabs, "cmd_set"),
        ("delete_hits", &slabs, "delete_hits"),
    ] {
        let (whole, parts) = (number(&general, whole)?, sum(parts, name)?);
        ensure!(whole == parts, "{name}: {whole} in all, {parts} by class");
    }
    ensure!(sum(&items, "evicted_nonzero")? < sum(&items, "evicted")?);
    let queues = ["number_hot", "number_warm", "number_cold"].map(|name| sum(&items, name));
    let queues = queues.into_iter().sum::<Result<u64>>()?;
    ensure!(queues == sum(&items, "number")?, "{queues} in the queues");
    let (used, free) = (sum(&slabs, "used_chunks")?, sum(&slabs, "free_chunks")?);
    ensure!(used + free == sum(&slabs, "total_chunks")?);
    ensure!(used == sum(&items, "number")?);
    ensure!(number(&slabs, "total_malloced")? <= 2 << 20);
    Ok(())
}

#[test]
fn many_items_are_projected_from_some() -> Result<()> {
    let (_server, mut stream) = start_larderd(&["-m", "64"])?;
    let mut sets = Vec::new();
    for item in 0..60_000 {
        let value = if item % 3 == 0 { "x".repeat(100) } else { "x".to_owned() };
        let set = format!("set {item} 0 0 {} noreply\r\n{value}\r\n", value.len());
        sets.extend_from_slice(set.as_bytes());
    }
    sets.extend_from_slice(b"mn\r\n");
    stream.ask(&sets, b"MN\r\n")?;
    let items = ask(&mut stream, "stats items")?;
    let (small, large) = (number(&items, "items:1:number")?, number(&items, "items:4:number")?);
    ensure!((58_000..62_000).contains(&(small + large)), "{small} and {large}");
    ensure!((18_000..22_000).contains(&large), "{large} of 20,000");
    let slabs = ask(&mut stream, "stats slabs")?;
    ensure!(number(&slabs, "1:used_chunks")? <= number(&slabs, "1:total_chunks")?);
    Ok(())
}

#[test]
fn names_and_their_order_are_memcacheds() -> Result<()> {
    // The known differences between 1.6.18 and Larder.
    let known = ["drop_privileges", "client_flags_size", "larder_version", "larder_commit"];
    let (_memcached, mut memcached) = start(&memcached()?, &[])?;
    let (_larderd, mut larderd) = start_larderd(&["-o", "answers_as=1.6.18"])?;
    fill(&mut memcached, 100)?;
    fill(&mut larderd, 100)?;
    for command in ["stats", "stats items", "stats slabs", "stats settings"] {
        let names = |stream: &mut Stream| -> Result<Vec<String>> {
            let names = ask(stream, command)?.into_iter().map(|(name, _)| name);
            // With a disk tier (`LARDER_TIER`) there are rows about it, which extstore.rs compares.
            let is_of_disk = |name: &str| {
                name.starts_with("tier_") || name == "durability" || name.contains("extstore")
            };
            let is_compared = |name: &str| !known.contains(&name) && !is_of_disk(name);
            Ok(names.filter(|name| is_compared(name)).collect())
        };
        let (theirs, ours) = (names(&mut memcached)?, names(&mut larderd)?);
        ensure!(theirs == ours, "{command}: {theirs:?}, larderd {ours:?}");
    }
    Ok(())
}
