//! Items over HTTP that are large, slow or interrupted, and many requests at the same time.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::http::{exchange, parse};
use larder_testkit::{Address, Stream};

use crate::item_scene::{Cache, MIB, chunked, head, pattern, request};

#[test]
fn a_large_value_streams_in_little_memory() -> Result<()> {
    let cache = Cache::start(&["-I", "128m", "-m", "1024"])?;
    cache.put("warm", &[], &pattern(MIB))?;
    cache.get("warm")?;
    let before = cache.peak_bytes()?;
    let value = pattern(64 * MIB);
    assert_eq!(cache.put("large?ttl=1000", &["X-Larder-Flags: 5"], &value)?.status, 201);
    let stored = cache.peak_bytes()? - before;
    // 24 bytes for each piece of 128 KiB, and segments that are not full.
    ensure!(stored <= (64 + 4 + 16) * MIB, "a value of 64 MiB takes {stored} bytes");
    let before = cache.peak_bytes()?;
    let found = cache.get("large")?;
    ensure!(found.bytes == value, "other bytes: {} of {}", found.bytes.len(), value.len());
    assert_eq!(found.headers["x-larder-flags"], "5");
    // Readers that read little at a time. The unread rest stays in the cache.
    let mut readers = Vec::new();
    for _ in 0..100 {
        let mut reader = Stream::connect(&cache.admin)?;
        reader.write_all(&request("GET", "large", &[], b""))?;
        readers.push(reader);
    }
    let mut piece = vec![0; 64 * 1024];
    for _ in 0..3 {
        for reader in &mut readers {
            reader.read_exact(&mut piece)?;
        }
    }
    let grown = cache.peak_bytes()? - before;
    ensure!(grown <= 16 * MIB, "readers of a large value take {grown} bytes of the process");
    assert_eq!(cache.ask("DELETE", "large", &[], b"")?.status, 200);
    // A reader that has begun receives the value that existed then.
    let mut last = readers.pop().context("a reader")?;
    let mut rest = Vec::new();
    last.set_timeout(Duration::from_secs(20))?;
    last.read_to_end(&mut rest)?;
    ensure!(rest.ends_with(&value[32 * MIB..]), "a removal changes a value that is being read");
    let pinned = cache.stat("stats larder", "segments_pinned")?;
    ensure!(pinned > 0, "the readers pin nothing");
    drop((last, readers));
    wait_until_unpinned(&cache, Duration::from_secs(30))
}

fn wait_until_unpinned(cache: &Cache, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let pinned = cache.stat("stats larder", "segments_pinned")?;
        if pinned == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{pinned} segments stay pinned after {patience:?}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_store_that_is_interrupted_changes_nothing() -> Result<()> {
    let cache = Cache::start(&[])?;
    for (key, bytes) in [("small", 1_000), ("large", 500_000)] {
        cache.put(key, &[], b"old")?;
        let whole = request("PUT", key, &[], &pattern(bytes));
        let chunks = chunked(key, &[&pattern(bytes / 2), &pattern(bytes / 2)]);
        for part in [&whole[..whole.len() - 1], &chunks[..chunks.len() - 5]] {
            let mut stream = Stream::connect(&cache.admin)?;
            stream.write_all(part)?;
            sleep(Duration::from_millis(50));
        }
        sleep(Duration::from_millis(300));
        assert_eq!(cache.get(key)?.body, "old", "{key}");
    }
    assert_eq!(cache.stat("stats", "cmd_set")?, 2);
    Ok(())
}

#[test]
fn stores_of_one_key_at_once_do_not_mix() -> Result<()> {
    let cache = Cache::start(&[])?;
    let values = [b'a', b'b'].map(|letter| vec![letter; 300_000]);
    cache.put("k", &[], &values[0])?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let writers = values.each_ref().map(|value| {
            scope.spawn(|| -> Result<()> {
                while !is_over.load(Relaxed) {
                    let stored = cache.put("k", &[], value)?;
                    ensure!(stored.status == 201, "{stored:?}");
                }
                Ok(())
            })
        });
        let mut seen = [0, 0];
        let deadline = Instant::now() + Duration::from_secs(10);
        let outcome = loop {
            let found = cache.get("k")?;
            match values.iter().position(|value| *value == found.bytes) {
                Some(which) => seen[which] += 1,
                None => break Err(anyhow::anyhow!("{} mixed bytes", found.bytes.len())),
            }
            if seen.iter().all(|count| *count > 20) || Instant::now() > deadline {
                break Ok(());
            }
        };
        is_over.store(true, Relaxed);
        for writer in writers {
            writer.join().expect("a writer does not panic")?;
        }
        ensure!(seen.iter().all(|count| *count > 0), "values seen: {seen:?}");
        outcome
    })
}

#[test]
fn a_thousand_requests_at_once_are_answered() -> Result<()> {
    let cache = Cache::start(&[])?;
    let began = Instant::now();
    let mut streams = Vec::new();
    for number in 0..1_000 {
        let mut stream = Stream::connect(&cache.admin)?;
        let key = format!("k{}", number / 2 % 50);
        let method = if number % 2 == 0 { "PUT" } else { "GET" };
        let body = if number % 2 == 0 { key.clone() } else { String::new() };
        stream.write_all(&request(method, &key, &[], body.as_bytes()))?;
        streams.push((stream, number % 2 == 0));
    }
    let mut counts = [0, 0, 0];
    for (mut stream, is_put) in streams {
        let mut received = Vec::new();
        stream.read_to_end(&mut received)?;
        match (is_put, parse(&received)?.status) {
            (true, 201) => counts[0] += 1,
            (false, 200) => counts[1] += 1,
            // Before the first store of this key.
            (false, 404) => counts[2] += 1,
            (_, status) => anyhow::bail!("{status}: {}", received.escape_ascii()),
        }
    }
    let waited = began.elapsed();
    ensure!(counts[0] == 500 && counts[1] + counts[2] == 500 && counts[1] > 0, "{counts:?}");
    ensure!(waited < Duration::from_secs(20), "1,000 requests took {waited:?}");
    Ok(())
}

