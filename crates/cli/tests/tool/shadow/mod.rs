//! `larder shadow`: real clients, a live server and a candidate.

mod agree;
mod captured;
mod differ;
mod faults;
mod stop;
mod watched;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::server::{Signal, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::binary;

/// A running `larder shadow` that listens at a Unix socket. Dropping it kills it.
struct Shadow {
    child: Child,
    path: PathBuf,
    _folder: TempDir,
}

/// The report and the exit code.
struct Ended {
    report: Value,
    exit_code: i32,
}

impl Ended {
    /// Returns a count by its path in the report.
    #[track_caller]
    fn count(&self, pointer: &str) -> u64 {
        let path = format!("/{pointer}");
        let found = self.report.pointer(&path).and_then(Value::as_u64);
        found.unwrap_or_else(|| panic!("no {pointer} in {}", self.report))
    }

    /// Asserts that every request is counted exactly once.
    #[track_caller]
    fn is_complete(&self) {
        let compared = self.count("compared");
        let parts = ["identical", "differences/total", "explained/total"];
        let sum: u64 = parts.iter().map(|part| self.count(part)).sum();
        assert_eq!(compared, sum, "{}", self.report);
        let sum = compared + self.count("not_compared/total");
        assert_eq!(self.count("requests"), sum, "{}", self.report);
    }

    /// Asserts that all of this number of requests have the same responses, except for those with
    /// an explanation.
    #[track_caller]
    fn agrees(&self, requests: u64, explained: &[(&str, u64)]) {
        self.is_complete();
        let total: u64 = explained.iter().map(|(_, count)| count).sum();
        let found = [
            self.count("requests"),
            self.count("identical"),
            self.count("explained/total"),
            self.count("connections_not_compared"),
        ];
        assert_eq!(found, [requests, requests - total, total, 0], "{}", self.report);
        for (kind, count) in explained {
            assert_eq!(self.count(&format!("explained/{kind}")), *count, "{}", self.report);
        }
        assert_eq!(self.exit_code, 0, "{}", self.report);
    }

    /// Asserts that there is one difference, of this kind.
    #[track_caller]
    fn differs(&self, kind: &str) {
        self.is_complete();
        let found = [self.count("differences/total"), self.count(&format!("differences/{kind}"))];
        assert_eq!((found, self.exit_code), ([1, 1], 1), "{}", self.report);
        assert_eq!(self.report["samples"][0]["kind"], kind, "{}", self.report);
    }
}

impl Shadow {
    /// Starts the tool between clients and two servers.
    fn start(live: &Address, candidate: &Address, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let child = Command::new(env!("CARGO_BIN_EXE_larder"))
            .args(["shadow", "--json", "--every", "0", "--listen"])
            .arg(&path)
            .args(["--live", &shown(live), "--candidate", &shown(candidate)])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let shadow = Self { child, path, _folder: folder };
        shadow.connect();
        shadow
    }

    /// Opens a connection. Waits until the tool listens.
    fn connect(&self) -> Stream {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match Stream::connect(&Address::Unix(self.path.clone())) {
                Ok(stream) => return stream,
                Err(error) if Instant::now() > deadline => panic!("{error}"),
                Err(_) => sleep(Duration::from_millis(5)),
            }
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Stops the tool and returns its report.
    fn stop(mut self) -> Ended {
        kill_process(self.pid(), Signal::TERM).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "still runs after SIGTERM");
            sleep(Duration::from_millis(5));
        }
        let stdout = std::io::read_to_string(self.child.stdout.take().unwrap()).unwrap();
        let exit_code = self.child.wait().unwrap().code().unwrap();
        Ended { report: serde_json::from_str(&stdout).unwrap_or_default(), exit_code }
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an address as options take it.
fn shown(address: &Address) -> String {
    match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp(address) => address.to_string(),
    }
}

/// Starts larderd.
fn larderd(args: &[&str]) -> ServerUnderTest {
    ServerUnderTest::start(&binary(), Transport::Unix, &[&["-m", "64"], args].concat()).unwrap()
}

/// Starts the memcached of the system.
fn memcached(args: &[&str]) -> ServerUnderTest {
    let memcached = larder_testkit::server::memcached().unwrap();
    ServerUnderTest::start(&memcached, Transport::Tcp, args).unwrap()
}

/// Runs the tool to its end without clients and returns the report and stderr.
fn run(args: &[&str]) -> (Ended, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args(["shadow", "--json", "--every", "0"]).args(args);
    let output = run_to_end(&mut command).unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (Ended { report, exit_code: output.status.code().unwrap() }, stderr)
}
