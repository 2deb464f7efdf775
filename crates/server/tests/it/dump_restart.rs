//! `--dump`: a clean stop writes the items, and the next start loads them. `--restore-ttl`: they
//! live no longer than that.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::Signal;
use larder_testkit::{ServerUnderTest, Stream, Transport, server};
use tempfile::TempDir;

use crate::binary;

/// A folder with a dump, in which one server runs after the other.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }

    fn dump(&self) -> PathBuf {
        self.folder.path().join("items.dump")
    }

    fn start(&self, args: &[&str]) -> Result<ServerUnderTest> {
        let dump = format!("--dump={}", self.dump().display());
        let args = [&[dump.as_str(), "-m", "64"], args].concat();
        ServerUnderTest::start(&binary(), Transport::Unix, &args)
    }
}

fn ask(server: &ServerUnderTest, request: &str, end: &str) -> Result<String> {
    let response = server.connect()?.ask(request.as_bytes(), end.as_bytes())?;
    Ok(String::from_utf8(response)?)
}

fn store(server: &ServerUnderTest, key: &str, exptime: u64, value: &str) -> Result<()> {
    let request = format!("set {key} 7 {exptime} {}\r\n{value}\r\n", value.len());
    ensure!(ask(server, &request, "\r\n")? == "STORED\r\n", "{key}");
    Ok(())
}

fn get(server: &ServerUnderTest, key: &str) -> Result<String> {
    ask(server, &format!("get {key}\r\n"), "END\r\n")
}

#[test]
fn items_are_kept_over_a_clean_stop() -> Result<()> {
    let scene = Scene::new()?;
    for signal in [Signal::TERM, Signal::USR1] {
        let server = scene.start(&[])?;
        for number in 0..1000 {
            store(&server, &format!("key:{number}"), 0, &format!("value {number}"))?;
        }
        store(&server, "large", 3600, &"x".repeat(900_000))?;
        store(&server, "short", 1, "gone soon")?;
        ensure!(server.stop(signal)?.success());
        let mode = fs::metadata(scene.dump())?.permissions().mode() & 0o777;
        ensure!(mode == 0o600, "{mode:o}");
        // A second is counted from the beginning of the current one.
        sleep(Duration::from_millis(2100));
        let server = scene.start(&[])?;
        ensure!(!scene.dump().exists(), "the dump is removed once it is loaded");
        ensure!(get(&server, "key:7")? == "VALUE key:7 7 7\r\nvalue 7\r\nEND\r\n");
        ensure!(get(&server, "large")?.len() > 900_000);
        ensure!(get(&server, "short")? == "END\r\n", "it has expired in between");
        let ttl = ask(&server, "mg large t\r\n", "\r\n")?;
        let ttl: u32 = ttl.trim().strip_prefix("HD t").context(ttl.clone())?.parse()?;
        ensure!((3500..=3600).contains(&ttl), "{ttl}");
        ensure!(ask(&server, "flush_all\r\n", "\r\n")? == "OK\r\n");
        server.stop(Signal::TERM)?;
    }
    Ok(())
}

/// A dump that outlived its start would bring back deleted items.
#[test]
fn a_crash_leaves_no_dump() -> Result<()> {
    let scene = Scene::new()?;
    let server = scene.start(&[])?;
    store(&server, "k", 0, "v")?;
    server.stop(Signal::TERM)?;
    let server = scene.start(&[])?;
    ensure!(ask(&server, "delete k\r\n", "\r\n")? == "DELETED\r\n");
    let _killed = server.stop(Signal::KILL);
    let server = scene.start(&[])?;
    ensure!(get(&server, "k")? == "END\r\n");
    Ok(())
}

#[test]
fn a_stop_during_the_start_loses_nothing() -> Result<()> {
    let scene = Scene::new()?;
    let server = scene.start(&[])?;
    for number in 0..20_000 {
        store_quietly(&server, number)?;
    }
    server.stop(Signal::TERM)?;
    for wait_ms in [0, 1, 2, 4, 8, 16, 32, 64] {
        let dump = format!("--dump={}", scene.dump().display());
        let mut child = server::command(&binary())
            .args(["-s", &scene.folder.path().join("s").display().to_string(), "-m", "64", &dump])
            .stderr(Stdio::null())
            .spawn()?;
        sleep(Duration::from_millis(wait_ms));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM)?;
        let status = child.wait()?;
        ensure!(scene.dump().exists(), "the stop after {wait_ms} ms ({status}) left no dump");
    }
    let server = scene.start(&[])?;
    let stats = ask(&server, "stats\r\n", "END\r\n")?;
    ensure!(stats.contains("STAT curr_items 20000\r\n"), "{stats}");
    Ok(())
}

fn store_quietly(server: &ServerUnderTest, number: u32) -> Result<()> {
    if number == 0 {
        let mut stream = server.connect()?;
        let items = (0..20_000).map(|number| format!("set key:{number} 0 0 1 noreply\r\nv\r\n"));
        stream.write_all(items.collect::<String>().as_bytes())?;
        stream.ask(b"mn\r\n", b"MN\r\n")?;
    }
    Ok(())
}

#[test]
fn a_damaged_dump_is_kept_under_another_name() -> Result<()> {
    let scene = Scene::new()?;
    for bytes in [&b"garbage"[..], b"", &[0xff; 4096]] {
        fs::write(scene.dump(), bytes)?;
        let server = scene.start(&[])?;
        store(&server, "k", 0, "v")?;
        ensure!(server.log().contains("cannot load"), "{}", server.log());
        let damaged = scene.folder.path().join("items.dump.damaged");
        ensure!(fs::read(&damaged)? == bytes);
        fs::remove_file(damaged)?;
        server.stop(Signal::TERM)?;
        fs::remove_file(scene.dump())?;
    }
    Ok(())
}

