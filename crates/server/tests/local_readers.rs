//! Clients that read hits directly in the server's memory: values are correct, reads are counted,
//! and clients cannot harm the server.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder::{Client, ClientError, ClientStore, ClientStored, Hit, StoreMode, Swap};
use larder_testkit::children::{self, fork};
use larder_testkit::server::{Signal, larderd, memcached, run_to_end};
use larder_testkit::stat::stat;
use larder_testkit::{Address, ServerUnderTest, Transport};
use rustix::process::{Pid, kill_process};

const READERS: [&str; 4] = ["--local-readers", "same-uid", "-m", "64"];

fn binary() -> PathBuf {
    larderd(env!("CARGO_BIN_EXE_larderd"))
}

fn start(args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), Transport::Unix, args)
}

fn path(server: &ServerUnderTest) -> &Path {
    match server.address() {
        Address::Unix(path) => path,
        Address::Tcp(_) => panic!("the server listens on a unix socket"),
    }
}

/// Waits until a condition is true, for a few seconds at most.
fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let since = Instant::now();
    while !is_so()? {
        ensure!(since.elapsed() < Duration::from_secs(10), "{what} is never so");
        sleep(Duration::from_millis(10));
    }
    Ok(since.elapsed())
}

/// Looks up a key.
fn find(client: &Client, key: &[u8]) -> Result<Option<(Vec<u8>, Hit)>, ClientError> {
    let mut value = Vec::new();
    Ok(client.get_into(key, &mut value)?.map(|hit| (value, hit)))
}

/// Takes and releases leases.
fn leases(client: &Client) -> Result<()> {
    let minute = Duration::from_secs(60);
    let lease = client.lease("k", minute)?.context("it is free")?;
    assert!(client.lease("k", minute)?.is_none());
    let other = client.lease("other", minute)?.context("it is that of another key")?;
    assert!(client.release("k", lease)?);
    assert!(!client.release("k", lease)?);
    let next = client.lease("k", Duration::from_millis(1))?.context("it was released")?;
    assert!(!client.release("k", lease)?, "a lease is released with that of another client");
    until("over", || Ok(client.lease("k", minute)?.is_some()))?;
    assert!(!client.release("k", next)?, "a lease that is over releases the next one");
    assert!(client.release("other", other)?);
    assert!(matches!(client.lease("", minute), Err(ClientError::Key(_))));
    Ok(())
}

