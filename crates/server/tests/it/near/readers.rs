//! Programs that read the copies of a near cache in its memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder::{Client, ClientError};
use larder_testkit::proxy::{Flow, Flows, Proxy};
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest, Transport, skip};

use super::{await_state, count, set};
use crate::binary;

/// The options of a near cache whose memory may be read.
const READERS_ARGS: [&str; 3] =
    ["--local-readers=same-uid", "--near-max-stale=1s", "--origin-timeout=200ms"];

/// An origin, and a near cache on a unix socket whose memory may be read.
struct Scene {
    origin: ServerUnderTest,
    near: ServerUnderTest,
}

impl Scene {
    fn start(origin_args: &[&str]) -> Result<Self> {
        let origin_args = [&["--followers=64"], origin_args].concat();
        let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &origin_args)?;
        let near = near_of(&super::shown(origin.address()))?;
        Ok(Self { origin, near })
    }
}

/// Starts a near cache on a unix socket.
fn near_of(origin: &str) -> Result<ServerUnderTest> {
    let origin = format!("--origin={origin}");
    let args = [&[&*origin][..], &READERS_ARGS].concat();
    let near = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    await_state(&near, "copies")?;
    Ok(near)
}

fn path(server: &ServerUnderTest) -> &Path {
    match server.address() {
        Address::Unix(path) => path,
        Address::Tcp(_) => panic!("it listens on a unix socket"),
    }
}

/// Opens a client that waits for half a second at most.
fn reader(server: &ServerUnderTest) -> Result<Client> {
    Ok(Client::connect_within(path(server), Duration::from_millis(500))?)
}

/// Reads a key. The second value is true if it was found in the memory.
fn look(client: &Client, key: &str) -> Result<Option<(String, bool)>, ClientError> {
    let mut value = Vec::new();
    let hit = client.get_into(key, &mut value)?;
    Ok(hit.map(|hit| (String::from_utf8_lossy(&value).into_owned(), hit.is_local)))
}

fn found(value: &str, is_local: bool) -> Option<(String, bool)> {
    Some((value.to_owned(), is_local))
}

/// Reads until the value is found in the memory.
fn await_in_memory(client: &Client, key: &str, value: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let answer = look(client, key)?;
        if answer == found(value, true) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{answer:?}, not {value} in the memory");
    }
}

#[test]
fn copies_are_read_in_the_memory_until_they_change() -> Result<()> {
    for io in ["uring", "epoll"] {
        let scene = Scene::start(&[&format!("--io={io}")])?;
        let (mut origin, client) = (scene.origin.connect()?, reader(&scene.near)?);
        assert_eq!(look(&client, "k")?, None);
        for n in 0..20 {
            set(&mut origin, "k", &n.to_string())?;
            await_in_memory(&client, "k", &n.to_string())?;
        }
        let fetches = count(&scene.near, "near_fetches")?;
        for _ in 0..1000 {
            assert_eq!(look(&client, "k")?, found("19", true));
        }
        assert_eq!(count(&scene.near, "near_fetches")?, fetches);
        // Own writes are seen at once, also before the origin has told them.
        for n in 0..200 {
            let value = format!("own {n}");
            client.set("k", &value, None)?;
            assert_eq!(look(&client, "k")?.map(|(found, _)| found), Some(value));
        }
        assert!(client.delete("k")?);
        assert_eq!(look(&client, "k")?, None);
    }
    Ok(())
}

