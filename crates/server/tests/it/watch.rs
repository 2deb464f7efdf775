//! `watch` connections, including those that read too slowly.

use std::io::{BufRead, BufReader, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::scene::Scene;
use larder_testkit::stat::stat;
use larder_testkit::{ServerUnderTest, Stream, Transport};

use crate::binary;

fn start(transport: Transport, args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), transport, args)
}

/// A watching connection, which receives everything from now on.
struct Watcher(BufReader<Stream>);

impl Watcher {
    fn begin(server: &ServerUnderTest, topics: &str) -> Result<Self> {
        Self::on(server.connect()?, topics)
    }

    fn on(mut stream: Stream, topics: &str) -> Result<Self> {
        stream.write_all(format!("watch {topics}\r\n").as_bytes())?;
        let (mut reader, mut answer) = (BufReader::new(stream), String::new());
        reader.read_line(&mut answer)?;
        ensure!(answer == "OK\r\n", "{answer:?}");
        Ok(Self(reader))
    }

    /// Returns the next line that contains `words`, without its stamp.
    fn line_with(&mut self, words: &str) -> Result<String> {
        loop {
            let line = self.line()?;
            if line.contains(words) {
                return Ok(line);
            }
        }
    }

    /// Returns the next line without its stamp. Its number must be above the last one.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "{line:?}");
        ensure!(!line.ends_with("\r\n"), "{line:?}");
        if line.starts_with("skipped=") {
            return Ok(line.trim_end().to_owned());
        }
        let mut words = line.trim_end().splitn(3, ' ');
        let (time, number) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (secs, micros) = time
            .strip_prefix("ts=")
            .and_then(|time| time.split_once('.'))
            .with_context(|| line.clone())?;
        ensure!(secs.parse::<u64>()? > 1_700_000_000, "{line:?}");
        ensure!(micros.len() == 6, "{line:?}");
        ensure!(number.starts_with("gid="), "{line:?}");
        Ok(words.next().unwrap_or("").to_owned())
    }
}

