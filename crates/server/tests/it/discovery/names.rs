//! `--cluster-dns`: the list follows the addresses of a name, and neither a name server that fails
//! nor one that does not respond has an effect on anything else.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest};
use tempfile::TempDir;

use super::name_server::{NameServer, Reply};
use super::{KEY, Received, ask, list, row, wait_until};
use crate::upgrade_scene::PidFile;

/// A server that resolves a name, and the name server.
struct Scene {
    names: NameServer,
    server: ServerUnderTest,
    pid_file: PidFile,
    _folder: TempDir,
}

impl Scene {
    /// Starts both; `None` if this machine does not allow it.
    fn start(reply: Reply) -> Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let Some(names) = NameServer::start(reply)? else { return Ok(None) };
        let Some(program) = names.larderd(folder.path())? else { return Ok(None) };
        let pid_file = PidFile(folder.path().join("pid"));
        let path = pid_file.0.display().to_string();
        let args = ["--cluster-dns=cache.example:11213", "-t", "1", "-P", &path];
        let server = ServerUnderTest::start_at(&program, Address::Tcp(free_address()?), &args)?;
        Ok(Some(Self { names, server, pid_file, _folder: folder }))
    }

    fn await_nodes(&self, nodes: &str) -> Result<Received> {
        let received = || Ok(list(&self.server).is_ok_and(|list| list.nodes == nodes));
        wait_until(&self.server, nodes, received)?;
        list(&self.server)
    }

    fn await_row(&self, name: &str, value: u64) -> Result<()> {
        let what = format!("{name} is {value}");
        wait_until(&self.server, &what, || Ok(row(&self.server, name)? == value))
    }

    fn said(&self, words: &str) -> usize {
        self.server.log().matches(words).count()
    }
}

#[test]
fn the_list_follows_the_addresses_and_a_failure_changes_nothing() -> Result<()> {
    let Some(scene) = Scene::start(Reply::NoName)? else { return Ok(()) };
    let mut stream = scene.server.connect()?;
    for line in ["config get cluster", &format!("get other {KEY} more"), &format!("mg {KEY} v")] {
        let response = ask(&mut stream, line, "\r\n")?;
        ensure!(response == "SERVER_ERROR no list of servers yet\r\n", "{line}: {response}");
    }
    ensure!(ask(&mut stream, "get other", "END\r\n")? == "END\r\n", "the rest of a list remains");
    for (name, value) in [("cluster_nodes", 0), ("cluster_version", 0), ("cluster_stale", 1)] {
        ensure!(row(&scene.server, name)? == value, "{name}");
    }

    let has_failed = || Ok(row(&scene.server, "cluster_failures")? > 0);
    wait_until(&scene.server, "the name is asked for", has_failed)?;
    scene.names.set_addresses(&["127.0.0.30", "::1", "127.0.0.4"])?;
    let first = scene.await_nodes("127.0.0.4|127.0.0.4|11213 127.0.0.30|127.0.0.30|11213")?;
    scene.await_row("cluster_stale", 0)?;

    let only_ipv6 = Reply::Addresses(vec!["::1".parse()?]);
    for reply in [Reply::NoName, Reply::Failure, Reply::Addresses(Vec::new()), only_ipv6] {
        let failures = row(&scene.server, "cluster_failures")?;
        let shown = format!("{reply:?}");
        scene.names.set(reply);
        let has_failed = || Ok(row(&scene.server, "cluster_failures")? > failures);
        wait_until(&scene.server, &shown, has_failed)?;
        ensure!(list(&scene.server)? == first, "{shown} has an effect");
        ensure!(row(&scene.server, "cluster_stale")? == 1, "{shown} is unnoticed");
    }
    // One line before the name was resolved for the first time, and one for all failures since.
    ensure!(scene.said("cannot resolve the name") == 2, "{}", scene.server.log());

    scene.names.set_addresses(&["127.0.0.4"])?;
    let second = scene.await_nodes("127.0.0.4|127.0.0.4|11213")?;
    ensure!(second.version > first.version, "{second:?} after {first:?}");
    ensure!(scene.said("can be resolved again") == 2, "{}", scene.server.log());
    scene.await_row("cluster_stale", 0)
}

#[test]
fn a_stop_does_not_wait_for_a_name_server() -> Result<()> {
    let Some(scene) = Scene::start(Reply::Silence)? else { return Ok(()) };
    let response = ask(&mut scene.server.connect()?, "config get cluster", "\r\n")?;
    ensure!(response == "SERVER_ERROR no list of servers yet\r\n", "{response}");
    let stopped = Instant::now();
    let status = scene.server.stop(Signal::TERM)?;
    ensure!(status.success(), "{status}");
    let took = stopped.elapsed();
    ensure!(took < Duration::from_secs(2), "the stop took {took:?}");
    Ok(())
}

#[test]
fn an_upgrade_keeps_the_list_without_a_name_server() -> Result<()> {
    let found = "127.0.0.4".parse()?;
    let Some(scene) = Scene::start(Reply::Addresses(vec![found]))? else { return Ok(()) };
    let first = scene.await_nodes("127.0.0.4|127.0.0.4|11213")?;
    scene.names.set(Reply::Silence);
    // Another attempt begins within 5 s, and hangs.
    wait_until(&scene.server, "it is reported", || {
        Ok(scene.said("the name server has not responded for 10 s") == 1)
    })?;
    ensure!(row(&scene.server, "cluster_stale")? == 1, "{}", scene.server.log());
    let (old, begun) = (scene.pid_file.pid()?, Instant::now());
    scene.server.signal(Signal::USR2)?;
    wait_until(&scene.server, "another process", || Ok(scene.said("has taken over") == 1))?;
    ensure!(scene.pid_file.pid()? != old, "{}", scene.server.log());
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(5), "the upgrade took {took:?}");
    ensure!(list(&scene.server)? == first, "{}", scene.server.log());
    // The successor resolves the name itself.
    scene.names.set_addresses(&["127.0.0.5"])?;
    let second = scene.await_nodes("127.0.0.5|127.0.0.5|11213")?;
    ensure!(second.version > first.version, "{second:?} after {first:?}");
    Ok(())
}
