//! Origins that do not report changes: a memcached, or a larderd without `--followers`. Each copy
//! is used for `--near-ttl`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::server::{Signal, memcached};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, skip};

use super::{ask, await_state, binary_request, count, get, hit, set, shown, start_near, stat};
use crate::binary;

const TTL: Duration = Duration::from_secs(1);

/// Returns the memcached that is the origin: another version than the installed one, if
/// MEMCACHED_ORIGIN names it.
fn origin_program() -> Result<PathBuf> {
    std::env::var_os("MEMCACHED_ORIGIN").map_or_else(memcached, |path| Ok(path.into()))
}

struct Scene {
    origin: ServerUnderTest,
    near: ServerUnderTest,
}

impl Scene {
    /// Starts a memcached, and a near cache in front of it.
    fn start(near_args: &[&str]) -> Result<Self> {
        let origin = ServerUnderTest::start(&origin_program()?, Transport::Tcp, &["-I", "8m"])?;
        Self::before(origin, near_args)
    }

    fn before(origin: ServerUnderTest, near_args: &[&str]) -> Result<Self> {
        let near = start_near(&shown(origin.address()), near_args)?;
        await_state(&near, "timed")?;
        Ok(Self { origin, near })
    }

    fn connect(&self) -> Result<(Stream, Stream)> {
        Ok((self.origin.connect()?, self.near.connect()?))
    }
}

/// Reads a key until the value is there. Returns how often another value was read.
fn read_until(stream: &mut Stream, key: &str, expected: &str) -> Result<u32> {
    let deadline = Instant::now() + Duration::from_secs(5);
    for others in 0.. {
        let answer = get(stream, key)?;
        if answer == hit(key, expected) {
            return Ok(others);
        }
        ensure!(Instant::now() < deadline, "{answer:?}, not {expected}");
    }
    Ok(0)
}

#[test]
fn copies_of_a_memcached_are_used_for_a_second_at_most() -> Result<()> {
    let scene = Scene::start(&[])?;
    ensure!(scene.near.log().contains("each copy is used for 1s"), "{}", scene.near.log());
    let (mut origin, mut near) = scene.connect()?;
    let mut old_reads = 0;
    for n in 0..6 {
        set(&mut origin, "k", &format!("old {n}"))?;
        read_until(&mut near, "k", &format!("old {n}"))?;
        set(&mut origin, "k", &format!("new {n}"))?;
        let changed = Instant::now();
        loop {
            let begun = changed.elapsed();
            let answer = get(&mut near, "k")?;
            if answer == hit("k", &format!("new {n}")) {
                break;
            }
            ensure!(answer == hit("k", &format!("old {n}")), "{answer:?}");
            ensure!(begun < TTL, "{answer:?} is read {begun:?} after the change");
            old_reads += 1;
        }
        // Each time in another part of the second.
        sleep(Duration::from_millis(170));
    }
    ensure!(old_reads > 100, "{old_reads} reads were answered from copies");
    // Most reads do not reach the memcached.
    let (before, begin) = (count(&scene.near, "near_fetches")?, Instant::now());
    for _ in 0..2000 {
        get(&mut near, "k")?;
    }
    let fetched = count(&scene.near, "near_fetches")? - before;
    let seconds = begin.elapsed().as_secs() + 2;
    ensure!(fetched <= seconds, "{fetched} fetches in less than {seconds} s");
    Ok(())
}

