//! Upgrades of near caches. While two processes serve, neither has copies: each would answer from
//! them after a write through the other one.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder::Client;
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use super::{ask, get, hit, read_until, set};
use crate::binary;
use crate::near_history::cluster::Server;

/// An origin, and a near cache that can be upgraded, whose memory may be read.
struct Scene {
    origin: ServerUnderTest,
    near: Server,
    folder: tempfile::TempDir,
}

impl Scene {
    fn start(origin_args: &[&str]) -> Result<Self> {
        let origin = ServerUnderTest::start(&binary(), Transport::Tcp, origin_args)?;
        let Address::Tcp(address) = *origin.address() else { anyhow::bail!("not TCP") };
        let folder = tempfile::tempdir()?;
        let near = Server::near(&[address], &folder.path().join("socket"))?;
        let scene = Self { origin, near, folder };
        scene.await_fresh()?;
        Ok(scene)
    }

    fn connect(&self) -> Result<Stream> {
        Ok(Stream::connect(&Address::Tcp(self.near.address))?)
    }

    fn await_fresh(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let rows = ask(&mut self.connect()?, "stats larder\r\n", "END\r\n")?;
            if rows.contains("STAT near_fresh 1\r\n") {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "no copies may be used: {rows}");
            sleep(Duration::from_millis(5));
        }
    }
}

/// Copies that the old process makes until its end are not left in the memory, which the new
/// process takes over.
#[test]
fn the_new_process_uses_no_copies_of_the_old_one() -> Result<()> {
    const KEYS: usize = 2000;
    for origin_args in [&["--followers=4"][..], &[]] {
        let scene = Scene::start(origin_args)?;
        let mut origin = scene.origin.connect()?;
        for key in 0..KEYS {
            set(&mut origin, &format!("k{key}"), "old")?;
        }
        let mut old = scene.connect()?;
        get(&mut old, "k0")?;
        scope(|scope| {
            let upgraded = scope.spawn(|| scene.near.upgrade());
            // The old process answers until it closes the connection.
            for key in 0..KEYS {
                if get(&mut old, &format!("k{key}")).is_err() {
                    break;
                }
                sleep(Duration::from_micros(500));
            }
            upgraded.join().expect("the upgrade does not panic")
        })?;
        scene.await_fresh()?;
        for key in 0..KEYS {
            set(&mut origin, &format!("k{key}"), "new")?;
        }
        sleep(Duration::from_secs(1));
        let mut new = scene.connect()?;
        for key in 0..KEYS {
            let key = format!("k{key}");
            assert_eq!(get(&mut new, &key)?, hit(&key, "new"), "{origin_args:?}");
        }
    }
    Ok(())
}

/// Programs that have mapped the memory find copies there again after an upgrade, and never one
/// that a write through either process has replaced.
#[test]
fn readers_in_memory_follow_an_upgrade() -> Result<()> {
    let scene = Scene::start(&["--followers=4"])?;
    let client =
        Client::connect_within(scene.folder.path().join("socket"), Duration::from_secs(5))?;
    let look = || -> Result<Option<(u64, bool)>> {
        let mut value = Vec::new();
        // The connection ends with the old process, and is made again.
        let Ok(found) = client.get_into("k", &mut value) else { return Ok(None) };
        let found = found.context("no item")?;
        Ok(Some((String::from_utf8(value)?.parse()?, found.is_local)))
    };
    let mut written = 0;
    set(&mut scene.origin.connect()?, "k", "0")?;
    scope(|scope| {
        let upgraded = scope.spawn(|| scene.near.upgrade());
        let mut writer = scene.connect()?;
        while !upgraded.is_finished() {
            if set(&mut writer, "k", &(written + 1).to_string()).is_ok() {
                written += 1;
            } else {
                writer = scene.connect()?;
                continue;
            }
            if let Some((read, _)) = look()? {
                ensure!(read >= written, "{written} was written, and {read} is read");
            }
        }
        upgraded.join().expect("the upgrade does not panic")
    })?;
    ensure!(written > 100, "{written} writes during the upgrade");
    let deadline = Instant::now() + Duration::from_secs(5);
    while look()?.is_none_or(|(_, is_local)| !is_local) {
        ensure!(Instant::now() < deadline, "the memory is not read after the upgrade");
    }
    Ok(())
}

/// If no new process takes over, the near cache has copies again.
#[test]
fn an_upgrade_that_fails_leaves_a_near_cache_with_copies() -> Result<()> {
    let scene = Scene::start(&["--followers=4"])?;
    let mut near = scene.connect()?;
    // The program that would be started.
    scene.near.replace_program("/bin/false")?;
    scene.near.signal(Signal::USR2)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !scene.near.log().contains("does not take over") {
        ensure!(Instant::now() < deadline, "{}", scene.near.log());
        sleep(Duration::from_millis(5));
    }
    scene.await_fresh()?;
    let mut origin = scene.origin.connect()?;
    for n in 0..20 {
        set(&mut origin, "k", &n.to_string())?;
        read_until(&mut near, "k", &hit("k", &n.to_string()))?;
    }
    Ok(())
}
