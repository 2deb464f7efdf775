//! Near caches of a server with a disk tier.

use anyhow::{Context, Result, ensure};
use larder_protocol::follow::{Fetched, Message};
use larder_testkit::stat::stat;
use larder_testkit::{ServerUnderTest, Transport};

use super::{Near, start};

fn begin(folder: &tempfile::TempDir, mode: &str) -> Result<ServerUnderTest> {
    let path = folder.path().join("tier").display().to_string();
    let tier = ["--tier-path", &path, "--tier-mode", mode, "--tier-size", "64m"];
    start(Transport::Tcp, &[&tier[..], &["--followers=2", "-m", "8", "-o", "debugtime"]].concat())
}

/// Near caches fetch items that only the disk has, and the server reports their changes.
#[test]
fn items_on_the_disk_are_fetched_and_their_changes_told() -> Result<()> {
    for mode in ["store", "cache"] {
        let folder = tempfile::tempdir()?;
        let server = begin(&folder, mode)?;
        let mut client = server.connect()?;
        client.ask(b"version\r\n", b"\r\n")?;
        let value = "v".repeat(4000);
        let count = 4000;
        for n in 0..count {
            client.ask(format!("set k:{n} 3 0 4000\r\n{value}\r\n").as_bytes(), b"STORED\r\n")?;
        }
        client.wait_for_disk(1 << 20)?;
        let mut near = Near::follow(&server)?;
        let before = stat(&mut client, "larder", "tier_read_bytes").unwrap_or_default();
        let mut held = Vec::new();
        for n in (0..count).step_by(40) {
            let key = format!("k:{n}");
            let copy = near.fetch(key.as_bytes())?;
            ensure!(copy.is_noted(), "{copy:?}");
            if let Fetched::Value { flags: 3, .. } = copy.fetched {
                ensure!(copy.value == value.as_bytes());
                held.push(key);
            }
        }
        ensure!(held.len() > 50, "{mode}: {} of 100 items", held.len());
        println!("{mode}: {} items, {before} bytes were read before", held.len());
        ensure!(near.changes()?.is_empty(), "{mode}: a fetch changes nothing");
        for (key, request) in held.iter().zip(["md", "mg", "ma", "ms"].iter().cycle()) {
            let request = match *request {
                "md" => format!("md {key}\r\nmn\r\n"),
                "mg" => format!("mg {key} T500\r\nmn\r\n"),
                "ma" => format!("ms {key} 1 MA\r\nx\r\nmn\r\n"),
                _ => format!("ms {key} 1\r\nx\r\nmn\r\n"),
            };
            client.ask(request.as_bytes(), b"MN\r\n")?;
            let changes = near.changes()?;
            ensure!(changes == [near.changed(key.as_bytes())], "{mode}: {request:?}: {changes:?}");
        }
        let key = held.last().context("an item")?.as_bytes();
        // It may be one of those that were removed.
        client.ask(&[b"ms ", key, b" 1\r\nx\r\n"].concat(), b"HD\r\n")?;
        near.changes()?;
        near.fetch(key)?;
        client.ask(b"delete_prefix k:\r\n", b"\r\n")?;
        // Items that were fetched and not changed since may be removed first.
        while near.message()? != near.changed(key) {}
        client.ask(b"flush_all\r\n", b"OK\r\n")?;
        loop {
            match near.message()? {
                Message::Flushed => break,
                Message::Changed(_) => {}
                other => anyhow::bail!("{other:?}"),
            }
        }
        client.ask(b"flush_all 100\r\n", b"OK\r\n")?;
        ensure!(near.changes()?.is_empty(), "{mode}");
        client.ask(b"debugtime 101\r\n", b"OK\r\n")?;
        ensure!(near.changes()?.contains(&Message::Flushed), "{mode}");
    }
    Ok(())
}