#[test]
fn own_writes_are_seen_at_once() -> Result<()> {
    let scene = Scene::start(&[])?;
    let (mut origin, mut near) = scene.connect()?;
    for n in 0..200 {
        set(&mut near, "k", &n.to_string())?;
        assert_eq!(get(&mut near, "k")?, hit("k", &n.to_string()));
        assert_eq!(get(&mut near, "k")?, hit("k", &n.to_string()));
    }
    assert_eq!(ask(&mut near, "incr k 1\r\n", "\r\n")?, "200\r\n");
    assert_eq!(get(&mut near, "k")?, hit("k", "200"));
    assert_eq!(get(&mut origin, "k")?, hit("k", "200"));
    // The cas token of a copy is that of the item.
    let answer = ask(&mut near, "gets k\r\n", "END\r\n")?;
    let token =
        answer.lines().next().and_then(|line| line.split(' ').nth(4)).context("no token")?;
    assert_eq!(ask(&mut near, &format!("cas k 5 0 1 {token}\r\nv\r\n"), "\r\n")?, "STORED\r\n");
    assert_eq!(get(&mut near, "k")?, "VALUE k 5 1\r\nv\r\nEND\r\n");
    assert_eq!(ask(&mut near, &format!("cas k 0 0 1 {token}\r\nw\r\n"), "\r\n")?, "EXISTS\r\n");
    assert_eq!(ask(&mut near, "delete k\r\n", "\r\n")?, "DELETED\r\n");
    assert_eq!(get(&mut near, "k")?, "END\r\n");
    set(&mut origin, "k", "v")?;
    assert_eq!(get(&mut near, "k")?, hit("k", "v"), "an absent key is not remembered");
    assert_eq!(ask(&mut near, "flush_all\r\n", "\r\n")?, "OK\r\n");
    assert_eq!(get(&mut near, "k")?, "END\r\n");
    Ok(())
}

/// `gets` tells neither how long an item lives nor whether it is stale, so `mg` is passed on.
#[test]
fn meta_reads_are_answered_by_the_memcached() -> Result<()> {
    let scene = Scene::start(&[])?;
    let (mut origin, mut near) = scene.connect()?;
    ask(&mut origin, "set k 3 500 1\r\nv\r\n", "STORED\r\n")?;
    get(&mut near, "k")?;
    for (request, end, expected) in [
        ("mg k f s v\r\n", "v\r\n", "VA 1 f3 s1\r\nv\r\n"),
        ("md k I T30\r\n", "\r\n", "HD\r\n"),
        ("mg k f v\r\n", "v\r\n", "VA 1 f3 X W\r\nv\r\n"),
        ("mg k f v\r\n", "v\r\n", "VA 1 f3 Z X\r\nv\r\n"),
        ("get k\r\n", "END\r\n", "VALUE k 3 1\r\nv\r\nEND\r\n"),
        // The token is still taken: the get has taken none.
        ("mg k f v\r\n", "v\r\n", "VA 1 f3 Z X\r\nv\r\n"),
        ("mg YSBrZXk= b v\r\n", "\r\n", "EN\r\n"),
        ("ms YSBrZXk= 3 b\r\nabc\r\n", "\r\n", "HD\r\n"),
        ("mg YSBrZXk= b k v\r\n", "abc\r\n", "VA 3 kYSBrZXk= b\r\nabc\r\n"),
    ] {
        assert_eq!(ask(&mut near, request, end)?, expected, "{request:?}");
    }
    Ok(())
}

#[test]
fn lists_large_values_and_binary_gets_work() -> Result<()> {
    let scene = Scene::start(&["-I", "8m"])?;
    let (mut origin, mut near) = scene.connect()?;
    let mut expected = String::new();
    for n in 0..100 {
        let value = "x".repeat(n * 7);
        set(&mut origin, &format!("k{n}"), &value)?;
        expected += &format!("VALUE k{n} 0 {}\r\n{value}\r\n", value.len());
    }
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    for _ in 0..3 {
        let list = format!("get none {} none\r\n", keys.join(" "));
        assert_eq!(ask(&mut near, &list, "END\r\n")?, format!("{expected}END\r\n"));
    }
    // Neither is copied, and the second one is not received in one piece.
    for bytes in [100_000, 3_000_000] {
        let value = "y".repeat(bytes);
        set(&mut near, "large", &value)?;
        for _ in 0..3 {
            assert!(get(&mut near, "large")? == hit("large", &value), "{bytes}");
            assert_eq!(get(&mut near, "k1")?, hit("k1", "xxxxxxx"));
        }
    }
    let request = binary_request(0, b"", b"k1", b"");
    let mut binary = scene.near.connect()?;
    for _ in 0..3 {
        let answer = binary.ask(&request, b"xxxxxxx")?;
        assert_eq!((answer[0], answer[7], answer[11]), (0x81, 0, 11), "{answer:?}");
    }
    Ok(())
}