/// Calls all methods, on any kind of server. Hits are expected to be `local` or not.
fn behaves(client: &Client, local: bool) -> Result<()> {
    assert_eq!(client.reads_memory(), local);
    assert_eq!(client.get("none")?, None);
    for (key, value) in [
        (&b"k"[..], &b"value"[..]),
        (b"empty", b""),
        (b"a key\r\nwith lines", b"\r\nEN\r\n"),
        (b"\x00\xff", &[7; 300]),
        (b"large", &[9; 700_000]),
    ] {
        client.set(key, value, None)?;
        let (found, hit) = find(client, key)?.context("what was just stored")?;
        assert!(found == value, "{} bytes of {:?}", found.len(), key.escape_ascii().to_string());
        assert_eq!((hit.is_local, hit.flags, hit.ttl_secs), (local, 0, None));
        assert_eq!(client.get(key)?.as_deref(), Some(value));
    }
    assert_eq!(client.get_with("k", |value, _| value.len())?, Some(5));
    let many = client.get_many(&["k", "none", "empty", "a key\r\nwith lines"])?;
    let lengths: Vec<_> = many.iter().map(|value| value.as_ref().map(Vec::len)).collect();
    assert_eq!(lengths, [Some(5), None, Some(0), Some(6)]);

    let flagged = ClientStore { flags: u32::MAX, ..ClientStore::new(b"flags", StoreMode::Add) };
    assert!(matches!(client.store(&flagged, b"v")?, ClientStored::Stored { cas: 1.. }));
    assert_eq!(client.store(&flagged, b"v")?, ClientStored::NotStored);
    // The item keeps its flags.
    assert!(client.append("flags", "w")?);
    let mut found = Vec::new();
    client.get_many_with(&["none", "flags", "k"], |place, value, hit| {
        found.push((place, value.to_vec(), hit.flags));
        assert_eq!(hit.is_local, local);
    })?;
    assert_eq!(found, [(1, b"vw".to_vec(), u32::MAX), (2, b"value".to_vec(), 0)]);
    // More requests than fit into a batch.
    let long: Vec<_> = (0..500).map(|number| format!("{number:0200}")).collect();
    long.iter().try_for_each(|key| client.set(key, key, None))?;
    assert_eq!(client.get_many(&long)?.iter().flatten().count(), 500);
    leases(client)?;

    assert!(!client.add("k", "other", None)?);
    assert!(client.add("new", "1", None)?);
    assert!(!client.replace("none", "1", None)?);
    assert!(client.replace("new", "2", None)?);
    assert!(client.append("new", "3")?);
    assert!(client.prepend("new", "1")?);
    assert!(!client.append("none", "1")?);
    assert_eq!(client.get("new")?.as_deref(), Some(&b"123"[..]));
    assert_eq!((client.increment("new", 7)?, client.decrement("new", 31)?), (Some(130), Some(99)));
    // memcached leaves a space after a number that has become shorter.
    assert!(client.get("new")?.unwrap().starts_with(b"99"));
    assert_eq!(client.increment("none", 1)?, None);
    assert!(matches!(client.increment("k", 1), Err(ClientError::Server(_))));

    let (_, hit) = find(client, b"k")?.context("it is there")?;
    assert!(matches!(client.compare_and_set("k", "x", None, hit.cas + 999)?, Swap::Changed));
    let Swap::Stored { cas } = client.compare_and_set("k", "y", None, hit.cas)? else {
        panic!("the token is the item's");
    };
    assert_eq!(find(client, b"k")?.unwrap().1.cas, cas);
    assert_eq!(client.compare_and_set("none", "x", None, 1)?, Swap::Missing);

    assert!(client.touch("k", Some(Duration::from_secs(100)))?);
    let ttl_secs = find(client, b"k")?.unwrap().1.ttl_secs.context("it was touched")?;
    assert!((98..=100).contains(&ttl_secs), "{ttl_secs}");
    let year = Duration::from_secs(365 * 86_400);
    assert_eq!(client.get_and_touch("k", Some(year))?.as_deref(), Some(&b"y"[..]));
    assert!(find(client, b"k")?.unwrap().1.ttl_secs.unwrap() > 364 * 86_400);
    client.set("brief", "v", Some(Duration::from_secs(1)))?;
    until("expired", || Ok(client.get("brief")?.is_none()))?;
    assert!(client.delete("k")?);
    assert!(!client.delete("k")?);
    assert_eq!(client.get("k")?, None);

    assert!(matches!(client.get(""), Err(ClientError::Key(_))));
    assert!(matches!(client.set([b'k'; 251], "", None), Err(ClientError::Key(_))));
    assert!(matches!(client.set([b' '; 200], "", None), Err(ClientError::LongKey { .. })));
    assert!(matches!(client.set("k", vec![0; 2 << 20], None), Err(ClientError::Server(_))));
    assert_eq!(client.get("large")?.map(|value| value.len()), Some(700_000));
    Ok(())
}

#[test]
fn hits_come_from_the_memory_and_all_else_from_the_server() -> Result<()> {
    for io in ["uring", "epoll"] {
        let server = start(&[&READERS[..], &["--io", io]].concat())?;
        let client = Client::connect(path(&server))?;
        behaves(&client, true)?;
        let mut stream = server.connect()?;
        // All hits were local, except for a read that set a new time to live.
        assert_eq!(stat(&mut stream, "", "get_hits")?, stat(&mut stream, "larder", "local_reads")?);
        stream.ask(b"flush_all\r\n", b"OK\r\n")?;
        assert_eq!(client.get("large")?, None);
    }
    Ok(())
}

