//! larderd in the background (`-d`): relative paths, pid files, and its output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use rustix::process::{Pid, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::binary;

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so()? {
        ensure!(Instant::now() < deadline, "not within 10 s: {what}");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A directory in which larderd is started, and which the test itself never enters. At the end, the
/// test kills the process of its pid file.
struct Home(TempDir);

impl Home {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str, variables: &[(&str, &str)]) -> Result<Output> {
        let mut larderd = command(&binary());
        larderd.args(line.split(' ')).current_dir(self.0.path()).envs(variables.iter().copied());
        run_to_end(&mut larderd)
    }

    fn pid(&self) -> Result<Pid> {
        let text = fs::read_to_string(self.path("pid"))?;
        Pid::from_raw(text.trim().parse()?).context("0 is not a process id")
    }

    fn connect(&self, socket: &str) -> Result<Stream> {
        Ok(Stream::connect(&Address::Unix(self.path(socket)))?)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Ok(pid) = self.pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn logs_in(home: &Home, user: &str) -> Result<bool> {
    let login = format!("set k 0 0 {}\r\n{user}\r\n", user.len());
    Ok(home.connect("socket")?.ask(login.as_bytes(), b"\r\n")? == b"STORED\r\n")
}

#[test]
fn relative_paths_are_those_of_the_directory_where_it_was_started() -> Result<()> {
    let home = Home::new()?;
    fs::write(home.path("users"), "old pass".replace(' ', ":"))?;
    let line = "-d -P ./pid -s socket -Y users -e ./items --admin-listen ./admin --upgrade-drain 0";
    let output = home.run(line, &[])?;
    ensure!(output.status.code() == Some(0), "{output:?}");
    for name in ["pid", "socket", "items", "admin"] {
        ensure!(home.path(name).exists(), "{name} is missing: {output:?}");
    }
    let first = home.pid()?;
    ensure!(fs::read_link(format!("/proc/{}/cwd", first.as_raw_pid()))? == Path::new("/"));
    ensure!(logs_in(&home, "old pass")?, "the users are read");
    // The file is read again, from the same place.
    fs::write(home.path("users"), "new:pass\n")?;
    kill_process(first, Signal::HUP)?;
    wait_until("the new user may log in", || logs_in(&home, "new pass"))?;
    // A successor is started in the directory of the first process.
    kill_process(first, Signal::USR2)?;
    wait_until("a successor serves", || Ok(home.pid()? != first))?;
    wait_until("the first process ends", || Ok(test_kill_process(first).is_err()))?;
    ensure!(logs_in(&home, "new pass")?, "the successor serves at the same path");
    ensure!(!logs_in(&home, "old pass")?);
    kill_process(home.pid()?, Signal::TERM)?;
    wait_until("the pid file is removed", || Ok(!home.path("pid").exists()))
}

#[test]
fn the_relative_file_of_sasl_is_found() -> Result<()> {
    let home = Home::new()?;
    fs::write(home.path("users"), "user:pass\n")?;
    let line = "-d -P ./pid -s socket -S";
    let output = home.run(line, &[("MEMCACHED_SASL_PWDB", "./users")])?;
    ensure!(output.status.code() == Some(0), "{output:?}");
    home.connect("socket")?;
    Ok(())
}

#[test]
fn a_pid_file_that_cannot_be_written_ends_the_start() -> Result<()> {
    let home = Home::new()?;
    fs::create_dir(home.path("folder"))?;
    for (file, reason) in
        [("./none/file", "No such file or directory"), ("./folder", "is a directory")]
    {
        for daemon in ["", "-d "] {
            let output = home.run(&format!("{daemon}-P {file} -s ./socket"), &[])?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(71), "{daemon}{file}: {output:?}");
            let path = home.path(file.trim_start_matches("./"));
            let words =
                format!("option -P: cannot write the pid file {}: {reason}", path.display());
            ensure!(said.contains(&words), "{daemon}{file}: {said}: expected {words}");
            ensure!(said.contains("or leave -P out"), "{daemon}{file}: {said}");
            ensure!(home.connect("socket").is_err(), "{daemon}{file}: a server runs");
        }
    }
    ensure!(!home.path("folder.tmp").exists(), "the unfinished file is left");
    Ok(())
}

/// A crash empties the directory of a cache, so a start that fails must not look like one.
#[test]
fn a_start_that_fails_for_its_pid_file_leaves_the_disk_tier_as_it_was() -> Result<()> {
    let home = Home::new()?;
    let tier = home.path("tier").display().to_string();
    let args = ["-m", "8", "--tier-path", &tier, "--tier-size", "64m", "--tier-mode", "cache"];
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    let mut stream = server.connect()?;
    stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n")?;
    server.stop(Signal::TERM)?;
    let line = args.join(" ");
    let output = home.run(&format!("{line} -s ./socket -P ./none/pid"), &[])?;
    ensure!(output.status.code() == Some(71), "{output:?}");
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    server.connect()?.ask(b"get k\r\n", b"VALUE k 0 1\r\nx\r\nEND\r\n")?;
    Ok(())
}

#[test]
fn a_reload_says_what_it_has_read() -> Result<()> {
    let home = Home::new()?;
    fs::write(home.path("users"), "a:1\nb:2\n")?;
    let users = home.path("users").display().to_string();
    for (args, words) in [
        (&["-Y", &*users][..], format!("SIGHUP: users reloaded: 2 of {users}")),
        (&[], "SIGHUP: nothing to read again: there are no users".to_owned()),
    ] {
        let server = ServerUnderTest::start(&binary(), Transport::Unix, args)?;
        server.signal(Signal::HUP)?;
        wait_until(&words, || Ok(server.log().contains(&words)))?;
    }
    Ok(())
}

#[test]
fn a_missing_directory_is_named_with_what_to_do() -> Result<()> {
    let home = Home::new()?;
    let missing = home.path("no/such");
    let (parent, missing) = (home.path("no").display().to_string(), missing.display());
    for (args, words) in [
        (
            format!("--tier-path {missing} --tier-size 64m --tier-mode store"),
            format!("mkdir -p {parent}, or name another directory"),
        ),
        (
            format!("-e {missing}"),
            format!(
                "the directory {parent} does not exist; create it, or \
                                           name"
            ),
        ),
    ] {
        let output = home.run(&format!("-s ./socket {args}"), &[])?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{args}: {output:?}");
        ensure!(said.contains(&words), "{args}: {said}: expected {words}");
    }
    Ok(())
}