/// A memcached that was restarted counts cas tokens from the start.
#[test]
fn a_lost_connection_drops_all_copies() -> Result<()> {
    let address = larder_testkit::server::free_address()?;
    let start = || ServerUnderTest::start_at(&origin_program()?, Address::Tcp(address), &[]);
    let scene = Scene::before(start()?, &["--near-ttl=3600s"])?;
    let (mut origin, mut near) = scene.connect()?;
    set(&mut origin, "k", "old")?;
    assert_eq!(get(&mut near, "k")?, hit("k", "old"));
    set(&mut origin, "k", "unseen")?;
    sleep(Duration::from_millis(50));
    assert_eq!(get(&mut near, "k")?, hit("k", "old"), "copies live for an hour");
    let Scene { origin, near: server } = scene;
    origin.stop(Signal::KILL)?;
    let answer = get_or_error(&mut near)?;
    ensure!(answer.starts_with("SERVER_ERROR origin"), "{answer:?}");
    let origin = start()?;
    set(&mut origin.connect()?, "k", "new")?;
    let deadline = Instant::now() + Duration::from_secs(5);
    while get_or_error(&mut near)? != hit("k", "new") {
        ensure!(Instant::now() < deadline, "{:?}: {}", get_or_error(&mut near)?, server.log());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn get_or_error(stream: &mut Stream) -> Result<String> {
    stream.write_all(b"get k\r\nmn\r\n")?;
    let answer = stream.ask(b"", b"MN\r\n")?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok(answer.strip_suffix("MN\r\n").unwrap_or_default().to_owned())
}

/// The near cache asks again from time to time whether the origin reports changes.
#[test]
fn an_origin_may_begin_and_cease_to_report_changes() -> Result<()> {
    let address = larder_testkit::server::free_address()?;
    let start = |args: &[&str]| ServerUnderTest::start_at(&binary(), Address::Tcp(address), args);
    let Scene { origin, near } = Scene::before(start(&[])?, &[])?;
    set(&mut origin.connect()?, "k", "v")?;
    assert_eq!(get(&mut near.connect()?, "k")?, hit("k", "v"));
    origin.stop(Signal::TERM)?;
    let origin = start(&["--followers=4"])?;
    await_state(&near, "copies")?;
    set(&mut origin.connect()?, "k", "w")?;
    read_until(&mut near.connect()?, "k", "w")?;
    let kept = count(&near, "near_kept")?;
    origin.stop(Signal::TERM)?;
    let origin = start(&[])?;
    await_state(&near, "timed")?;
    set(&mut origin.connect()?, "k", "x")?;
    read_until(&mut near.connect()?, "k", "x")?;
    ensure!(count(&near, "near_kept")? > kept, "{}", stat(&near, "near_kept")?);
    Ok(())
}

/// The bound holds also for readers of the memory, and while the near cache is stopped.
#[test]
fn readers_of_the_memory_use_no_copy_that_is_too_old() -> Result<()> {
    let origin = ServerUnderTest::start(&origin_program()?, Transport::Tcp, &[])?;
    let source = format!("--origin={}", shown(origin.address()));
    let args = [&*source, "--local-readers=same-uid"];
    let near = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    await_state(&near, "timed")?;
    let Address::Unix(path) = near.address() else { bail!("no unix socket") };
    let client = larder::Client::connect_within(path, Duration::from_millis(300))?;
    let mut writer = origin.connect()?;
    let mut local_reads = 0;
    for n in 0..4 {
        set(&mut writer, "k", &format!("old {n}"))?;
        let old = format!("old {n}").into_bytes();
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut value = Vec::new();
        // Until the copy is in the memory.
        while !client.get_into("k", &mut value)?.is_some_and(|hit| hit.is_local) || value != old {
            ensure!(Instant::now() < deadline, "{value:?} is not local");
            value.clear();
        }
        near.signal(Signal::STOP)?;
        sleep(Duration::from_millis(20));
        set(&mut writer, "k", "new")?;
        let changed = Instant::now();
        while changed.elapsed() < Duration::from_millis(1300) {
            let begun = changed.elapsed();
            let mut value = Vec::new();
            let is_read = client.get_into("k", &mut value).is_ok_and(|hit| hit.is_some());
            ensure!(!is_read || begun < TTL, "{value:?} is read after {begun:?}");
            local_reads += u32::from(is_read);
        }
        near.signal(Signal::CONT)?;
    }
    ensure!(local_reads > 100, "the memory was read {local_reads} times");
    Ok(())
}

/// Keys of `mg` and of the binary protocol may contain whatever ends a line of the text protocol.
#[test]
fn keys_are_never_read_as_commands() -> Result<()> {
    let scene = Scene::start(&[])?;
    let (mut origin, mut near) = scene.connect()?;
    set(&mut origin, "canary", "alive")?;
    let key = "x\r\nflush_all\r\nget ";
    // In base64.
    let encoded = "eA0KZmx1c2hfYWxsDQpnZXQg";
    for n in 0..20 {
        // The keys that follow a miss are fetched with it.
        let requests = format!("get none{n}\r\nmg {encoded} b v\r\nget other{n}\r\nmn\r\n");
        assert_eq!(ask(&mut near, &requests, "MN\r\n")?, "END\r\nEN\r\nEND\r\nMN\r\n");
    }
    let request = |key: &str| binary_request(0, b"", key.as_bytes(), b"");
    let mut binary = scene.near.connect()?;
    for n in 0..20 {
        let requests = [request(&format!("none:{n}")), request(key)].concat();
        let answer = binary.ask(&requests, b"Not found")?;
        assert_eq!((answer[0], answer[7]), (0x81, 1), "{answer:?}");
        // The first answer may arrive alone.
        if answer.len() < 60 {
            binary.ask(b"", b"Not found")?;
        }
    }
    assert_eq!(get(&mut near, "canary")?, hit("canary", "alive"));
    assert_eq!(get(&mut origin, "canary")?, hit("canary", "alive"));
    ensure!(!scene.near.log().contains("lost"), "{}", scene.near.log());
    Ok(())
}

/// A router accepts no meta commands. twemproxy closes the connection.
#[test]
fn a_router_is_no_origin() -> Result<()> {
    let Some(program) = ["/usr/sbin/nutcracker", "/usr/bin/nutcracker"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
    else {
        skip("twemproxy is not installed");
        return Ok(());
    };
    let origin = ServerUnderTest::start(&origin_program()?, Transport::Tcp, &[])?;
    let (folder, address) = (tempfile::tempdir()?, larder_testkit::server::free_address()?);
    let file = folder.path().join("nutcracker.yml");
    let servers = format!("  servers:\n    - {}:1\n", shown(origin.address()));
    std::fs::write(&file, format!("pool:\n  listen: {address}\n{servers}"))?;
    let statistics = larder_testkit::server::free_address()?.port().to_string();
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).args(["-s", &statistics, "-a", "127.0.0.1"]);
    let mut router = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let near = start_near(&address.to_string(), &[])?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !near.log().contains("as routers and old servers do") && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
    }
    let log = near.log();
    let answer = ask(&mut near.connect()?, "get k\r\n", "\r\n")?;
    router.kill()?;
    router.wait()?;
    ensure!(log.contains("it closed the connection after larder_follow"), "{log}");
    ensure!(answer == "SERVER_ERROR origin unreachable\r\n", "{answer:?}");
    Ok(())
}
