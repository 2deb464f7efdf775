//! Dumps of many items while other clients are served.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_testkit::Stream;
use larder_testkit::scene::Scene;

use crate::binary;

const ITEMS: usize = 100_000;

fn fill(stream: &mut Stream) -> Result<()> {
    for first in (0..ITEMS).step_by(1000) {
        let sets: String = (first..first + 1000)
            .map(|number| {
                let bytes = if number % 10 == 0 { 500 } else { 1 };
                format!("set key,{number} 0 0 {bytes} noreply\r\n{}\r\n", "v".repeat(bytes))
            })
            .collect();
        stream.write_all(sets.as_bytes())?;
    }
    stream.ask(b"mn\r\n", b"MN\r\n")?;
    Ok(())
}

/// Returns the numbers of the keys in a dump, each once.
fn dumped(stream: &mut Stream, request: &str, end: &str) -> Result<HashSet<usize>> {
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut next = || -> Result<String> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        Ok(line)
    };
    assert_eq!(next()?, "OK\r\n");
    let mut numbers = HashSet::new();
    loop {
        let line = next()?;
        if line == end {
            return Ok(numbers);
        }
        let start = ["key=key%2C", "mg key,"].iter().find_map(|start| line.strip_prefix(start));
        let Some(rest) = start else {
            // The bystander's item.
            ensure!(line.contains("bystander"), "{line:?}");
            continue;
        };
        let number = rest.split([' ', '\r']).next().context("a number")?;
        numbers.insert(number.parse()?);
    }
}

#[test]
fn a_dump_shows_every_item_and_others_are_served_meanwhile() -> Result<()> {
    let scene = Scene::start(&binary(), &["-m", "64", "-t", "1"])?;
    let mut client = scene.connect()?;
    fill(&mut client)?;
    let mut worker = scene.connect()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<usize> {
            let mut count = 0;
            while !is_over.load(Relaxed) {
                worker.ask(b"set key,7 0 0 1\r\nw\r\nget key,7\r\n", b"END\r\n")?;
                count += 1;
            }
            Ok(count)
        });
        let all = dumped(&mut client, "lru_crawler metadump all\r\n", "END\r\n");
        let keys = dumped(&mut client, "lru_crawler mgdump hash\r\n", "EN\r\n");
        // The larger items are in a separate class.
        let large = dumped(&mut client, "lru_crawler metadump 9\r\n", "END\r\n");
        is_over.store(true, Relaxed);
        let served = writer.join().expect("the writer does not panic")?;
        assert_eq!((all?.len(), keys?.len()), (ITEMS, ITEMS));
        let large = large?;
        assert_eq!(large.len(), ITEMS / 10);
        assert!(large.iter().all(|number| number % 10 == 0));
        ensure!(served > 10, "another client was served {served} times");
        Ok(())
    })?;
    client.ask(b"version\r\n", b"\r\n")?;
    drop((client, worker));
    scene.end()
}

#[test]
fn an_unread_dump_takes_little_memory_and_continues_when_it_is_read() -> Result<()> {
    let scene = Scene::start(&binary(), &["-m", "64", "-t", "1"])?;
    let mut client = scene.connect()?;
    fill(&mut client)?;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut reader = scene.connect()?;
        reader.write_all(b"lru_crawler metadump all\r\n")?;
        readers.push(reader);
    }
    sleep(Duration::from_millis(500));
    // Items may use 64 MiB of them.
    scene.has_grown_at_most((64 + 16) << 20)?;
    let answer = readers[0].ask(b"", b"END\r\n")?;
    ensure!(answer.iter().filter(|byte| **byte == b'\n').count() >= ITEMS + 2);
    readers[0].ask(b"mn\r\n", b"MN\r\n")?;
    // The other clients disconnect in the middle.
    drop((readers, client));
    scene.end()
}

#[test]
fn a_dump_after_other_commands_is_refused() -> Result<()> {
    let scene = Scene::start(&binary(), &[])?;
    let mut client = scene.connect()?;
    for (request, refusal) in [
        ("metadump all", "ERROR cannot pipeline other commands before metadump\r\n"),
        ("mgdump all", "ERROR cannot pipeline other commands before mgdump\r\n"),
    ] {
        let line = format!("mg nothing v\r\nlru_crawler {request}\r\n");
        let answer = client.ask(line.as_bytes(), refusal.as_bytes())?;
        assert_eq!(answer, format!("EN\r\n{refusal}").as_bytes());
    }
    client.ask(b"mn\r\n", b"MN\r\n")?;
    drop(client);
    scene.end()
}

/// The state of an aborted dump must not be reused.
#[test]
fn commands_after_a_dump_wait_for_its_end() -> Result<()> {
    let scene = Scene::start(&binary(), &["-m", "64"])?;
    let mut client = scene.connect()?;
    fill(&mut client)?;
    let request = b"lru_crawler metadump 9\r\nget key,1\r\nlru_crawler disable\r\n\
        lru_crawler metadump 9\r\n";
    let answer = client.ask(request, b"CLIENT_ERROR lru crawler disabled\r\n")?;
    let end = "END\r\nVALUE key,1 0 1\r\nv\r\nEND\r\nOK\r\nCLIENT_ERROR lru crawler disabled\r\n";
    assert!(answer.ends_with(end.as_bytes()), "{}", answer.len());
    drop(client);
    scene.end()
}
