//! memcached's names of extstore, on a server whose disk stores evicted items. Compares the rows
//! with those of a real memcached with extstore, and checks the numbers.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::memcached;
use larder_testkit::{ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

use crate::binary;

/// The rows of memcached without a counterpart. docs/start/extstore.md lists the reasons.
const LEFT_OUT: [&str; 7] = [
    "get_extstore",
    "get_aborted_extstore",
    "get_oom_extstore",
    "recache_from_extstore",
    "miss_from_extstore",
    "extstore_memory_pressure",
    "extstore_io_queue",
];

/// A folder for the file of a server.
struct Place(TempDir);

impl Place {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("larder-extstore-").tempdir()?))
    }

    /// Starts larderd with a disk of this size.
    fn larderd(&self, size: &str, words: &str) -> Result<(ServerUnderTest, Stream)> {
        let binary = binary();
        self.start(&binary, size, words, &["-m", "4"])
    }

    fn start(
        &self,
        binary: &std::path::Path,
        size: &str,
        words: &str,
        args: &[&str],
    ) -> Result<(ServerUnderTest, Stream)> {
        let words = format!("ext_path={}:{size}{words}", self.0.path().join("file").display());
        let server =
            ServerUnderTest::start(binary, Transport::Tcp, &[args, &["-o", &words]].concat())?;
        let mut stream = server.connect()?;
        // A request for an item waits until the server has opened its disk.
        stream.ask(b"get none\r\n", b"END\r\n")?;
        Ok((server, stream))
    }
}