/// A stopped near cache drops no copies. Its readers stop to use them when they may be too old.
#[test]
fn readers_of_a_stopped_near_cache_find_nothing_too_old() -> Result<()> {
    let scene = Scene::start(&[])?;
    let (mut origin, client) = (scene.origin.connect()?, reader(&scene.near)?);
    for n in 0..3 {
        set(&mut origin, "k", &format!("old {n}"))?;
        await_in_memory(&client, "k", &format!("old {n}"))?;
        scene.near.signal(Signal::STOP)?;
        // A thread that runs stops a little later.
        sleep(Duration::from_millis(20));
        set(&mut origin, "k", &format!("new {n}"))?;
        let (changed, mut was_read) = (Instant::now(), false);
        loop {
            let begun = changed.elapsed();
            let answer = look(&client, "k");
            let is_old =
                answer.as_ref().is_ok_and(|answer| *answer == found(&format!("old {n}"), true));
            was_read |= is_old;
            ensure!(!is_old || begun < Duration::from_secs(1), "old after {begun:?}");
            if begun > Duration::from_millis(1500) {
                ensure!(answer.is_err(), "a stopped server has answered {answer:?}");
                break;
            }
        }
        ensure!(was_read, "the memory was never read");
        scene.near.signal(Signal::CONT)?;
        await_in_memory(&client, "k", &format!("new {n}"))?;
    }
    Ok(())
}

/// If the answers of the origin are late, the changes are, too.
#[test]
fn readers_use_no_memory_while_the_stream_is_late() -> Result<()> {
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=1"])?;
    let Address::Tcp(address) = origin.address() else { bail!("not TCP") };
    let proxy = Proxy::start(*address)?;
    let near = near_of(&proxy.address().to_string())?;
    let (mut writer, client) = (origin.connect()?, reader(&near)?);
    set(&mut writer, "k", "old")?;
    await_in_memory(&client, "k", "old")?;
    // The change stream is the first connection of a near cache.
    let late = Flow::Delay(Duration::from_millis(1500));
    proxy.links()[0].set(&Flows { to_client: late, ..Flows::default() });
    set(&mut writer, "k", "new")?;
    let (changed, mut by_socket) = (Instant::now(), 0);
    while changed.elapsed() < Duration::from_secs(4) {
        let begun = changed.elapsed();
        let (value, is_local) = look(&client, "k")?.context("the item is gone")?;
        ensure!(value == "new" || begun < Duration::from_secs(1), "{value} after {begun:?}");
        by_socket += u32::from(!is_local);
    }
    ensure!(by_socket > 100, "the memory was used although the stream was late");
    Ok(())
}

/// A reader does not know when copies were fresh if its clock is not that of the near cache. The
/// test starts itself in time namespaces: there it reads at the socket that a variable names.
#[test]
fn readers_whose_clock_differs_use_no_memory() -> Result<()> {
    if let Some(socket) = std::env::var_os(SOCKET) {
        return read_elsewhere(&PathBuf::from(socket));
    }
    let probe = Command::new("unshare").args(["--time", "--kill-child", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("a time namespace needs root and unshare");
        return Ok(());
    }
    let scene = Scene::start(&[])?;
    set(&mut scene.origin.connect()?, "k", "v")?;
    await_in_memory(&reader(&scene.near)?, "k", "v")?;
    for monotonic in ["0", "100", "1000000"] {
        let mut child = Command::new("unshare");
        child.args(["--time", "--monotonic", monotonic, "--kill-child", "--"]);
        child.arg(std::env::current_exe()?).arg("--exact");
        child.arg("near::readers::readers_whose_clock_differs_use_no_memory");
        child.env(SOCKET, path(&scene.near)).stdin(Stdio::null());
        child.env(IS_LOCAL, if monotonic == "0" { "yes" } else { "no" });
        let output = child.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success() && text.contains("1 passed"), "{monotonic}: {text}");
    }
    Ok(())
}

fn read_elsewhere(socket: &Path) -> Result<()> {
    let client = Client::connect(socket)?;
    let is_local = std::env::var(IS_LOCAL)? == "yes";
    look(&client, "k")?;
    for _ in 0..100 {
        assert_eq!(look(&client, "k")?, found("v", is_local));
    }
    Ok(())
}

const SOCKET: &str = "NEAR_READER_SOCKET";
const IS_LOCAL: &str = "NEAR_READER_IS_LOCAL";

