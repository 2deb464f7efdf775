//! `--cluster-file`: the list is read again when the file changes, and a file that cannot be used
//! changes nothing.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use larder_testkit::server::{Signal, command, free_address, run_to_end};
use larder_testkit::{Address, ServerUnderTest};
use tempfile::TempDir;

use super::{Received, list, row, wait_until};
use crate::binary;
use crate::upgrade_scene;

/// A server with a file of two servers.
struct Scene {
    folder: TempDir,
    server: ServerUnderTest,
}

impl Scene {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("servers"), "a.example:1\n10.0.0.2\n")?;
        let server = Self::serve(&folder, Address::Tcp(free_address()?))?;
        Ok(Self { folder, server })
    }

    fn serve(folder: &TempDir, address: Address) -> Result<ServerUnderTest> {
        let option = format!("--cluster-file={}", folder.path().join("servers").display());
        ServerUnderTest::start_at(&binary(), address, &[&option, "-t", "1"])
    }

    /// Ends the server, and starts another one with the same file.
    fn restart(self) -> Result<Self> {
        let Self { folder, server } = self;
        let address = server.address().clone();
        server.stop(Signal::TERM)?;
        let server = Self::serve(&folder, address)?;
        Ok(Self { folder, server })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the file in one step.
    fn replace(&self, text: &str) -> Result<()> {
        fs::write(self.path("new"), text)?;
        Ok(fs::rename(self.path("new"), self.path("servers"))?)
    }

    /// Waits until clients receive these servers.
    fn await_nodes(&self, nodes: &str) -> Result<Received> {
        wait_until(&self.server, nodes, || Ok(list(&self.server)?.nodes == nodes))?;
        list(&self.server)
    }

    fn await_row(&self, name: &str, value: u64) -> Result<()> {
        let what = format!("{name} is {value}");
        wait_until(&self.server, &what, || Ok(row(&self.server, name)? == value))
    }
}

fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Waits for the next second, so that the version of a change is its time.
fn await_next_second() {
    let now = unix_secs();
    while unix_secs() == now {
        sleep(Duration::from_millis(10));
    }
    // File systems read a clock that is some milliseconds behind.
    sleep(Duration::from_millis(50));
}

#[test]
fn clients_receive_a_changed_file_with_a_higher_version() -> Result<()> {
    let scene = Scene::start()?;
    let first = list(&scene.server)?;
    ensure!(first.nodes == "a.example||1 10.0.0.2|10.0.0.2|11211", "{first:?}");
    ensure!(first.version <= unix_secs() && first.version > unix_secs() - 60, "{first:?}");
    for (name, value) in [("cluster_nodes", 2), ("cluster_version", first.version)] {
        ensure!(row(&scene.server, name)? == value, "{name}");
    }

    scene.replace("a.example:1\n")?;
    let second = scene.await_nodes("a.example||1")?;
    ensure!(second.version > first.version, "{second:?} after {first:?}");

    // The same servers with comments are the same list.
    scene.replace("# a comment\na.example:1\n")?;
    scene.replace("a.example:1\nb.example:1\n")?;
    let third = scene.await_nodes("a.example||1 b.example||1")?;
    ensure!(third.version > second.version, "{third:?} after {second:?}");
    ensure!(row(&scene.server, "cluster_changes")? == 2, "{}", scene.server.log());
    ensure!(row(&scene.server, "cluster_failures")? == 0, "{}", scene.server.log());
    Ok(())
}

/// Kubernetes mounts a ConfigMap through a link that it replaces. Restored files have old times.
#[test]
fn a_link_to_an_older_file_has_a_higher_version_also_after_a_restart() -> Result<()> {
    let scene = Scene::start()?;
    let first = list(&scene.server)?;
    for (folder, text) in [("v1", "v1.example:1\n"), ("v2", "v2.example:1\n")] {
        fs::create_dir(scene.path(folder))?;
        fs::write(scene.path(folder).join("servers"), text)?;
        let old = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1));
        File::options().append(true).open(scene.path(folder).join("servers"))?.set_times(old)?;
    }
    let point = |folder: &str| -> Result<()> {
        await_next_second();
        symlink(folder, scene.path("link"))?;
        Ok(fs::rename(scene.path("link"), scene.path("..data"))?)
    };
    point("v2")?;
    symlink("..data/servers", scene.path("new"))?;
    fs::rename(scene.path("new"), scene.path("servers"))?;
    let second = scene.await_nodes("v2.example||1")?;
    point("v1")?;
    let third = scene.await_nodes("v1.example||1")?;
    ensure!(first.version < second.version && second.version < third.version, "{third:?}");
    let scene = scene.restart()?;
    let restarted = list(&scene.server)?;
    ensure!(restarted == third, "{restarted:?} after {third:?}");
    Ok(())
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() -> Result<()> {
    let scene = Scene::start()?;
    let first = list(&scene.server)?;
    let huge = "# more\n".repeat(10_000) + "a.example:1\n";
    let cases = [
        ("", "it names no server"),
        ("a.example:1\n10.0.0.2:112", "its last line has no end"),
        ("a.example:1\n\0\u{1}\n", "line 2: \"\\0\\u{1}\" is not a server"),
        ("a.example:1\nnot a server\n", "line 2: \"not a server\" is not a server"),
        ("a.example:1\na.example:1\n", "it names a.example||1 twice"),
        (&*huge, "it has more than 65536 bytes"),
    ];
    for (number, (text, expected)) in cases.into_iter().enumerate() {
        // In place, as an editor may write it.
        fs::write(scene.path("servers"), text)?;
        scene.server.signal(Signal::HUP)?;
        let logged = || Ok(scene.server.log().contains(expected));
        wait_until(&scene.server, expected, logged)?;
        ensure!(list(&scene.server)? == first, "{text:?} has an effect");
        ensure!(row(&scene.server, "cluster_stale")? == 1, "{text:?} is unnoticed");
        ensure!(row(&scene.server, "cluster_failures")? > number as u64, "{text:?} is uncounted");
    }
    fs::remove_file(scene.path("servers"))?;
    scene.server.signal(Signal::HUP)?;
    wait_until(&scene.server, "the file is missed", || {
        Ok(scene.server.log().contains("servers: No such file"))
    })?;
    fs::create_dir(scene.path("servers"))?;
    scene.server.signal(Signal::HUP)?;
    wait_until(&scene.server, "the folder is refused", || {
        Ok(scene.server.log().contains("it is not a regular file"))
    })?;
    ensure!(list(&scene.server)? == first, "{}", scene.server.log());
    fs::remove_dir(scene.path("servers"))?;
    scene.replace("a.example:1\n")?;
    let second = scene.await_nodes("a.example||1")?;
    ensure!(second.version > first.version, "{second:?} after {first:?}");
    scene.await_row("cluster_stale", 0)
}

