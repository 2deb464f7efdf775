//! Clocks that differ or are moved. Times of the two servers are never compared with each other,
//! and the freshness of copies is measured on the boot clock of the near cache.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::proxy::{Flow, Flows, Proxy};
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, skip};

use super::{Chain, ask, await_state, count, get, hit, read_until, set, shown, start_near};
use crate::binary;

/// A clock that is moved makes copies expire earlier at most. Other reads and reports continue.
#[test]
fn a_clock_that_moves_changes_no_promise() -> Result<()> {
    let debugtime = ["-o", "debugtime"];
    let chain =
        Chain::over(Transport::Tcp, &debugtime, &["-o", "debugtime", "--near-max-stale=1s"])?;
    let (mut origin, mut near) = chain.connect()?;
    for (moves_near, moved) in [(true, "1000"), (false, "1000"), (true, "p"), (true, "r")] {
        set(&mut origin, "k", "old")?;
        ask(&mut origin, "set timed 0 500 1\r\nv\r\n", "STORED\r\n")?;
        read_until(&mut near, "k", &hit("k", "old"))?;
        read_until(&mut near, "timed", &hit("timed", "v"))?;
        let mover = if moves_near { &mut near } else { &mut origin };
        ask(mover, &format!("debugtime {moved}\r\n"), "OK\r\n")?;
        assert_eq!(get(&mut near, "k")?, hit("k", "old"), "{moved}");
        if moves_near {
            assert_eq!(get(&mut near, "timed")?, hit("timed", "v"), "the origin still has it");
        }
        set(&mut origin, "k", "new")?;
        read_until(&mut near, "k", &hit("k", "new"))?;
        ask(&mut origin, "delete timed\r\n", "\r\n")?;
        read_until(&mut near, "timed", "END\r\n")?;
    }
    Ok(())
}

/// If the answers to `alive` are later than copies may be stale, they make no copy fresh. The
/// changes are as late, so a copy that counted as fresh would be too old.
#[test]
fn late_answers_of_the_origin_make_no_copy_fresh() -> Result<()> {
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=1"])?;
    let Address::Tcp(address) = origin.address() else { bail!("not TCP") };
    let proxy = Proxy::start(*address)?;
    let near = start_near(
        &proxy.address().to_string(),
        &["--near-max-stale=500ms", "--origin-timeout=200ms"],
    )?;
    await_state(&near, "copies")?;
    let (mut writer, mut reader) = (origin.connect()?, near.connect()?);
    // The change stream is the first connection of a near cache.
    let late = Flow::Delay(Duration::from_millis(800));
    proxy.links()[0].set(&Flows { to_client: late, ..Flows::default() });
    sleep(Duration::from_millis(1000));
    for n in 0..4 {
        set(&mut writer, "k", &n.to_string())?;
        get(&mut reader, "k")?;
        set(&mut writer, "k", &format!("new {n}"))?;
        sleep(Duration::from_millis(600));
        assert_eq!(get(&mut reader, "k")?, hit("k", &format!("new {n}")));
    }
    assert_eq!(count(&near, "near_streams_lost")?, 0, "the stream was lost, not late");
    Ok(())
}

/// A near cache in a time namespace. Dropping it ends the process.
struct Elsewhere {
    process: Child,
    address: Address,
    _folder: tempfile::TempDir,
}

impl Elsewhere {
    /// Starts a near cache whose clocks are ahead of those of its origin.
    fn start(origin: &ServerUnderTest, ahead_secs: [u32; 2]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("socket");
        let [monotonic, boot] = ahead_secs.map(|secs| secs.to_string());
        let mut unshare = Command::new("unshare");
        unshare.args(["--time", "--monotonic", &monotonic, "--boottime", &boot]);
        unshare.arg("--kill-child").arg("--").arg(binary()).args(["-u", "root", "-s"]);
        unshare.arg(&socket).arg(format!("--origin={}", shown(origin.address())));
        unshare.args(["--near-max-stale=1s", "--origin-timeout=200ms"]);
        unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let address = Address::Unix(socket);
        Ok(Self { process: unshare.spawn()?, address, _folder: folder })
    }

    /// Connects once the near cache uses copies.
    fn connect(&self) -> Result<Stream> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Ok(mut stream) = Stream::connect(&self.address)
                && ask(&mut stream, "stats larder\r\n", "END\r\n")?
                    .contains("STAT near_fresh 1\r\n")
            {
                return Ok(stream);
            }
            ensure!(Instant::now() < deadline, "the near cache does not follow");
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // It fails if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn servers_whose_clocks_differ_keep_the_promises() -> Result<()> {
    let probe = Command::new("unshare").args(["--time", "--kill-child", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("a time namespace needs root and unshare");
        return Ok(());
    }
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=4"])?;
    let mut direct = origin.connect()?;
    for ahead_secs in [[0, 100_000], [100_000, 0], [100_000, 5_000_000]] {
        let near = Elsewhere::start(&origin, ahead_secs)?;
        let mut client = near.connect()?;
        set(&mut direct, "k", "old")?;
        ask(&mut direct, "set timed 0 3 1\r\nv\r\n", "STORED\r\n")?;
        let began = Instant::now();
        read_until(&mut client, "k", &hit("k", "old"))?;
        assert_eq!(get(&mut client, "timed")?, hit("timed", "v"));
        set(&mut direct, "k", "new")?;
        read_until(&mut client, "k", &hit("k", "new"))?;
        while get(&mut client, "timed")? != "END\r\n" {
            ensure!(began.elapsed() < Duration::from_secs(4), "the copy does not expire");
            sleep(Duration::from_millis(10));
        }
        ensure!(began.elapsed() > Duration::from_secs(1), "after {:?}", began.elapsed());
        // The read right after the change may not have left a copy.
        read_until_copied(&mut client, "k")?;
        origin.signal(Signal::STOP)?;
        let stopped = Instant::now();
        while get_or_error(&mut client, "k")? == hit("k", "new") {
            ensure!(stopped.elapsed() < Duration::from_secs(3), "the copy stays fresh");
        }
        let took = stopped.elapsed();
        origin.signal(Signal::CONT)?;
        ensure!(took > Duration::from_millis(500), "copies were not used: {took:?}");
        ensure!(took < Duration::from_millis(1800), "{took:?}");
    }
    Ok(())
}

/// Reads a key until a read fetches nothing from the origin.
fn read_until_copied(stream: &mut Stream, key: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let before = fetches(stream)?;
        get(stream, key)?;
        if fetches(stream)? == before {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "no copy after a second");
    }
}

fn fetches(stream: &mut Stream) -> Result<String> {
    let stats = ask(stream, "stats larder\r\n", "END\r\n")?;
    let line = stats.lines().find(|line| line.starts_with("STAT near_fetches "));
    Ok(line.context("no statistic of fetches")?.to_owned())
}

fn get_or_error(stream: &mut Stream, key: &str) -> Result<String> {
    let answer = ask(stream, &format!("get {key}\r\nmn\r\n"), "MN\r\n")?;
    Ok(answer.strip_suffix("MN\r\n").unwrap_or_default().to_owned())
}
