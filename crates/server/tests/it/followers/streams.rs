//! Change streams and fetches.

use anyhow::{Result, ensure};
use larder_protocol::follow::{Fetched, Message};
use larder_testkit::Transport;

use super::{Near, start};

#[test]
fn a_near_cache_is_told_of_changes_of_what_it_has_fetched() -> Result<()> {
    for transport in [Transport::Tcp, Transport::Unix] {
        let server = start(transport, &["--followers=2"])?;
        let mut near = Near::follow(&server)?;
        let mut client = server.connect()?;
        client.ask(b"set k 5 0 1\r\nv\r\n", b"STORED\r\n")?;
        ensure!(near.changes()? == [], "nothing was fetched");
        let copy = near.fetch(b"k")?;
        ensure!(copy.value == b"v" && copy.is_noted(), "{copy:?}");
        ensure!(
            matches!(copy.fetched, Fetched::Value { flags: 5, ttl_ms: None, cas: 1.., .. }),
            "{copy:?}"
        );
        ensure!(near.changes()? == []);
        client.ask(b"get k\r\n", b"END\r\n")?;
        ensure!(near.changes()? == [], "a read changes nothing");
        client.ask(b"set k 0 0 1\r\nw\r\nset k 0 0 1\r\nw\r\n", b"STORED\r\nSTORED\r\n")?;
        let changed = near.changed(b"k");
        ensure!(near.changes()? == [changed], "a change is told once");
        ensure!(near.fetch(b"k")?.value == b"w");
        client.ask(b"delete k\r\n", b"DELETED\r\n")?;
        ensure!(near.message()? == changed, "without being asked");
        ensure!(near.fetch(b"k")?.fetched == Fetched::Absent { is_noted: true });
        client.ask(b"add k 0 0 1\r\nx\r\n", b"STORED\r\n")?;
        ensure!(near.message()? == changed);
        client.ask(b"flush_all\r\n", b"OK\r\n")?;
        ensure!(near.message()? == Message::Flushed);
    }
    Ok(())
}