/// A peer that sends one byte per second, and a peer that receives nothing, end in bounded time.
/// Others are served in the meantime.
#[test]
fn slow_peers_end_and_delay_no_other() -> Result<()> {
    let cache = Cache::start(&["-I", "128m", "-m", "512"])?;
    cache.put("large", &[], &pattern(64 * MIB))?;
    let mut idle = Stream::connect(&cache.admin)?;
    idle.write_all(&request("GET", "large", &[], b""))?;
    let mut slow = Stream::connect(&cache.admin)?;
    slow.write_all(&head("PUT", "slow", &["Content-Length: 1000"]))?;
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    let mut received = Vec::new();
    slow.set_timeout(Duration::from_millis(200))?;
    while received.is_empty() {
        ensure!(began.elapsed() < Duration::from_secs(20), "a slow store does not end");
        let asked = Instant::now();
        assert_eq!(cache.put("other", &[], b"v")?.status, 201);
        longest = longest.max(asked.elapsed());
        sleep(Duration::from_millis(600));
        let _ = slow.write_all(b"x");
        let mut piece = [0; 4096];
        let count = slow.read(&mut piece).unwrap_or(0);
        received.extend_from_slice(&piece[..count]);
    }
    let waited = began.elapsed();
    let refused = parse(&received)?;
    ensure!(refused.status == 408 && refused.body.contains("too slowly"), "{refused:?}");
    ensure!(waited > Duration::from_secs(8), "ended after {waited:?}");
    ensure!(longest < Duration::from_secs(2), "others waited for {longest:?}");
    assert_eq!(cache.get("slow")?.status, 404);
    wait_until_unpinned(&cache, Duration::from_secs(10))?;
    drop(idle);
    Ok(())
}

#[test]
fn requests_share_a_bounded_memory() -> Result<()> {
    let cache = Cache::start(&[])?;
    cache.put("k", &[], b"v")?;
    let before = cache.peak_bytes()?;
    let chunk = vec![b'x'; 1_000_000];
    let all = chunked("k", &[&chunk]);
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut stream = Stream::connect(&cache.admin)?;
        // Fails if the server refuses the request in the meantime.
        let _ = stream.write_all(&all[..all.len() - 5]);
        held.push(stream);
    }
    let (mut unanswered, mut refused) = (held.iter_mut().collect::<Vec<_>>(), 0);
    let began = Instant::now();
    while refused < 20 && began.elapsed() < Duration::from_secs(20) {
        unanswered.retain_mut(|stream| {
            let mut received = [0; 12];
            let is_timeout_set = stream.set_timeout(Duration::from_millis(20)).is_ok();
            let is_answered = is_timeout_set && stream.read_exact(&mut received).is_ok();
            refused += usize::from(is_answered && received == *b"HTTP/1.1 503");
            !is_answered
        });
    }
    ensure!(refused >= 20, "{refused} of 40 bodies of 1 MB are refused");
    assert_eq!(cache.put("other", &[], b"v")?.status, 201, "a small request at the same time");
    let grown = cache.peak_bytes()? - before;
    ensure!(grown <= 16 * MIB, "unfinished bodies take {grown} bytes");
    drop(held);
    sleep(Duration::from_millis(200));
    assert_eq!(exchange(&cache.admin, &all)?.status, 201, "after they have gone");
    Ok(())
}

/// curl decides by itself when it sends a body, and whether it waits for 100 Continue.
#[test]
fn curl_stores_and_reads_a_large_value() -> Result<()> {
    if Command::new("curl").arg("--version").output().is_err() {
        larder_testkit::skip("curl is missing");
        return Ok(());
    }
    let cache = Cache::start(&["-I", "32m"])?;
    let Address::Tcp(admin) = &cache.admin else { anyhow::bail!("no port") };
    let folder = tempfile::tempdir()?;
    let (sent, received) = (folder.path().join("sent"), folder.path().join("received"));
    fs::write(&sent, pattern(20 * MIB))?;
    let curl = |args: &[&str], key: &str| -> Result<String> {
        let url = format!("http://{admin}/api/v1/cache/{key}");
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "30", "--path-as-is", "-w", "%{http_code}"])
            .args(args)
            .arg(&url)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "curl {args:?} {url}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (from, to) = (sent.display().to_string(), received.display().to_string());
    assert_eq!(curl(&["-T", &from], "../a?ttl=60")?, "201");
    assert_eq!(curl(&["-o", &to], "../a")?, "200");
    ensure!(fs::read(&received)? == fs::read(&sent)?, "curl receives other bytes");
    assert_eq!(curl(&["-T", &from, "-H", "Transfer-Encoding: chunked", "-o", &to], "b")?, "411");
    fs::write(&sent, pattern(33 * MIB))?;
    assert_eq!(curl(&["-T", &from, "-o", &to], "c")?, "413");
    Ok(())
}