/// When copies are no longer fresh, all readers ask at the same time. The near cache fetches the
/// key once for all of them, also when the origin answers again.
#[test]
fn readers_that_ask_together_share_fetches() -> Result<()> {
    const READERS: usize = 1000;
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=64"])?;
    let origin_arg = format!("--origin={}", super::shown(origin.address()));
    let args = [&[&*origin_arg, "-c", "4000"][..], &READERS_ARGS].concat();
    let near = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    await_state(&near, "copies")?;
    let scene = Scene { origin, near };
    set(&mut scene.origin.connect()?, "k", "v")?;
    await_in_memory(&reader(&scene.near)?, "k", "v")?;
    let fetches = count(&scene.near, "near_fetches")?;
    let all_connected = Barrier::new(READERS + 1);
    scope(|scope| {
        let readers = (0..READERS).map(|_| {
            scope.spawn(|| -> Result<(u64, u64)> {
                let client = reader(&scene.near);
                all_connected.wait();
                let (client, mut counts) = (client?, (0, 0));
                let until = Instant::now() + Duration::from_secs(3);
                while Instant::now() < until {
                    match look(&client, "k") {
                        Ok(Some((_, true))) => counts.0 += 1,
                        Ok(Some((_, false))) | Err(_) => counts.1 += 1,
                        Ok(None) => bail!("the item is gone"),
                    }
                    sleep(Duration::from_millis(10));
                }
                Ok(counts)
            })
        });
        let readers: Vec<_> = readers.collect();
        all_connected.wait();
        sleep(Duration::from_millis(300));
        // Copies are fresh for at most a second, and all readers ask from then on.
        scene.origin.signal(Signal::STOP)?;
        sleep(Duration::from_millis(1700));
        scene.origin.signal(Signal::CONT)?;
        let (mut local, mut asked) = (0, 0);
        for reader in readers {
            let counts = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
            (local, asked) = (local + counts.0, asked + counts.1);
        }
        let fetched = count(&scene.near, "near_fetches")? - fetches;
        println!("{local} in the memory, {asked} asked, {fetched} fetched");
        ensure!(local > 1000 && asked > 1000, "{local} in the memory, {asked} asked");
        ensure!(fetched < asked / 100, "{fetched} fetches for {asked} requests");
        Ok(())
    })
}

/// The hits in the memory of a near cache reach neither server, and some of them are reported.
#[test]
fn the_origin_keeps_items_that_are_read_in_the_memory_of_near_caches() -> Result<()> {
    let scene = Scene::start(&["-m", "8"])?;
    let (mut origin, client) = (scene.origin.connect()?, reader(&scene.near)?);
    let hot: Vec<String> = (0..50).map(|n| format!("hot:{n}")).collect();
    for key in &hot {
        set(&mut origin, key, key)?;
        await_in_memory(&client, key, key)?;
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let read_all = || -> Result<()> {
        let reported = count(&scene.near, "local_reads")? + 1000;
        while count(&scene.near, "local_reads")? < reported {
            ensure!(Instant::now() < deadline, "the reads are not reported to the near cache");
            for key in hot.iter().cycle().take(5000) {
                look(&client, key)?;
            }
        }
        // The near cache reports to the origin every 100 ms, and later if other tests run.
        sleep(Duration::from_millis(300));
        Ok(())
    };
    let filler = "x".repeat(1000);
    for n in 0..12_000 {
        if n % 400 == 0 {
            read_all()?;
        }
        // Read at once, so that these items count as much as those that were fetched once.
        let cold = format!("cold:{n}");
        set(&mut origin, &cold, &filler)?;
        super::ask(&mut origin, &format!("get {cold} {cold} {cold}\r\n"), "END\r\n")?;
    }
    let mut kept = 0;
    for key in &hot {
        kept += u32::from(super::get(&mut origin, key)? == super::hit(key, key));
    }
    ensure!(super::get(&mut origin, "cold:0")? == "END\r\n", "nothing was evicted");
    ensure!(kept >= 45, "the origin has kept {kept} of 50 items that are always read");
    Ok(())
}