#[test]
fn without_permission_and_on_other_servers_all_goes_through_the_socket() -> Result<()> {
    let server = start(&[])?;
    behaves(&Client::connect(path(&server))?, false)?;
    let server = ServerUnderTest::start(&memcached()?, Transport::Unix, &["-I", "1m"])?;
    behaves(&Client::connect(path(&server))?, false)?;
    // Without cas tokens.
    let server = ServerUnderTest::start(&memcached()?, Transport::Unix, &["-C"])?;
    leases(&Client::connect(path(&server))?)?;
    let mine = run_to_end(Command::new("id").arg("-gn"))?;
    let mine = format!("group:{}", String::from_utf8(mine.stdout)?.trim());
    let any = Client::connect(path(&start(&["--local-readers", "any"])?))?;
    drop(any);
    for (who, is_allowed) in [("any", true), (&mine, true), ("group:games", false)] {
        let server = start(&["--local-readers", who])?;
        let client = Client::connect(path(&server))?;
        assert_eq!(client.reads_memory(), is_allowed, "{who}");
        let answer = server.connect()?.ask(b"larder_region\r\n", b"\r\n")?;
        let refused = b"CLIENT_ERROR this connection may not read the memory\r\n";
        assert_eq!(answer == refused, !is_allowed, "{who}: {}", answer.escape_ascii());
        client.set("k", "v", None)?;
        assert_eq!(client.get("k")?.as_deref(), Some(&b"v"[..]));
    }
    if larder_testkit::server::is_root() {
        let server = start(&["--local-readers", "group:games"])?;
        let group = run_to_end(Command::new("getent").args(["group", "games"]))?;
        let number = String::from_utf8(group.stdout)?.split(':').nth(2).unwrap().to_owned();
        let asks = [&hostile(path(&server))[..], &["ask".into()]].concat();
        for (groups, is_allowed) in [(number.as_str(), true), ("65533", false)] {
            let output =
                run_to_end(Command::new("setpriv").args(["--groups", groups]).args(&asks))?;
            let answer = String::from_utf8(output.stdout)?;
            assert_eq!(answer.starts_with("REGION "), is_allowed, "{groups}: {answer}");
        }
    }
    Ok(())
}

#[test]
fn the_memory_is_not_available_over_tcp() -> Result<()> {
    let args = ["--local-readers", "any"];
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    assert_eq!(server.connect()?.ask(b"larder_region\r\n", b"\r\n")?, b"ERROR\r\n");
    Ok(())
}

fn hostile(socket: &Path) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/local/hostile.py");
    ["python3".into(), script.into(), socket.display().to_string()].into()
}

#[test]
fn readers_cannot_write_to_the_memory() -> Result<()> {
    let server = start(&READERS)?;
    let client = Client::connect(path(&server))?;
    for number in 0..1000 {
        client.set(format!("k{number}"), format!("value {number}"), None)?;
    }
    let words = hostile(path(&server));
    let output: Output = run_to_end(Command::new(&words[0]).args(&words[1..]))?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{output:?}");
    for number in 0..1000 {
        let (value, hit) =
            find(&client, format!("k{number}").as_bytes())?.context("it is there")?;
        assert_eq!((value, hit.is_local), (format!("value {number}").into_bytes(), true));
    }
    Ok(())
}

#[test]
fn another_user_cannot_open_the_memory_again_to_write() -> Result<()> {
    if !larder_testkit::server::is_root() {
        larder_testkit::skip("only root can run this as another user");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let address = Address::Unix(folder.path().join("socket"));
    let args = ["--local-readers", "any", "-a", "0777"];
    let server = ServerUnderTest::start_at(&binary(), address, &args)?;
    let words = [hostile(path(&server)), ["as".into(), "65533".into()].into()].concat();
    let output = run_to_end(Command::new(&words[0]).args(&words[1..]))?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "of another user\ndone\n", "{output:?}");
    Ok(())
}

#[test]
fn reads_are_noted_only_of_connections_that_may_read() -> Result<()> {
    let server = start(&["--local-readers", "group:games"])?;
    let mut stream = server.connect()?;
    stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n")?;
    let answer = stream.ask(b"larder_read aw==\r\n", b"\r\n")?;
    assert_eq!(answer, b"CLIENT_ERROR this connection may not read the memory\r\n");
    assert_eq!(stat(&mut stream, "larder", "local_reads")?, 0);
    let server = start(&READERS)?;
    let mut stream = server.connect()?;
    stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n")?;
    assert_eq!(stream.ask(b"larder_read aw==\r\nmn\r\n", b"MN\r\n")?, b"MN\r\n");
    assert_eq!(stat(&mut stream, "larder", "local_reads")?, 2);
    Ok(())
}

