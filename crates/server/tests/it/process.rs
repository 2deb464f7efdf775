//! larderd as a process: unix sockets, pid files, the daemon, signals.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, free_address, is_root, memcached, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use crate::binary;
use crate::killed::Killed;

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
        ensure!(Instant::now() < deadline, "not within 10 s: {what}");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns the lines of `/proc/<pid>/status` with this prefix, for each thread of a server.
fn status_of_threads(server: &ServerUnderTest, word: &str) -> Result<Vec<String>> {
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid()))?.flatten();
    // A thread that has ended in the meantime has no status.
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .map(|status| {
            let line = status.lines().find(|line| line.starts_with(word));
            let (_, text) = line.and_then(|line| line.split_once(':')).context("no such line")?;
            Ok(text.trim().to_owned())
        })
        .collect()
}

/// The daemon of a pid file, killed at the end of the test.
struct Daemon(Pid);

impl Daemon {
    fn of(pid_file: &Path) -> Result<Self> {
        wait_until("the pid file is written", || pid_file.exists())?;
        let pid = fs::read_to_string(pid_file)?.trim().parse()?;
        Ok(Self(Pid::from_raw(pid).context("0 is not a process id")?))
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
fn an_unrelated_signal_does_not_end_it() {
    let mut server = start(Transport::Unix, &[]).unwrap();
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    for signal in [Signal::HUP, Signal::PIPE] {
        kill_process(pid, signal).unwrap();
    }
    server.connect().unwrap().ask(b"version\r\n", b"\r\n").unwrap();
    assert!(server.is_running().unwrap());
}

#[test]
fn it_survives_the_reader_of_its_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, users) = (folder.path().join("socket"), folder.path().join("users"));
    fs::write(&users, "user:password\n").unwrap();
    let mut larderd = command(&binary());
    larderd.arg("-s").arg(&socket).arg("-Y").arg(&users).stderr(Stdio::piped());
    let mut process = Killed(larderd.spawn().unwrap());
    drop(process.0.stderr.take());
    wait_until("it listens", || UnixStream::connect(&socket).is_ok()).unwrap();
    // The server listens before it reads the users, and responds after that.
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"set login 0 0 13\r\nuser password\r\n").unwrap();
    client.read_exact(&mut [0]).unwrap();
    fs::write(&users, "no users\n").unwrap();
    let pid = Pid::from_raw(i32::try_from(process.0.id()).unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    // It can log neither the unusable users nor its stop.
    sleep(Duration::from_millis(200));
    assert!(process.0.try_wait().unwrap().is_none());
    kill_process(pid, Signal::USR1).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_signal_does_not_end_a_process_that_has_just_begun_to_listen() {
    for start in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let mut process = Killed(command(&binary()).arg("-s").arg(&socket).spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        // Without a pause, because the time between the socket and the first threads is short.
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "start {start}: it does not listen within 10 s");
        }
        let pid = Pid::from_raw(i32::try_from(process.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
        sleep(Duration::from_millis(20));
        let ended = process.0.try_wait().unwrap();
        assert!(ended.is_none(), "start {start}: SIGHUP ended it: {ended:?}");
    }
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

/// memcached's own tests wait for this file.
#[test]
fn the_port_file_is_empty_without_ports_and_missing_with_only_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket").display().to_string();
    for (args, expected) in [(["-p", "0"], Some(String::new())), (["-s", &socket], None)] {
        let (port_file, pid_file) = (folder.path().join("port"), folder.path().join("pid"));
        let mut larderd = command(&binary());
        larderd.env("MEMCACHED_PORT_FILENAME", &port_file).args(args);
        larderd.arg("-d").arg("-P").arg(&pid_file);
        assert_eq!(run_to_end(&mut larderd).unwrap().status.code(), Some(0), "{args:?}");
        let daemon = Daemon::of(&pid_file).unwrap();
        assert_eq!(fs::read_to_string(&port_file).ok(), expected, "{args:?}");
        kill_process(daemon.0, Signal::TERM).unwrap();
        wait_until("the daemon removes its pid file", || !pid_file.exists()).unwrap();
        let _ = fs::remove_file(&port_file);
    }
}

#[test]
fn a_daemon_that_cannot_start_says_so_and_why() {
    let mut larderd = command(&binary());
    larderd.args(["-d", "-l", "192.0.2.1"]);
    let output = run_to_end(&mut larderd).unwrap();
    assert_eq!(output.status.code(), Some(71), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("192.0.2.1"), "{output:?}");
}

#[test]
fn a_daemon_warns_once_and_outlives_a_hangup() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, pid_file) = (folder.path().join("socket"), folder.path().join("pid"));
    let mut larderd = command(&binary());
    larderd.arg("-d").arg("-s").arg(&socket).arg("-P").arg(&pid_file);
    larderd.args(["-o", "tail_repair_time=20"]);
    let output = run_to_end(&mut larderd).unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("tail_repair_time").count(), 1, "{said}");
    let daemon = Daemon::of(&pid_file).unwrap();
    kill_process(daemon.0, Signal::HUP).unwrap();
    let mut stream = Stream::connect(&Address::Unix(socket)).unwrap();
    stream.ask(b"version\r\n", b"\r\n").unwrap();
}

