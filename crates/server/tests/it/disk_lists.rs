//! Lists of keys on a server with a directory on disk. They must contain the items that are only on
//! disk, and each key once, while other clients change items.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::http;
use larder_testkit::{Address, ServerUnderTest, Stream};
use tempfile::TempDir;

use crate::binary;

const ITEMS: u32 = 15_000;

fn value(number: u32) -> String {
    format!("{number:05}").repeat(1 + number as usize * 13 % 700)
}

struct Scene {
    server: ServerUnderTest,
    admin: Address,
    place: TempDir,
}

/// Starts a server and stores four times as much data as fits into its memory.
fn start(mode: &str, io: &str) -> Result<Scene> {
    let place = tempfile::Builder::new().prefix("larder-lists-").tempdir()?;
    let path = place.path().join("items").display().to_string();
    let args = ["-m", "8", "--tier-path", &path, "--tier-size", "256m", "--tier-mode", mode];
    let args: Vec<&str> = args.into_iter().chain(["--io", io, "-t", "2"]).collect();
    let (server, admin) = http::start(&binary(), &args)?;
    let mut stream = server.connect()?;
    for number in 0..ITEMS {
        set(&mut stream, &format!("k{number}"), number)?;
        if number % 128 == 0 {
            stream.wait_for_disk(256 << 10)?;
        }
    }
    Ok(Scene { server, admin, place })
}