#[test]
fn a_memory_file_has_no_local_readers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cache").display().to_string();
    let server = start(&[&READERS[..], &["-e", &file]].concat())?;
    assert!(server.log().contains("option --local-readers: it has no effect with -e"));
    assert_eq!(server.connect()?.ask(b"larder_region\r\n", b"\r\n")?, b"ERROR\r\n");
    behaves(&Client::connect(path(&server))?, false)
}

#[test]
fn a_client_that_does_not_receive_the_memory_blocks_nothing() -> Result<()> {
    for io in ["uring", "epoll"] {
        let server = start(&[&READERS[..], &["--io", io, "-t", "1"]].concat())?;
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
        sleep(Duration::from_millis(300));
        let before = server.descriptor_count()?;
        let mut greedy = server.connect()?;
        greedy.set_timeout(Duration::from_millis(200))?;
        let line = b"larder_region\r\n".repeat(100);
        // Until the server closes the connection, or no longer receives.
        let given = (0..1000).take_while(|_| greedy.write_all(&line).is_ok()).count();
        assert!(given < 1000, "the server takes everything and passes everything");
        let mut other = server.connect()?;
        let since = Instant::now();
        for _ in 0..100 {
            other.ask(b"version\r\n", b"\r\n")?;
        }
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
        drop((greedy, other));
        until("forgotten", || Ok(server.descriptor_count()? <= before))?;
    }
    Ok(())
}

#[test]
fn requests_before_the_memory_are_answered_before_it() -> Result<()> {
    for io in ["uring", "epoll"] {
        let server = start(&[&READERS[..], &["--io", io]].concat())?;
        let mut stream = server.connect()?;
        let answer = stream.ask(
            b"set k 0 0 1\r\nv\r\nlarder_region\r\nlarder_region\r\nget k\r\nmn\r\n",
            b"END\r\nMN\r\n",
        )?;
        let answer = String::from_utf8(answer)?;
        let lines: Vec<_> = answer.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(lines, ["STORED", "REGION", "REGION", "VALUE", "v", "END", "MN"], "{io}");
    }
    Ok(())
}

#[test]
fn reads_are_reported_and_count_as_hits() -> Result<()> {
    let server = start(&READERS)?;
    let client = Client::connect(path(&server))?;
    let mut stream = server.connect()?;
    client.set("k", "v", None)?;
    client.set("a key", "v", None)?;
    for _ in 0..500 {
        client.get("k")?;
        client.get("a key")?;
        // Hints are sent together with requests.
        client.get("none")?;
    }
    let reported = stat(&mut stream, "larder", "local_reads")?;
    // Three reads of each are noted. Reads before the server had received the hints are also
    // reported.
    assert!((6..100).contains(&reported), "{reported} of 1000");
    assert_eq!(stat(&mut stream, "", "get_hits")?, reported);
    assert_eq!(stat(&mut stream, "", "get_misses")?, 500);
    Ok(())
}

#[test]
fn items_read_in_the_memory_are_not_evicted() -> Result<()> {
    let server = start(&["--local-readers", "same-uid", "-m", "8"])?;
    let client = Client::connect(path(&server))?;
    const ITEMS: usize = 200;
    let value = vec![1; 1000];
    for number in 0..ITEMS {
        client.set(format!("read{number}"), &value, None)?;
        client.set(format!("unread{number}"), &value, None)?;
    }
    for number in 0..40_000 {
        client.set(format!("fill{number}"), &value, None)?;
        let key = format!("read{}", number % ITEMS);
        let mut out = Vec::new();
        client.get_into(&key, &mut out)?;
    }
    let alive = |name: &str| -> Result<usize> {
        let keys: Vec<_> = (0..ITEMS).map(|number| format!("{name}{number}")).collect();
        Ok(client.get_many(&keys)?.iter().flatten().count())
    };
    let (read, unread) = (alive("read")?, alive("unread")?);
    assert!(read > ITEMS * 9 / 10, "{read} and {unread} of {ITEMS}");
    assert!(unread < ITEMS / 10, "{read} and {unread} of {ITEMS}");
    Ok(())
}

