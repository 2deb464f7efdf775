//! larderd as a process: sockets in the file system, pid files, the daemon, signals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, larderd, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use rustix::process::{Pid, kill_process};

fn binary() -> PathBuf {
    larderd(env!("CARGO_BIN_EXE_larderd"))
}

fn start(transport: Transport, args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), transport, args)
}

fn mode_of_socket(server: &ServerUnderTest) -> Result<u32> {
    let Address::Unix(path) = server.address() else { unreachable!("a unix socket") };
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        ensure!(Instant::now() < deadline, "waited 10 s in vain: {what}");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The daemon of a pid file, killed when the test is over.
struct Daemon(Pid);

impl Daemon {
    fn of(pid_file: &Path) -> Result<Self> {
        wait_until("the pid file is written", || pid_file.exists())?;
        let pid = fs::read_to_string(pid_file)?.trim().parse()?;
        Ok(Self(Pid::from_raw(pid).context("0 is no process")?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn a_unix_socket_is_its_owners_unless_a_mode_is_given() {
    let server = start(Transport::Unix, &[]).unwrap();
    assert_eq!(mode_of_socket(&server).unwrap(), 0o700);
    let server = start(Transport::Unix, &["-a", "0777"]).unwrap();
    assert_eq!(mode_of_socket(&server).unwrap(), 0o777);
}

#[test]
fn a_socket_that_a_dead_server_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let server = ServerUnderTest::start_at(&binary(), Address::Unix(path), &[]).unwrap();
    server.connect().unwrap().ask(b"version\r\n", b"\r\n").unwrap();
}

#[test]
fn a_file_in_the_sockets_place_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    fs::write(&path, "words").unwrap();
    let output = run_to_end(command(&binary()).arg("-s").arg(&path)).unwrap();
    assert_eq!(output.status.code(), Some(71), "{output:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "words");
}

#[test]
fn a_taken_port_ends_the_start_with_a_message() {
    let server = start(Transport::Tcp, &[]).unwrap();
    let Address::Tcp(address) = server.address() else { unreachable!("a port") };
    let port = address.port().to_string();
    let args = ["-l", "127.0.0.1", "-p", &port, "-U", "0"];
    let output = run_to_end(command(&binary()).args(args)).unwrap();
    assert_eq!(output.status.code(), Some(71), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains(&port), "{output:?}");
}

#[test]
fn a_signal_to_stop_ends_it_with_exit_code_0() {
    for signal in [Signal::TERM, Signal::INT, Signal::USR1] {
        let server = start(Transport::Unix, &[]).unwrap();
        let mut stream = server.connect().unwrap();
        stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        assert_eq!(server.stop(signal).unwrap().code(), Some(0), "{signal:?}");
    }
}

#[test]
fn a_signal_that_is_not_for_it_does_not_end_it() {
    let mut server = start(Transport::Unix, &[]).unwrap();
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    for signal in [Signal::HUP, Signal::PIPE] {
        kill_process(pid, signal).unwrap();
    }
    server.connect().unwrap().ask(b"version\r\n", b"\r\n").unwrap();
    assert!(server.is_running().unwrap());
}

#[test]
fn shutdown_ends_it_if_that_is_allowed() {
    for line in [&b"shutdown\r\n"[..], b"shutdown graceful\r\n"] {
        let mut server = start(Transport::Unix, &["-A"]).unwrap();
        let closed = server.connect().unwrap().ask(line, b"never").unwrap_err();
        assert!(closed.to_string().contains("got \"\""), "{closed}");
        wait_until("shutdown ends the process", || !server.is_running().unwrap()).unwrap();
    }
}

#[test]
fn the_pid_file_has_the_pid_also_without_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let server = start(Transport::Unix, &["-P", pid_file.to_str().unwrap()]).unwrap();
    wait_until("the pid file is written", || pid_file.exists()).unwrap();
    assert_eq!(fs::read_to_string(&pid_file).unwrap().trim(), server.pid().to_string());
    server.stop(Signal::TERM).unwrap();
    assert!(pid_file.exists(), "memcached removes it only where it is a daemon's");
}

#[test]
fn a_daemon_leaves_its_parent_at_once_and_its_pid_file_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, pid_file) = (folder.path().join("socket"), folder.path().join("pid"));
    let mut larderd = command(&binary());
    larderd.arg("-d").arg("-s").arg(&socket).arg("-P").arg(&pid_file);
    assert_eq!(run_to_end(&mut larderd).unwrap().status.code(), Some(0));

    let daemon = Daemon::of(&pid_file).unwrap();
    wait_until("the daemon listens", || socket.exists()).unwrap();
    let mut stream = Stream::connect(&Address::Unix(socket)).unwrap();
    let stats = stream.ask(b"stats\r\n", b"END\r\n").unwrap();
    let pid = format!("STAT pid {}\r\n", daemon.0.as_raw_pid());
    assert!(stats.starts_with(pid.as_bytes()), "{pid}: {}", stats.escape_ascii());
    let process = PathBuf::from(format!("/proc/{}", daemon.0.as_raw_pid()));
    assert_eq!(fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));

    kill_process(daemon.0, Signal::TERM).unwrap();
    wait_until("the daemon removes its pid file", || !pid_file.exists()).unwrap();
}

#[test]
fn the_port_file_tells_a_port_that_the_system_chose() {
    let folder = tempfile::tempdir().unwrap();
    let port_file = folder.path().join("port");
    let mut larderd = command(&binary());
    larderd.env("MEMCACHED_PORT_FILENAME", &port_file).args(["-l", "127.0.0.1", "-p", "-1"]);
    let pid_file = folder.path().join("pid");
    larderd.arg("-d").arg("-P").arg(&pid_file);
    assert_eq!(run_to_end(&mut larderd).unwrap().status.code(), Some(0));

    let _daemon = Daemon::of(&pid_file).unwrap();
    wait_until("the port file is written", || port_file.exists()).unwrap();
    let text = fs::read_to_string(&port_file).unwrap();
    let port = text.lines().find_map(|line| line.strip_prefix("TCP INET: ")).unwrap();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let mut stream = Stream::connect(&Address::Tcp(address)).unwrap();
    stream.ask(b"version\r\n", b"\r\n").unwrap();
}