#[test]
fn a_full_volume_is_reported_and_the_stop_ends() -> Result<()> {
    let scene = Scene::new()?;
    let volume = scene.folder.path();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(volume)
        .stderr(Stdio::null())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        larder_testkit::skip("a tmpfs cannot be mounted here");
        return Ok(());
    }
    let outcome = (|| {
        let server = scene.start(&[])?;
        for number in 0..5 {
            store(&server, &format!("key:{number}"), 0, &"x".repeat(900_000))?;
        }
        let pid = server.pid();
        let began = Instant::now();
        let status = server.stop(Signal::TERM)?;
        ensure!(!status.success(), "{pid} ended well although its items are lost");
        ensure!(began.elapsed() < Duration::from_secs(10));
        ensure!(!scene.dump().exists() && fs::read_dir(volume)?.count() == 0, "a part is left");
        let server = scene.start(&[])?;
        ensure!(get(&server, "key:1")? == "END\r\n");
        Ok(())
    })();
    Command::new("umount").arg("-l").arg(volume).status()?;
    outcome
}

/// The limit also holds for an item whose life a client has extended, but not for one that a client
/// has stored since the start.
#[test]
fn restored_items_live_no_longer_than_the_limit() -> Result<()> {
    let scene = Scene::new()?;
    let disk = tempfile::tempdir()?;
    let directory = format!("--tier-path={}", disk.path().join("items").display());
    let file = format!("-e{}", disk.path().join("memory").display());
    let tier = [directory.as_str(), "--tier-size=64m", "--tier-mode=cache", "-m", "64"];
    let memory = [file.as_str(), "-m", "64"];
    let dump = format!("--dump={}", scene.dump().display());
    let dump = [dump.as_str(), "-m", "64"];
    for keeps in [&dump[..], &memory, &tier] {
        let start = |ttl: &[&str]| {
            ServerUnderTest::start(&binary(), Transport::Unix, &[keeps, ttl].concat())
        };
        let server = start(&[])?;
        for key in ["forever", "hour", "touched", "replaced", "deleted", "unread"] {
            store(&server, key, if key == "hour" { 3600 } else { 0 }, "old")?;
        }
        server.stop(Signal::TERM)?;
        let server = start(&["--restore-ttl=2"])?;
        let began = Instant::now();
        for key in ["forever", "hour", "touched", "replaced", "deleted"] {
            ensure!(get(&server, key)?.contains("old"), "{keeps:?}: {key} is restored");
        }
        ensure!(ask(&server, "touch touched 3600\r\n", "\r\n")? == "TOUCHED\r\n");
        ensure!(ask(&server, "delete deleted\r\n", "\r\n")? == "DELETED\r\n");
        store(&server, "replaced", 0, "new")?;
        store(&server, "stored", 0, "new")?;
        ensure!(began.elapsed() < Duration::from_millis(1500), "too slow to judge");
        sleep(Duration::from_millis(3500));
        for key in ["forever", "hour", "touched", "deleted", "unread"] {
            ensure!(get(&server, key)? == "END\r\n", "{keeps:?}: {key} outlives the limit");
        }
        for key in ["replaced", "stored"] {
            ensure!(get(&server, key)?.contains("new"), "{keeps:?}: {key} is new");
        }
        server.stop(Signal::TERM)?;
    }
    Ok(())
}

#[test]
fn options_that_contradict_each_other_are_refused() -> Result<()> {
    for (args, expected) in [
        (&["--dump=/tmp/d", "-e", "/tmp/m"][..], "the file of -e keeps the items already"),
        (
            &["--dump=/tmp/d", "--tier-path=/tmp/t", "--tier-size=64m", "--tier-mode=cache"],
            "the directory of --tier-path keeps the items already",
        ),
        (&["--dump=/tmp/d", "-o", "drop_privileges"], "drop_privileges forbids to write it"),
        (&["--check", "--dump=/tmp"], "it is not a regular file"),
        (&["--check", "--dump=/nonexistent/d"], "option --dump: cannot use /nonexistent/d"),
        (&["--restore-ttl=300"], "this server restores no items"),
        (&["--restore-ttl=300", "--dump=/tmp/d", "-C"], "cas tokens"),
        (
            &["--restore-ttl=9", "--tier-path=/tmp/t", "--tier-size=64m", "--tier-mode=store"],
            "a store must not lose items",
        ),
    ] {
        let output = server::command(&binary()).args(args).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        ensure!(!output.status.success() && text.contains(expected), "{args:?}: {text}");
    }
    Ok(())
}

/// A stream that is closed in the middle of a request does not matter to the dump.
#[test]
fn a_stop_with_open_connections_writes_the_dump() -> Result<()> {
    let scene = Scene::new()?;
    let server = scene.start(&[])?;
    store(&server, "k", 0, "v")?;
    let mut idle: Vec<Stream> = (0..20).map(|_| server.connect()).collect::<Result<_>>()?;
    for stream in &mut idle {
        stream.write_all(b"set unfinished 0 0 100\r\nabc")?;
    }
    ensure!(server.stop(Signal::TERM)?.success());
    let server = scene.start(&[])?;
    ensure!(get(&server, "k")?.contains("v") && get(&server, "unfinished")? == "END\r\n");
    Ok(())
}
