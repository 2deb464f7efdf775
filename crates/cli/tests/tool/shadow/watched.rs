//! Requests from the log of a server.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::ServerUnderTest;
use larder_testkit::server::Signal;
use rustix::process::{Pid, kill_process};
use serde_json::Value;

use super::{larderd, memcached, shown};

/// A running `larder shadow --watch`. Dropping it kills it.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the tool, and waits until lines of the log arrive at the candidate.
fn watching(live: &ServerUnderTest, candidate: &ServerUnderTest) -> Watching {
    let child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["shadow", "--json", "--every", "0", "--watch", &shown(live.address())])
        .args(["--candidate", &shown(candidate.address())])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map(Watching)
        .unwrap();
    // A read whose line arrives shows that the server logs.
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut probe = live.connect().unwrap();
    let mut at_candidate = candidate.connect().unwrap();
    loop {
        probe.ask(b"get probe\r\n", b"END\r\n").unwrap();
        let stats = at_candidate.ask(b"stats\r\n", b"END\r\n").unwrap();
        if !String::from_utf8_lossy(&stats).contains("STAT get_misses 0\r") {
            return child;
        }
        assert!(Instant::now() < deadline, "no line of the log arrives");
        sleep(Duration::from_millis(50));
    }
}

fn report(mut child: Watching) -> (Value, i32) {
    kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    let stdout = std::io::read_to_string(child.0.stdout.take().unwrap()).unwrap();
    let exit_code = child.0.wait().unwrap().code().unwrap();
    (serde_json::from_str(&stdout).unwrap(), exit_code)
}

#[test]
fn hits_and_sizes_are_compared_from_the_log_of_either_server() {
    for live in [larderd(&[]), memcached(&[])] {
        let candidate = larderd(&[]);
        let mut client = live.connect().unwrap();
        client.ask(b"set old 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        let child = watching(&live, &candidate);
        client.ask(b"set k 0 0 5\r\nhello\r\n", b"STORED\r\n").unwrap();
        for _ in 0..10 {
            client.ask(b"get k\r\n", b"END\r\n").unwrap();
        }
        client.ask(b"get old\r\n", b"END\r\n").unwrap();
        sleep(Duration::from_secs(1));
        let (report, exit_code) = report(child);
        assert_eq!(exit_code, 0, "{report}");
        assert_eq!(report["live"]["hits"], 11, "{report}");
        assert_eq!(report["candidate"]["hits"], 10, "{report}");
        assert_eq!(report["explained"]["hit_at_live_only"], 1, "{report}");
        assert_eq!(report["sizes_different"], 0, "{report}");
        assert!(report["note"].as_str().unwrap().contains("only hits, misses and sizes"));
    }
}
