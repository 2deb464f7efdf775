//! The system's clock changes between two starts of a server with a memory file (`-e`). A test must
//! not change the clock of the machine, so it starts the server in a time namespace with a
//! different monotonic clock. This changes the difference between the two clocks in the same way.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use larder_testkit::{Address, Stream, skip};
use tempfile::TempDir;

use crate::binary;

/// Starts a server whose monotonic clock is ahead, as if the wall clock had been set back since the
/// boot.
fn start(folder: &TempDir, ahead_secs: u32) -> Result<Child> {
    let path = |name: &str| folder.path().join(name);
    let mut unshare = Command::new("unshare");
    unshare.args(["--time", "--monotonic", &ahead_secs.to_string(), "--kill-child", "--"]);
    unshare.arg(binary()).args(["-u", "root", "-A", "-m", "16"]);
    unshare.arg("-s").arg(path("socket")).arg("-e").arg(path("file"));
    Ok(unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

fn connect(socket: &Path) -> Result<Stream> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match Stream::connect(&Address::Unix(socket.to_owned())) {
            Ok(stream) => return Ok(stream),
            Err(error) => ensure!(Instant::now() < deadline, "the server does not listen: {error}"),
        }
        sleep(Duration::from_millis(10));
    }
}

fn unix_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[test]
fn a_memory_file_converts_unix_times_by_the_clock_as_it_is() {
    let probe = Command::new("unshare").args(["--time", "--kill-child", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skip("a time namespace needs root and unshare");
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for ahead_secs in [0, 3600, 3600] {
        let mut server = start(&folder, ahead_secs).unwrap();
        let mut stream = connect(&folder.path().join("socket")).unwrap();
        let set = format!("set key 0 {} 1\r\nv\r\n", unix_secs() + 30);
        assert_eq!(stream.ask(set.as_bytes(), b"\r\n").unwrap(), b"STORED\r\n");
        let answer = stream.ask(b"mg key t\r\n", b"\r\n").unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let ttl_secs = answer.trim_end().strip_prefix("HD t").and_then(|ttl| ttl.parse().ok());
        assert!(
            ttl_secs.is_some_and(|ttl: u32| (29..=31).contains(&ttl)),
            "{ahead_secs}: {answer}"
        );
        let stats = stream.ask(b"stats\r\n", b"END\r\n").unwrap();
        let stats = String::from_utf8_lossy(&stats).into_owned();
        let time = stats.lines().find_map(|line| line.strip_prefix("STAT time "));
        let time: u64 = time.unwrap().parse().unwrap();
        assert!(time.abs_diff(unix_secs()) <= 1, "{ahead_secs}: the server's time is {time}");
        // The server ends without a response.
        let _ = stream.ask(b"shutdown\r\n", b"\r\n");
        assert!(server.wait().unwrap().success());
    }
}