#[test]
fn a_pid_file_of_a_running_process_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    fs::write(&pid_file, "1\n").unwrap();
    let server = start(Transport::Unix, &["-P", pid_file.to_str().unwrap()]).unwrap();
    wait_until("the pid file is written", || {
        fs::read_to_string(&pid_file).unwrap().trim() == server.pid().to_string()
    })
    .unwrap();
    assert!(server.log().contains("contains the id of running process 1"), "{}", server.log());
}

#[test]
fn descriptors_for_all_connections_are_allowed_and_core_files_where_they_are_wanted() {
    let server = start(Transport::Unix, &["-c", "1500", "-r"]).unwrap();
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let soft = |name: &str| -> String {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let descriptors = soft("Max open files");
    assert!(descriptors == "unlimited" || descriptors.parse::<u32>().unwrap() > 1500, "{limits}");
    assert_ne!(soft("Max core file size"), "0", "{limits}");
}

/// Runs a command as an unprivileged user, in a shell after the commands `words`.
fn as_nobody(words: &str, binary: &Path, args: &str) -> Result<Output> {
    let script = format!("{words}; exec {} {args}", binary.display());
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", &script]);
    run_to_end(&mut shell)
}

#[test]
fn too_few_descriptors_or_no_core_files_prevent_the_start() {
    if !is_root() {
        return larder_testkit::skip("needs root");
    }
    let folder = for_everybody().unwrap();
    for binary in [binary(), memcached().unwrap()] {
        let copy = folder.path().join("server");
        fs::copy(binary, &copy).unwrap();
        for (words, args) in [("ulimit -n 256", "-c 1000"), ("ulimit -c 0", "-r")] {
            let output = as_nobody(words, &copy, args).unwrap();
            assert_eq!(output.status.code(), Some(71), "{words}: {output:?}");
        }
    }
}

#[test]
fn descriptors_for_as_many_connections_as_c_says_are_enough_for_a_start() {
    if !is_root() {
        return larder_testkit::skip("needs root");
    }
    let folder = for_everybody().unwrap();
    let (copy, socket) = (folder.path().join("server"), folder.path().join("socket"));
    fs::copy(binary(), &copy).unwrap();
    let mut shell = Command::new("setpriv");
    let script = format!("ulimit -n 100; exec {} -c 100 -s {}", copy.display(), socket.display());
    shell.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", &script]);
    let _process = Killed(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("it listens", || UnixStream::connect(&socket).is_ok()).unwrap();
    let streams: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // At least half of the connections fit, and the last ones are refused.
    let mut refused = String::new();
    let mut last = streams.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    last.read_to_string(&mut refused).unwrap();
    assert_eq!(refused, "ERROR Too many open connections\r\n");
    let mut middle = &streams[50];
    middle.write_all(b"mn\r\n").unwrap();
    middle.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 4];
    middle.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"MN\r\n");
}

/// Creates a directory with full access for all users.
fn for_everybody() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777))?;
    Ok(folder)
}

#[test]
fn root_becomes_the_user_that_is_named_and_keeps_nothing() {
    if !is_root() {
        return larder_testkit::skip("needs root");
    }
    let server = start(Transport::Tcp, &["-u", "nobody", "-r"]).unwrap();
    for (word, text) in
        [("Uid", "65534\t65534\t65534\t65534"), ("Groups", ""), ("CapEff", "0000000000000000")]
    {
        for found in status_of_threads(&server, word).unwrap() {
            assert_eq!(found, text, "{word}");
        }
    }
    // The system assigns the files of a process to its user only if the process may write core
    // files.
    let owner = fs::metadata(format!("/proc/{}/environ", server.pid())).unwrap().uid();
    assert_eq!(owner, 65534);
}