fn set(stream: &mut Stream, key: &str, number: u32) -> Result<()> {
    let value = value(number);
    let request = format!("set {key} {number} 0 {}\r\n{value}\r\n", value.len());
    let answer = stream.ask(request.as_bytes(), b"\r\n")?;
    ensure!(answer == b"STORED\r\n", "{key}: {}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Requests a list. Returns its lines by key.
fn list(stream: &mut Stream, command: &str, end: &str) -> Result<BTreeMap<String, String>> {
    let answer = stream.ask(format!("{command}\r\n").as_bytes(), end.as_bytes())?;
    let answer = String::from_utf8(answer)?;
    let mut lines = BTreeMap::new();
    for line in answer.lines().filter(|line| *line != "OK" && *line != end.trim_end()) {
        let key = line.split(' ').find_map(|word| word.strip_prefix("key="));
        let key = key.or_else(|| line.split(' ').nth(1)).context("a line without a key")?;
        let earlier = lines.insert(key.to_owned(), line.to_owned());
        ensure!(earlier.is_none(), "{key} is listed twice");
    }
    Ok(lines)
}

/// Returns the keys that exist. Nothing stores them again: a cache may drop some, but none comes
/// back.
fn present(stream: &mut Stream) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for number in 0..ITEMS {
        if stream.ask(format!("get k{number}\r\n").as_bytes(), b"END\r\n")? != b"END\r\n" {
            found.push(number);
        }
    }
    Ok(found)
}

/// Changes other items, and reads the items that the lists must contain.
fn work(server: &ServerUnderTest, is_over: &AtomicBool) -> Result<()> {
    let mut stream = server.connect()?;
    for turn in (0..).take_while(|_| !is_over.load(Relaxed)) {
        set(&mut stream, &format!("busy{}", turn % 50), turn % ITEMS)?;
        let get = format!("get k{}\r\n", turn.wrapping_mul(769) % ITEMS);
        stream.ask(get.as_bytes(), b"END\r\n")?;
        let delete = format!("delete busy{}\r\n", (turn + 25) % 50);
        stream.ask(delete.as_bytes(), b"\r\n")?;
    }
    Ok(())
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn lists_beside_changes(mode: &str, io: &str) -> Result<()> {
    let scene = start(mode, io)?;
    let mut stream = scene.server.connect()?;
    let is_over = AtomicBool::new(false);
    let lists = thread::scope(|scope| -> Result<_> {
        let ends = Ends(&is_over);
        let working = scope.spawn(|| work(&scene.server, &is_over));
        let mut lists = Vec::new();
        for _ in 0..3 {
            lists.push(list(&mut stream, "lru_crawler metadump all", "END\r\n")?);
            lists.push(list(&mut stream, "lru_crawler mgdump all", "EN\r\n")?);
        }
        drop(ends);
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(lists)
    })?;
    let stats = String::from_utf8(stream.ask(b"stats\r\n", b"END\r\n")?)?;
    let in_memory = stats.lines().find_map(|line| line.strip_prefix("STAT curr_items "));
    let in_memory: u32 = in_memory.context("curr_items")?.parse()?;
    let present = present(&mut stream)?;
    let least = if mode == "store" { ITEMS } else { ITEMS / 2 };
    ensure!(present.len() as u32 >= least, "{} items are there", present.len());
    ensure!(in_memory < ITEMS / 2, "{in_memory} items are in memory: the disk is not needed");
    for (lines, number) in lists.iter().flat_map(|lines| present.iter().map(move |n| (lines, n))) {
        let line = lines.get(&format!("k{number}")).with_context(|| format!("k{number}"))?;
        ensure!(!line.contains("flags=") || line.contains(&format!(" flags={number} ")), "{line}");
    }
    Ok(())
}

#[test]
fn lists_of_a_store_have_every_key_once() -> Result<()> {
    for io in ["epoll", "auto"] {
        lists_beside_changes("store", io)?;
    }
    Ok(())
}

#[test]
fn lists_of_a_cache_have_every_key_once() -> Result<()> {
    for io in ["epoll", "auto"] {
        lists_beside_changes("cache", io)?;
    }
    Ok(())
}

/// Returns the keys of all pages.
fn pages(admin: &Address, query: &str) -> Result<Vec<String>> {
    let (mut keys, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = http::get(admin, &format!("/api/v1/keys?{query}{cursor}"), &[])?;
        ensure!(page.status == 200, "{}", page.body);
        let page: serde_json::Value = serde_json::from_str(&page.body)?;
        let rows = page["keys"].as_array().context("rows")?;
        keys.extend(rows.iter().filter_map(|row| Some(row["key"].as_str()?.to_owned())));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(keys),
        }
    }
}

/// Waits until no item has left memory for half a second. If an item moves from memory to the disk
/// between two pages, the pages may list it twice.
fn settle(stream: &mut Stream) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut before, mut since) = (Vec::new(), Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        ensure!(Instant::now() < deadline, "items still leave memory");
        let stats = stream.ask(b"stats\r\n", b"END\r\n")?;
        let is_of_items = |line: &&[u8]| line.starts_with(b"STAT curr_items ");
        let items = stats.split(|byte| *byte == b'\n').find(is_of_items).context("curr_items")?;
        if items != before {
            (before, since) = (items.to_vec(), Instant::now());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn pages_of_the_http_api_go_on_with_the_disk() -> Result<()> {
    for mode in ["store", "cache"] {
        let scene = start(mode, "auto")?;
        let mut stream = scene.server.connect()?;
        let present = present(&mut stream)?;
        settle(&mut stream)?;
        for (query, prefix) in [("limit=777", "k"), ("prefix=k149&limit=3", "k149")] {
            let mut keys = pages(&scene.admin, query)?;
            keys.sort_unstable();
            let mut expected: Vec<_> = present.iter().map(|number| format!("k{number}")).collect();
            expected.retain(|key| key.starts_with(prefix));
            expected.sort_unstable();
            ensure!(keys == expected, "{mode}: {} of {} rows", keys.len(), expected.len());
        }
    }
    Ok(())
}

#[test]
fn cachedump_shows_items_that_only_the_disk_has() -> Result<()> {
    let scene = start("store", "auto")?;
    let mut stream = scene.server.connect()?;
    let metadump = list(&mut stream, "lru_crawler metadump all", "END\r\n")?;
    let class = metadump["k700"].split(" cls=").nth(1).and_then(|rest| rest.split(' ').next());
    let class = class.context("a class")?;
    let is_of_class = |line: &&String| line.contains(&format!(" cls={class} "));
    let expected = metadump.values().filter(is_of_class).count();
    let command = format!("stats cachedump {class} 0\r\n");
    let dumped = String::from_utf8(stream.ask(command.as_bytes(), b"END\r\n")?)?;
    let shown = dumped.lines().filter(|line| line.starts_with("ITEM ")).count();
    ensure!(shown == expected && shown > 100, "{shown} of {expected} items");
    Ok(())
}

#[test]
fn a_removal_by_prefix_takes_what_only_the_disk_has() -> Result<()> {
    ["store", "cache"].into_iter().try_for_each(remove_by_prefix)
}

fn remove_by_prefix(mode: &str) -> Result<()> {
    let scene = start(mode, "auto")?;
    let mut stream = scene.server.connect()?;
    // A cache drops items while its disk does not keep up.
    let before = list(&mut stream, "lru_crawler metadump all", "END\r\n")?;
    let with_prefix = before.keys().filter(|key| key.starts_with("k1")).count();
    ensure!(mode == "cache" || with_prefix == 6111, "{with_prefix} of 6111 items");
    ensure!(stream.ask(b"delete_prefix k1\r\n", b"\r\n")? == b"OK 1\r\n", "the removal begins");
    set(&mut stream, "k1777", 7)?;
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let path = "/api/v1/delete-prefix/1";
        let shown: serde_json::Value =
            serde_json::from_str(&http::get(&scene.admin, path, &[])?.body)?;
        match shown["state"].as_str() {
            Some("done") => {
                // The item may have existed before it was stored again.
                let removed = shown["removed"].as_u64().context("a number")? as usize;
                let others = with_prefix.checked_sub(removed).context("more than there were")?;
                ensure!(others <= 1, "{mode}: of {with_prefix}: {shown}");
                break;
            }
            Some("running") => ensure!(Instant::now() < until, "{mode}: {shown}"),
            _ => bail!("{mode}: {shown}"),
        }
    }
    let left = list(&mut stream, "lru_crawler metadump all", "END\r\n")?;
    let begins: Vec<_> = left.keys().filter(|key| key.starts_with("k1")).collect();
    let others = before.len() - with_prefix;
    ensure!(begins == ["k1777"] && left.len() == others + 1, "{mode}: {begins:?}");
    Ok(())
}

#[test]
fn a_list_that_lacks_damaged_items_says_so_at_its_end() -> Result<()> {
    let scene = start("store", "auto")?;
    let mut stream = scene.server.connect()?;
    // Reads of changes that are not on the disk yet come from memory.
    stream.wait_for_disk(0)?;
    let log = OpenOptions::new().write(true).open(scene.place.path().join("items/log"))?;
    log.write_all_at(&[0xA5; 20_000], 6 << 20)?;
    let answer = stream.ask(b"lru_crawler metadump all\r\n", b" items\r\n")?;
    let answer = String::from_utf8(answer)?;
    let end = answer.lines().last().context("a last line")?;
    let lost = end.strip_prefix("SERVER_ERROR the disk did not return ").context("its end")?;
    let lost: usize = lost.strip_suffix(" items").context("its end")?.parse()?;
    let listed = answer.lines().filter(|line| line.starts_with("key=")).count();
    ensure!(lost > 3 && listed + lost == ITEMS as usize, "{listed} items are listed, {lost} lost");
    let page = http::get(&scene.admin, "/api/v1/keys?limit=1000", &[])?;
    ensure!(page.status == 200, "{}", page.body);
    Ok(())
}