fn rows(stream: &mut Stream, command: &str) -> Result<Vec<(String, String)>> {
    let answer = stream.ask(format!("{command}\r\n").as_bytes(), b"END\r\n")?;
    let answer = String::from_utf8(answer)?;
    let rows = answer.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    Ok(rows.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn names(stream: &mut Stream, command: &str) -> Result<Vec<String>> {
    Ok(rows(stream, command)?.into_iter().map(|(name, _)| name).collect())
}

/// Returns a row of `stats` or `stats larder`.
fn number(stream: &mut Stream, name: &str) -> Result<u64> {
    let section = if name.starts_with("tier_") { "stats larder" } else { "stats" };
    let rows = rows(stream, section)?;
    let row = rows.iter().find(|(found, _)| found == name);
    Ok(row.with_context(|| format!("{section} has no {name}"))?.1.parse()?)
}

/// Stores items, and waits until the disk contains all evicted ones.
fn store(stream: &mut Stream, keys: std::ops::Range<u32>, value_bytes: usize) -> Result<()> {
    let value = "v".repeat(value_bytes);
    for key in keys {
        let set = format!("set {value_bytes}-{key} 0 0 {value_bytes}\r\n{value}\r\n");
        ensure!(stream.ask(set.as_bytes(), b"\r\n")? == b"STORED\r\n", "{key} is not stored");
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while number(stream, "tier_dirty_bytes")? > 0 {
        ensure!(Instant::now() < deadline, "the disk has not got everything after 10 s");
    }
    Ok(())
}

#[test]
fn rows_are_memcacheds_in_its_order() -> Result<()> {
    let theirs = Place::new()?;
    let theirs = theirs.start(&memcached()?, "128m", "", &[])?;
    let (_memcached, mut theirs) = theirs;
    let version = theirs.ask(b"version\r\n", b"\r\n")?;
    let answers_as = if version.starts_with(b"VERSION 1.6.18") { ",answers_as=1.6.18" } else { "" };
    let ours = Place::new()?;
    let (_larderd, mut ours) = ours.larderd("128m", answers_as)?;
    let expected: Vec<_> = names(&mut theirs, "stats")?
        .into_iter()
        .filter(|name| !LEFT_OUT.contains(&name.as_str()))
        .collect();
    let shown: Vec<_> = names(&mut ours, "stats")?
        .into_iter()
        .filter(|name| !name.starts_with("larder_"))
        .collect();
    ensure!(shown == expected, "ours: {shown:?}\ntheirs: {expected:?}");
    let is_ext = |name: &String| name.starts_with("ext_");
    let settings = |stream: &mut Stream| -> Result<Vec<_>> {
        Ok(names(stream, "stats settings")?.into_iter().filter(is_ext).collect())
    };
    ensure!(settings(&mut ours)? == settings(&mut theirs)?, "the settings differ");
    Ok(())
}

#[test]
fn a_store_and_a_server_without_a_disk_have_no_such_rows() -> Result<()> {
    let place = Place::new()?;
    let path = place.0.path().join("items").display().to_string();
    let tier = ["--tier-path", &path, "--tier-size", "64m", "--tier-mode", "store"];
    for args in [&tier[..], &[]] {
        let binary = binary();
        let server = ServerUnderTest::start(&binary, Transport::Tcp, args)?;
        let mut stream = server.connect()?;
        stream.ask(b"get none\r\n", b"END\r\n")?;
        let names = names(&mut stream, "stats")?;
        ensure!(names.len() > 80, "{names:?}");
        ensure!(!names.iter().any(|name| name.contains("extstore")), "{args:?}: {names:?}");
    }
    Ok(())
}

/// Waits until the disk neither writes nor drops items any more, because the rows of one response
/// are read at different moments.
fn settle(stream: &mut Stream) -> Result<()> {
    let mut counts = || -> Result<_> {
        let names = ["extstore_objects_written", "extstore_objects_evicted"];
        Ok([number(stream, names[0])?, number(stream, names[1])?])
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut before = counts()?;
    loop {
        sleep(Duration::from_millis(200));
        let now = counts()?;
        if now == before {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "items still leave memory");
        before = now;
    }
}

#[test]
fn numbers_are_those_of_the_log() -> Result<()> {
    let place = Place::new()?;
    let (_server, mut stream) = place.larderd("32m", "")?;
    // Each key is stored once. Twice as many as fit on the disk are stored, slowly enough for the
    // disk.
    for round in 0..60 {
        store(&mut stream, round * 1000..(round + 1) * 1000, 1000)?;
    }
    settle(&mut stream)?;
    let mut of = |name: &str| number(&mut stream, name);
    let (written, evicted) = (of("extstore_objects_written")?, of("extstore_objects_evicted")?);
    ensure!(evicted > 10_000, "only {evicted} of {written} items went with old segments");
    let used = of("extstore_objects_used")?;
    // Keys that share a tag in the index are removed together, and no row counts them.
    let rest = (written - evicted).abs_diff(used);
    ensure!(rest < 20, "{written} written, {evicted} gone, {used} used");
    let bytes = evicted * (32 + "1000-10000".len() as u64 + 1000);
    let evicted_bytes = of("extstore_bytes_evicted")?;
    ensure!(evicted_bytes.abs_diff(bytes) < bytes / 50, "{evicted_bytes} for {bytes}");
    let (free, pages) = (of("extstore_pages_free")?, of("extstore_pages_used")?);
    ensure!((free + pages) * (4 << 20) == of("extstore_limit_maxbytes")?, "{free} and {pages}");
    ensure!(of("extstore_limit_maxbytes")? == 32 << 20, "the limit is that of ext_path");
    let (begun, gone) = (of("extstore_page_allocs")?, of("extstore_page_reclaims")?);
    // One page may be on its way from used to free.
    ensure!((begun - gone).abs_diff(pages) <= 1, "{begun} begun, {gone} reclaimed, {pages} in use");
    ensure!(of("extstore_page_evictions")? == gone, "all of them had items");
    let (live, hollow) = (of("extstore_bytes_used")?, of("extstore_bytes_fragmented")?);
    ensure!(live + hollow == pages * (4 << 20), "{live} and {hollow} bytes in {pages} segments");
    ensure!(of("extstore_bytes_written")? > written * 1000, "values are written");
    ensure!(of("extstore_objects_read")? == 0 && of("extstore_bytes_read")? == 0);

    // The oldest key on the disk is not the newest in memory.
    let mut hits = 0;
    for key in 40_000..50_000 {
        let before = number(&mut stream, "extstore_objects_read")?;
        let answer = stream.ask(format!("get 1000-{key}\r\n").as_bytes(), b"END\r\n")?;
        let read = number(&mut stream, "extstore_objects_read")? - before;
        ensure!(read <= 1, "{read} reads for a get");
        hits += u64::from(read == 1 && answer.starts_with(b"VALUE"));
        if hits == 20 {
            break;
        }
    }
    ensure!(hits == 20, "only {hits} items came from the disk");
    let read = number(&mut stream, "extstore_bytes_read")?;
    ensure!(read >= 20 * 4096 && read.is_multiple_of(4096), "{read} bytes for 20 items");
    Ok(())
}

#[test]
fn items_below_ext_item_size_do_not_go_to_the_disk() -> Result<()> {
    let place = Place::new()?;
    let (_server, mut stream) = place.larderd("64m", ",ext_item_size=600")?;
    for round in 0..5 {
        store(&mut stream, round * 1000..(round + 1) * 1000, 500)?;
        store(&mut stream, round * 1000..(round + 1) * 1000, 1000)?;
    }
    let mut found = BTreeSet::new();
    for (value_bytes, key) in [500, 1000].iter().flat_map(|bytes| (0..500).map(move |n| (bytes, n)))
    {
        let before = number(&mut stream, "extstore_objects_read")?;
        let answer = stream.ask(format!("mg {value_bytes}-{key} s\r\n").as_bytes(), b"\r\n")?;
        if answer.starts_with(b"HD") && number(&mut stream, "extstore_objects_read")? > before {
            found.insert(value_bytes);
        }
    }
    ensure!(found == BTreeSet::from([&1000]), "on the disk are items of {found:?} bytes");
    Ok(())
}
