//! A disk that hangs stops only those who need it: a real file system in user space holds the
//! calls of a server back.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, larderd};
use larder_testkit::{ServerUnderTest, Stream, Transport};
use tempfile::TempDir;

/// A mounted file system of `file_system.py`.
struct Disk {
    place: TempDir,
    process: Child,
}

impl Disk {
    fn mount() -> Result<Self> {
        let place = tempfile::Builder::new().prefix("larder-hangs-").tempdir()?;
        for name in ["real", "mounted", "orders"] {
            fs::create_dir(place.path().join(name))?;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk_hangs/file_system.py");
        let process = Command::new("/usr/bin/python3")
            .arg(script)
            .args(["real", "mounted", "orders"].map(|name| place.path().join(name)))
            .stdin(Stdio::null())
            .spawn()?;
        let disk = Self { place, process };
        fs::write(disk.place.path().join("real/probe"), "")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !disk.mounted().join("probe").exists() {
            ensure!(Instant::now() < deadline, "the file system is not mounted after 10 s");
            sleep(Duration::from_millis(20));
        }
        Ok(disk)
    }

    fn mounted(&self) -> PathBuf {
        self.place.path().join("mounted")
    }

    fn order(&self, order: &str) -> Result<()> {
        Ok(fs::write(self.place.path().join("orders").join(order), "")?)
    }

    fn withdraw(&self, order: &str) -> Result<()> {
        Ok(fs::remove_file(self.place.path().join("orders").join(order))?)
    }

    fn server(&self, args: &[&str]) -> Result<ServerUnderTest> {
        let path = self.mounted().join("items");
        let path = path.to_str().context("a path in UTF-8")?;
        let fixed = ["-m", "8", "-t", "1", "--tier-path", path, "--tier-size", "128m"];
        let args: Vec<&str> = fixed.iter().chain(args).copied().collect();
        let binary = larderd(env!("CARGO_BIN_EXE_larderd"));
        let server = ServerUnderTest::start(&binary, Transport::Tcp, &args)?;
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
        Ok(server)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for kind in ["hang-read", "hang-write", "hang-sync"] {
            // Most are not there.
            drop(fs::remove_file(self.place.path().join("orders").join(kind)));
        }
        drop(Command::new("umount").arg("-l").arg(self.mounted()).status());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

const VALUE: [u8; 10_000] = [b'v'; 10_000];

fn set(key: &str) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", VALUE.len()).as_bytes(), &VALUE, b"\r\n"].concat()
}

/// Stores more than the memory holds; then one item that memory keeps.
fn fill(stream: &mut Stream) -> Result<()> {
    for number in 0..1500 {
        let answer = stream.ask(&set(&format!("k{number}")), b"\r\n")?;
        ensure!(answer == b"STORED\r\n", "{}", String::from_utf8_lossy(&answer));
    }
    stream.ask(b"set hot 0 0 3\r\nhot\r\n", b"\r\n")?;
    sleep(Duration::from_millis(500));
    Ok(())
}

/// The longest of some gets of an item in memory.
fn slowest_hit(stream: &mut Stream) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        let answer = stream.ask(b"get hot\r\n", b"END\r\n")?;
        ensure!(answer.starts_with(b"VALUE hot"), "{}", String::from_utf8_lossy(&answer));
        slowest = slowest.max(begun.elapsed());
        sleep(Duration::from_millis(10));
    }
    Ok(slowest)
}

/// Reads that hang hold back only the connection that asked for them.
fn reads_hang(args: &[&str]) -> Result<()> {
    let disk = Disk::mount()?;
    let server = disk.server(args)?;
    let (mut asker, mut other) = (server.connect()?, server.connect()?);
    fill(&mut asker)?;
    disk.order("hang-read")?;
    asker.write_all(b"get k1 k2\r\n")?;
    sleep(Duration::from_millis(100));
    let slowest = slowest_hit(&mut other)?;
    ensure!(slowest < HIT_MAX, "a hit took {slowest:?} while another connection reads the disk");
    let stored = other.ask(b"set another 0 0 1\r\na\r\n", b"\r\n")?;
    ensure!(stored == b"STORED\r\n", "{}", String::from_utf8_lossy(&stored));
    disk.withdraw("hang-read")?;
    let answer = asker.ask(b"", b"END\r\n")?;
    let both = [b"VALUE k1 0 10000\r\n", &VALUE[..], b"\r\nVALUE k2 0 10000\r\n", &VALUE[..]];
    ensure!(answer == [&both.concat()[..], b"\r\nEND\r\n"].concat(), "{} bytes", answer.len());
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    Ok(())
}

/// Writes that hang hold back only changes, which fail before anything changes.
fn writes_hang(args: &[&str]) -> Result<()> {
    let disk = Disk::mount()?;
    let server = disk.server(args)?;
    let (mut writer, mut other) = (server.connect()?, server.connect()?);
    fill(&mut writer)?;
    disk.order("hang-write")?;
    disk.order("hang-sync")?;
    let mut refused = None;
    for number in 0..3000 {
        let answer = writer.ask(&set(&format!("w{number}")), b"\r\n")?;
        if answer != b"STORED\r\n" {
            refused = Some((number, answer));
            break;
        }
    }
    let (number, answer) = refused.context("no set is refused while the disk hangs")?;
    let expected = b"SERVER_ERROR the disk does not keep up; try again later\r\n";
    ensure!(answer == expected, "{}", String::from_utf8_lossy(&answer));
    writer.write_all(&set("waits"))?;
    let slowest = slowest_hit(&mut other)?;
    ensure!(slowest < HIT_MAX, "a hit took {slowest:?} while the set of another waits");
    let refused = other.ask(format!("get w{number}\r\n").as_bytes(), b"END\r\n")?;
    ensure!(refused == b"END\r\n", "the refused set is seen");
    disk.withdraw("hang-write")?;
    disk.withdraw("hang-sync")?;
    let mut rest = Vec::new();
    while !rest.ends_with(b"\r\n") {
        let mut byte = [0];
        match writer.read(&mut byte) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => ensure!(read? == 1, "the connection is closed"),
        }
        rest.extend(byte);
    }
    let stored = other.ask(b"set after 0 0 1\r\na\r\n", b"\r\n")?;
    ensure!(stored == b"STORED\r\n", "{}", String::from_utf8_lossy(&stored));
    ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make tier runs it"]
fn reads_that_hang_hold_back_only_those_who_need_them() -> Result<()> {
    for io in ["uring", "epoll"] {
        let store = ["--io", io, "--tier-mode", "store", "--durability", "sync"];
        reads_hang(&store).with_context(|| format!("a store, {io}"))?;
        let cache = ["--io", io, "--tier-mode", "cache"];
        reads_hang(&cache).with_context(|| format!("a cache, {io}"))?;
    }
    Ok(())
}

#[test]
#[ignore = "needs root, /dev/fuse and Debian's python3-fusepy: make tier runs it"]
fn writes_that_hang_hold_back_only_changes() -> Result<()> {
    for io in ["uring", "epoll"] {
        let args = ["--io", io, "--tier-mode", "store", "--durability", "async"];
        writes_hang(&args).with_context(|| format!("a store, {io}"))?;
    }
    Ok(())
}

/// Longer than any hit takes on a busy machine, shorter than a wait for the disk.
const HIT_MAX: Duration = Duration::from_millis(200);