/// Without a signal, a failure counts only if it lasts, because a program may be writing the file.
#[test]
fn a_lasting_failure_is_logged_once() -> Result<()> {
    let scene = Scene::start()?;
    let first = list(&scene.server)?;
    fs::write(scene.path("servers"), "")?;
    scene.await_row("cluster_stale", 1)?;
    for _ in 0..20 {
        // Each write is an event.
        fs::write(scene.path("servers"), "")?;
        ensure!(list(&scene.server)? == first, "{}", scene.server.log());
        sleep(Duration::from_millis(60));
    }
    let lines = scene.server.log().matches("not reloaded").count();
    ensure!(lines == 1, "{lines} lines: {}", scene.server.log());
    // The same servers as before.
    scene.replace("a.example:1\n10.0.0.2\n")?;
    scene.await_row("cluster_stale", 0)?;
    ensure!(list(&scene.server)? == first, "{}", scene.server.log());
    Ok(())
}

#[test]
fn a_stated_version_must_grow() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("servers"), "version=7\na.example:1\n")?;
    let server = Scene::serve(&folder, Address::Tcp(free_address()?))?;
    let scene = Scene { folder, server };
    let first = list(&scene.server)?;
    ensure!(first.version == 7, "{first:?}");
    for version in [7, 6] {
        scene.replace(&format!("version={version}\nb.example:1\n"))?;
        scene.server.signal(Signal::HUP)?;
        let expected = format!("its version {version} is not higher than 7");
        wait_until(&scene.server, &expected, || Ok(scene.server.log().contains(&expected)))?;
        ensure!(list(&scene.server)? == first, "{}", scene.server.log());
    }
    scene.replace("version=8\nb.example:1\n")?;
    let second = scene.await_nodes("b.example||1")?;
    ensure!(second.version == 8, "{second:?}");
    Ok(())
}

#[test]
fn an_upgrade_keeps_the_list_and_its_version() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("servers");
    fs::write(&path, "a.example:1\n")?;
    let option = format!("--cluster-file={}", path.display());
    let scene = upgrade_scene::Scene::tcp(&[&option, "-t", "1"])?;
    let first = list(&scene.first)?;
    // The time of the file changes, its servers do not.
    await_next_second();
    fs::write(&path, "a.example:1\n")?;
    scene.upgrade()?;
    ensure!(list(&scene.first)? == first, "{}", scene.first.log());
    // A successor that cannot use the file does not take over.
    fs::write(&path, "")?;
    let said = scene.said("does not take over");
    rustix::process::kill_process(scene.pid()?, Signal::USR2)?;
    wait_until(
        &scene.first,
        "the successor fails",
        || Ok(scene.said("does not take over") > said),
    )?;
    ensure!(list(&scene.first)? == first, "{}", scene.first.log());
    Ok(())
}

#[test]
fn a_start_with_a_bad_file_fails_with_the_reason_and_so_does_a_check() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("servers");
    let option = format!("--cluster-file={}", path.display());
    for (text, expected) in [
        (None, "No such file"),
        (Some(""), "it names no server"),
        (Some("a b\n"), "line 1: \"a b\" is not a server; expected a file with a line for each"),
    ] {
        if let Some(text) = text {
            fs::write(&path, text)?;
        }
        for check in [&[][..], &["--check"]] {
            let address = free_address()?;
            let port = address.port().to_string();
            let listen = ["-l", "127.0.0.1", "-p", &port, "-U", "0", &option];
            let output = run_to_end(command(&binary()).args(listen).args(check))?;
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let expected = format!("option --cluster-file: {}: {expected}", path.display());
            ensure!(!output.status.success() && error.contains(&expected), "{check:?}: {error}");
        }
    }
    Ok(())
}

#[test]
fn the_options_must_fit() -> Result<()> {
    for (args, expected) in [
        (&["--cluster-file=f", "--cluster-dns=a"][..], "cannot be combined with --cluster-file"),
        (&["--cluster-dns=a", "-o", "drop_privileges"], "cannot be combined with -o drop_priv"),
        (&["--cluster-dns=a:0"], "a DNS name, which a colon and a port"),
        (&["--cluster-dns=[::1]:1"], "a DNS name, which a colon and a port"),
    ] {
        let output = run_to_end(command(&binary()).args(args))?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && error.contains(expected), "{args:?}: {error}");
    }
    Ok(())
}