#[test]
fn a_server_that_drops_privileges_has_none_in_any_thread_and_serves() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let args =
        ["--io=auto", "-o", "drop_privileges", "-A", "-P", pid_file.to_str().unwrap(), "-m", "32"];
    for transport in [Transport::Unix, Transport::Tcp] {
        let server = start(transport, &args).unwrap();
        let mut stream = server.connect().unwrap();
        wait_until("the filter is there", || {
            let threads = status_of_threads(&server, "Seccomp:").unwrap();
            threads.iter().all(|mode| mode == "2")
        })
        .unwrap();
        for (word, text) in
            [("NoNewPrivs", "1"), ("CapEff", NO_CAPABILITY), ("CapPrm", NO_CAPABILITY)]
        {
            let found = status_of_threads(&server, word).unwrap();
            assert!(found.len() > 4, "{word}: {found:?}");
            assert!(found.iter().all(|found| found == text), "{word}: {found:?}");
        }
        // More than fits, so that memory is reclaimed while the server runs.
        let value = vec![b'x'; 500_000];
        for number in 0..100 {
            let head = format!("set k{number} 0 0 500000\r\n");
            let store = [head.as_bytes(), &value, b"\r\n"].concat();
            stream.ask(&store, b"STORED\r\n").unwrap();
        }
        assert!(stream.ask(b"get k99\r\n", b"END\r\n").unwrap().len() > 500_000);
        stream.ask(b"cache_memlimit 64\r\n", b"OK\r\n").unwrap();
        stream.ask(b"stats\r\n", b"END\r\n").unwrap();
        let settings = stream.ask(b"stats settings\r\n", b"END\r\n").unwrap();
        assert!(String::from_utf8(settings).unwrap().contains("STAT drop_privileges yes\r\n"));
        for _ in 0..30 {
            server.connect().unwrap().ask(b"version\r\n", b"\r\n").unwrap();
        }
        assert_eq!(server.stop(Signal::USR1).unwrap().code(), Some(0));
    }
}

#[test]
fn a_daemon_that_drops_privileges_still_removes_its_pid_file() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, pid_file) = (folder.path().join("socket"), folder.path().join("pid"));
    let mut larderd = command(&binary());
    larderd.arg("-d").arg("-s").arg(&socket).arg("-P").arg(&pid_file);
    larderd.args(["--io=auto", "-o", "drop_privileges"]);
    assert_eq!(run_to_end(&mut larderd).unwrap().status.code(), Some(0));
    let daemon = Daemon::of(&pid_file).unwrap();
    let mut stream = Stream::connect(&Address::Unix(socket)).unwrap();
    stream.ask(b"version\r\n", b"\r\n").unwrap();
    kill_process(daemon.0, Signal::TERM).unwrap();
    wait_until("the daemon removes its pid file", || !pid_file.exists()).unwrap();
}

const NO_CAPABILITY: &str = "0000000000000000";

#[test]
fn a_start_that_fails_leaves_no_socket_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // Other users may read the directory, so the server refuses it, after the sockets are open.
    fs::create_dir(path("tier")).unwrap();
    fs::set_permissions(path("tier"), Permissions::from_mode(0o755)).unwrap();
    let mut larderd = command(&binary());
    larderd.arg("-s").arg(path("socket")).arg("--admin-listen").arg(path("admin"));
    larderd.arg("--tier-path").arg(path("tier")).args(["--tier-size", "32m"]);
    larderd.args(["--tier-mode", "store"]).arg("-P").arg(path("pid"));
    let output = run_to_end(&mut larderd).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|of| of.unwrap().path()).collect();
    assert_eq!(left, [path("tier")]);
}

#[test]
fn an_address_that_is_named_twice_is_bound_once() {
    let address = free_address().unwrap();
    let twice = format!("{address},{address}");
    let server =
        ServerUnderTest::start_at(&binary(), Address::Tcp(address), &["-l", &twice]).unwrap();
    let answer = server.connect().unwrap().ask(b"mn\r\n", b"\r\n").unwrap();
    assert_eq!(answer, b"MN\r\n");
}