fn wait_for(stream: &mut Stream, name: &str, wanted: u64) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while stat(stream, "", name)? != wanted {
        ensure!(Instant::now() < deadline, "{name} does not become {wanted}");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
fn gets_sets_and_deletes_are_shown_with_the_connection_they_came_from() -> Result<()> {
    let server = start(Transport::Unix, &["-t", "2"])?;
    let mut watcher = Watcher::begin(&server, "fetchers mutations deletions")?;
    let mut client = server.connect()?;
    client.ask(b"set a 0 100 3\r\nabc\r\n", b"STORED\r\n")?;
    let get = watcher.line()?;
    let (shown, connection) = get.split_once(" cfd=").context("a connection")?;
    let connection = connection.trim_end_matches(" size=0").to_owned();
    ensure!(shown == "type=item_get key=a status=not_found clsid=0", "{get}");
    let mut expect = |lines: &[&str]| -> Result<()> {
        for expected in lines {
            // A second may pass between a store and an append.
            let line = watcher.line()?.replace("ttl=99", "ttl=100");
            assert_eq!(line, expected.replace('#', &connection));
        }
        Ok(())
    };
    expect(&["type=item_store key=a status=stored cmd=set ttl=100 clsid=1 cfd=# size=3"])?;
    client.ask(b"get a\r\n", b"END\r\n")?;
    expect(&["type=item_get key=a status=found clsid=1 cfd=# size=3"])?;
    // A value that arrives in two pieces.
    client.write_all(b"append a 0 0 2\r\n")?;
    sleep(Duration::from_millis(20));
    client.ask(b"de\r\n", b"STORED\r\n")?;
    expect(&[
        "type=item_get key=a status=found clsid=1 cfd=# size=3",
        "type=item_store key=a status=stored cmd=append ttl=100 clsid=1 cfd=# size=5",
    ])?;
    client.ask(b"delete a\r\n", b"DELETED\r\n")?;
    expect(&[
        "type=item_get key=a status=found clsid=1 cfd=# size=5",
        "type=deleted key=a cmd=delete clsid=1 size=5",
    ])?;
    client.ask(b"md a\r\ncas a 0 0 1 7 noreply\r\nx\r\nmn\r\n", b"MN\r\n")?;
    expect(&[
        "type=item_get key=a status=not_found clsid=0 cfd=# size=0",
        "type=item_get key=a status=not_found clsid=0 cfd=# size=0",
        "type=item_store key=a status=not_found cmd=cas ttl=0 clsid=1 cfd=# size=1",
    ])?;
    Ok(())
}

/// CVE-2013-0179 and similar: a log must account for the length of a key.
#[test]
fn the_longest_key_becomes_750_bytes() -> Result<()> {
    let server = start(Transport::Unix, &[])?;
    let mut watcher = Watcher::begin(&server, "mutations")?;
    let mut client = server.connect()?;
    let key = "#".repeat(250);
    client.ask(format!("set {key} 0 0 1\r\nv\r\n").as_bytes(), b"STORED\r\n")?;
    let shown = format!(" key={} status=stored ", "%23".repeat(250));
    assert!(watcher.line()?.contains(&shown));
    Ok(())
}

#[test]
fn connection_events_have_a_reason() -> Result<()> {
    let server = start(Transport::Tcp, &["-o", "idle_timeout=1"])?;
    let mut watcher = Watcher::begin(&server, "connevents")?;
    for (words, reason) in
        [(&b"quit\r\n"[..], "normal"), (b"GET / HTTP/1.1\r\n", "error"), (b"", "idle_timeout")]
    {
        let mut client = server.connect()?;
        let Stream::Tcp(socket) = &client else { unreachable!("the server is on TCP") };
        let peer = format!("rip=127.0.0.1 rport={} transport=tcp", socket.local_addr()?.port());
        client.write_all(words)?;
        // The connection that checked whether the server runs may still be shown.
        let new = watcher.line_with(&peer)?;
        let (shown, id) = new.split_once(" cfd=").context("a connection")?;
        assert_eq!(shown, format!("type=conn_new {peer}"));
        let close = watcher.line_with(&peer)?;
        assert_eq!(close, format!("type=conn_close {peer} reason={reason} cfd={id}"));
    }
    // A connection that disconnects without `quit` is closed normally, and the watcher has not been
    // idle.
    drop(server.connect()?);
    assert!(watcher.line()?.starts_with("type=conn_new "));
    assert!(watcher.line()?.contains(" reason=normal "));
    Ok(())
}

#[test]
fn evictions_are_shown() -> Result<()> {
    let server = start(Transport::Unix, &["-m", "8"])?;
    let mut watcher = Watcher::begin(&server, "evictions")?;
    let mut client = server.connect()?;
    let value = "v".repeat(10_000);
    for number in 0..2000 {
        let set = format!("set key,{number} 0 1000 10000 noreply\r\n{value}\r\n");
        client.write_all(set.as_bytes())?;
    }
    client.ask(b"mn\r\n", b"MN\r\n")?;
    let line = watcher.line()?;
    assert!(line.starts_with("type=eviction key=key%2C"), "{line}");
    assert!(line.contains(" fetch=no ttl="), "{line}");
    assert!(line.ends_with(" clsid=22 size=10000"), "{line}");
    ensure!(stat(&mut client, "", "log_watcher_sent")? > 0, "nothing was counted");
    Ok(())
}

#[test]
fn a_watcher_that_does_not_read_misses_lines_and_blocks_no_client() -> Result<()> {
    let scene = Scene::start(&binary(), &["-o", "watcher_logbuf_size=8"])?;
    let mut watcher = Watcher::on(scene.connect()?, "fetchers")?;
    let mut client = scene.connect()?;
    let gets = b"get nothing-of-the-kind\r\n".repeat(1000);
    for _ in 0..300 {
        client.ask(&gets, &b"END\r\n".repeat(1000))?;
    }
    scene.has_grown_at_most(16 << 20)?;
    wait_for(&mut client, "log_watchers", 1)?;
    ensure!(stat(&mut client, "", "log_watcher_skipped")? > 0, "nothing was skipped");
    // The lines that fit arrive, then the number of dropped lines, then lines again.
    let mut count = 0;
    while !watcher.line()?.starts_with("skipped=") {
        count += 1;
        if count % 100 == 0 {
            client.ask(b"get more\r\n", b"END\r\n")?;
        }
    }
    assert!(watcher.line()?.starts_with("type=item_get "));
    drop(watcher);
    wait_for(&mut client, "log_watchers", 0)?;
    drop(client);
    scene.end()
}

#[test]
fn twenty_watchers_are_allowed_and_their_input_is_ignored() -> Result<()> {
    let server = start(Transport::Unix, &["-t", "2"])?;
    let mut watchers = Vec::new();
    for _ in 0..20 {
        watchers.push(Watcher::begin(&server, "mutations")?);
    }
    let mut client = server.connect()?;
    client.ask(b"watch\r\n", b"WATCHER_TOO_MANY log watcher limit reached\r\n")?;
    let Watcher(reader) = &mut watchers[0];
    reader.get_mut().write_all(b"flush_all\r\nset lost 0 0 1\r\nx\r\nquit\r\n")?;
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    for watcher in &mut watchers {
        assert!(watcher.line()?.starts_with("type=item_store key=k "));
    }
    client.ask(b"get lost\r\n", b"END\r\n")?;
    watchers.truncate(3);
    wait_for(&mut client, "log_watchers", 3)?;
    Watcher::begin(&server, "mutations")?;
    Ok(())
}

#[test]
fn watch_after_other_commands_is_refused() -> Result<()> {
    let server = start(Transport::Unix, &[])?;
    let mut client = server.connect()?;
    let refusal = b"ERROR cannot pipeline other commands before watch\r\n";
    client.ask(b"mn\r\nwatch\r\n", refusal)?;
    client.ask(b"mn\r\n", b"MN\r\n")?;
    assert_eq!(stat(&mut client, "", "log_watchers")?, 0);
    Ok(())
}