/// Stores on a server that may have been restarted. The first request to an exiting server fails.
fn set_anew(client: &Client, value: &str) -> Result<(), ClientError> {
    client.set("k", value, None).or_else(|_| client.set("k", value, None))
}

#[test]
fn a_server_that_is_gone_or_another_is_noticed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let address = Address::Unix(folder.path().join("socket"));
    let start = || ServerUnderTest::start_at(&binary(), address.clone(), &READERS);
    let server = start()?;
    let client = Client::connect(path(&server))?;
    client.set("k", "old", None)?;
    assert!(find(&client, b"k")?.unwrap().1.is_local);
    // Killed: the memory that it left is trusted only briefly.
    drop(server);
    let took = until("gone", || Ok(client.get("k").is_err()))?;
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(!client.reads_memory());
    // Another server in its place, before any client has noticed that the first one is gone.
    let server = start()?;
    set_anew(&client, "second")?;
    let (value, hit) = find(&client, b"k")?.unwrap();
    assert_eq!((&value[..], hit.is_local), (&b"second"[..], true));
    drop(server);
    let server = start()?;
    server.connect()?.ask(b"set k 0 0 5\r\nthird\r\n", b"STORED\r\n")?;
    let took = until("seen", || Ok(client.get("k")?.as_deref() == Some(b"third")))?;
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(find(&client, b"k")?.unwrap().1.is_local);
    // A server without local readers.
    drop(server);
    let server = ServerUnderTest::start_at(&binary(), address.clone(), &[])?;
    set_anew(&client, "fourth")?;
    let (value, hit) = find(&client, b"k")?.unwrap();
    assert_eq!((&value[..], hit.is_local), (&b"fourth"[..], false));
    drop(server);
    Ok(())
}

/// Stores and reads its own key many times.
fn asks_in_turn(client: &Client, key: &str) -> Result<()> {
    for number in 0..2_000 {
        let value = format!("{key} {number}");
        client.set(key, &value, None)?;
        let (found, hit) = find(client, key.as_bytes())?.context("what was just stored")?;
        ensure!(found == value.as_bytes(), "{value} in place of {found:?}");
        ensure!(hit.is_local, "{value} in place of {found:?}");
        ensure!(client.increment("numbers", 1)?.is_some());
    }
    Ok(())
}

#[test]
fn forked_processes_have_connections_of_their_own() -> Result<()> {
    let server = start(&READERS)?;
    let client = Client::connect(path(&server))?;
    client.set("numbers", "0", None)?;
    let ask = |key: &'static str| {
        let client = client.clone();
        move || i32::from(asks_in_turn(&client, key).is_err())
    };
    let children = ["one", "another"].map(|key| fork(ask(key)));
    asks_in_turn(&client, "the parent")?;
    assert_eq!(children.map(children::Child::wait), [0, 0]);
    assert_eq!(client.get("numbers")?.as_deref(), Some(&b"6000"[..]));
    Ok(())
}

#[test]
fn a_server_that_is_stopped_is_not_read_from_and_later_is_again() -> Result<()> {
    let server = start(&READERS)?;
    let client = Client::connect_within(path(&server), Duration::from_millis(300))?;
    client.set("k", "v", None)?;
    server.signal(Signal::STOP)?;
    let took = until("unbelieved", || Ok(client.get("k").is_err()))?;
    assert!(took < Duration::from_secs(6), "{took:?}");
    server.signal(Signal::CONT)?;
    until("believed", || Ok(client.reads_memory()))?;
    assert!(find(&client, b"k")?.unwrap().1.is_local);
    Ok(())
}

/// Runs a test of this file in another process, which then runs the part that uses `socket`.
struct Again(Child);

const SOCKET: &str = "LARDERTEST_SOCKET";

impl Again {
    fn start(test: &str, socket: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", test, "--nocapture"]).env(SOCKET, socket);
        Ok(Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.0), signal)?)
    }

    fn end(self) -> Result<String> {
        let mut child = self.0;
        let deadline = Instant::now() + Duration::from_secs(20);
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
            }
            sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output()?;
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{}: {out} {err}", output.status);
        Ok(out.into_owned())
    }
}

const TORN_KEYS: usize = 40;
const TORN_SECS: u64 = 3;

/// Returns a value that reveals a mix of two stores: the numbers of the key and of the store,
/// repeated to fill the length.
fn marked(key: usize, store: usize) -> Vec<u8> {
    let length = [3, 40, 100, 1500, 20_000, 100_000][(key + store) % 6];
    let mut value = format!("{key} {store} {length}|").into_bytes();
    let mut state = (key * 1_000_003 + store) as u64;
    while value.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        value.extend_from_slice(&state.to_le_bytes());
    }
    value
}

fn is_marked(key: usize, value: &[u8]) -> bool {
    let head = value.split(|byte| *byte == b'|').next().unwrap();
    let head = String::from_utf8_lossy(head).into_owned();
    let store = head.split(' ').nth(1).and_then(|store| store.parse().ok());
    store.is_some_and(|store| value == marked(key, store))
}

/// Reads for a while. Returns how many reads were local.
fn check_values(socket: &Path) -> Result<u64> {
    let client = Client::connect(socket)?;
    let (until, mut local, mut value) =
        (Instant::now() + Duration::from_secs(TORN_SECS), 0, Vec::new());
    while Instant::now() < until {
        for key in 0..TORN_KEYS {
            value.clear();
            if let Some(hit) = client.get_into(format!("t{key}"), &mut value)? {
                let shown = value[..value.len().min(60)].escape_ascii().to_string();
                ensure!(is_marked(key, &value), "t{key}: {} bytes: {shown}", value.len());
                local += u64::from(hit.is_local);
            }
        }
    }
    Ok(local)
}

#[test]
fn no_read_is_torn_while_values_are_overwritten_and_evicted() -> Result<()> {
    if let Some(socket) = std::env::var_os(SOCKET) {
        println!("local: {}", check_values(Path::new(&socket))?);
        return Ok(());
    }
    let server = start(&["--local-readers", "same-uid", "-m", "16"])?;
    let writer = Client::connect(path(&server))?;
    let test = "no_read_is_torn_while_values_are_overwritten_and_evicted";
    let readers = [(); 2].map(|()| Again::start(test, path(&server)));
    let until = Instant::now() + Duration::from_secs(TORN_SECS + 1);
    let mut stores = 0;
    while Instant::now() < until {
        for key in 0..TORN_KEYS {
            writer.set(format!("t{key}"), marked(key, stores), None)?;
            stores += 1;
        }
        if stores % 4000 == 0 {
            server.connect()?.ask(b"flush_all\r\n", b"OK\r\n")?;
        }
    }
    for reader in readers {
        let said = reader?.end()?;
        let local = said.split("local: ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let local: u64 = local.with_context(|| said.clone())?.parse()?;
        assert!(local > 1000, "{local} reads, {stores} stores");
        assert!(stores > 1000, "{local} reads, {stores} stores");
    }
    Ok(())
}

#[test]
fn a_reader_stopped_during_a_read_blocks_nothing() -> Result<()> {
    if let Some(socket) = std::env::var_os(SOCKET) {
        check_values(Path::new(&socket))?;
        return Ok(());
    }
    let server = start(&["--local-readers", "same-uid", "-m", "16"])?;
    let client = Client::connect(path(&server))?;
    for key in 0..TORN_KEYS {
        client.set(format!("t{key}"), marked(key, key), None)?;
    }
    let test = "a_reader_stopped_during_a_read_blocks_nothing";
    let reader = Again::start(test, path(&server))?;
    sleep(Duration::from_millis(500));
    let since = Instant::now();
    let mut stream = server.connect()?;
    for round in 0..40 {
        reader.signal(Signal::STOP)?;
        // All memory is overwritten, then hidden.
        for key in 0..200 {
            client.set(format!("t{key}"), marked(key, round), None)?;
        }
        stream.ask(b"flush_all\r\n", b"OK\r\n")?;
        assert_eq!(client.get("t1")?, None);
        reader.signal(Signal::CONT)?;
        sleep(Duration::from_millis(3));
    }
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    assert_eq!(stat(&mut stream, "larder", "segments_pinned")?, 0);
    reader.end().map(drop)
}
