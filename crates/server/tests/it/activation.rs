//! Socket activation: systemd opens the sockets, and starts larderd with them as inherited
//! descriptors.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use larder_testkit::server::{command, run_to_end};
use larder_testkit::{Address, Stream, uninterrupted};

use crate::binary;
use crate::killed::Killed;
use crate::tls_scene;

/// Returns the command of a larderd that inherits two descriptors, 3 and 4, as from systemd. A
/// shell receives them as its standard input and output, and executes larderd.
fn given(descriptors: [OwnedFd; 2], variables: &str, args: &[&str]) -> Command {
    let larderd = command(&binary());
    let mut shell = Command::new("sh");
    let script = format!(
        "export LISTEN_PID=$$ LISTEN_FDS=2 {variables}; exec \"$0\" \"$@\" 3<&0 4<&1 </dev/null >/dev/null"
    );
    shell.arg("-c").arg(script).arg(binary()).args(larderd.get_args()).args(args);
    for (name, value) in larderd.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let [third, fourth] = descriptors;
    shell.stdin(third).stdout(fourth);
    shell
}

#[test]
fn connections_that_waited_before_it_started_are_served_over_tcp_and_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(tcp.local_addr().unwrap());
    let unix = UnixListener::bind(&path).unwrap();
    let mut early = Stream::connect(&address).unwrap();
    // The server must not open this port. A server that tried would report an error and exit.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    let mut larderd = given([tcp.into(), unix.into()], "", &["-l", "127.0.0.1", "-p", &taken]);
    let _process = Killed(larderd.spawn().unwrap());
    early.set_timeout(Duration::from_secs(10)).unwrap();
    early.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
    let mut local = Stream::connect(&Address::Unix(path.clone())).unwrap();
    local.ask(b"get k\r\n", b"x\r\nEND\r\n").unwrap();
    let conns = local.ask(b"stats conns\r\n", b"END\r\n").unwrap();
    let conns = String::from_utf8(conns).unwrap();
    assert!(conns.contains(&format!("unix:{}", path.display())), "{conns}");
    assert_eq!(conns.matches("conn_listening").count(), 2, "{conns}");
}

#[test]
fn sockets_of_systemd_take_the_words_of_the_addresses_and_paths_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let (named, missing) = (path.display(), folder.path().join("missing").display().to_string());
    let list = format!("proto[ascii]:{address},unix[readers]:{named},unix:{missing}");
    let mut larderd = given([tcp.into(), unix.into()], "", &["-m", "64", "-l", &list]);
    let log = folder.path().join("log");
    let log_file = fs::File::create(&log).unwrap();
    let _process = Killed(larderd.stderr(log_file).spawn().unwrap());
    let mut stream = Stream::connect(&Address::Tcp(address)).unwrap();
    stream.set_timeout(Duration::from_secs(10)).unwrap();
    stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
    let reader = larder::Client::connect(&path).unwrap();
    assert_eq!(reader.get("k").unwrap().as_deref(), Some(&b"x"[..]));
    assert!(reader.reads_memory(), "the word readers applies to the inherited socket");
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains(&format!("add ListenStream={missing} to the socket unit")), "{said}");
    assert!(!folder.path().join("missing").exists());
}

#[test]
fn a_datagram_socket_is_served_and_an_address_takes_its_entry_of_the_options() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp_address, tcp_address) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let list = format!("proto[binary]:{tcp_address}");
    let mut larderd = given([udp.into(), tcp.into()], "", &["-l", &list]);
    let _process = Killed(larderd.spawn().unwrap());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.send_to(b"\0\x01\0\0\0\x01\0\0mn\r\n", udp_address).unwrap();
    let mut answer = [0; 100];
    let bytes = uninterrupted(|| client.recv(&mut answer)).unwrap();
    assert_eq!(&answer[8..bytes], b"MN\r\n");
    let mut binary = Stream::connect(&Address::Tcp(tcp_address)).unwrap();
    let noop = [&[0x80, 0x0a][..], &[0; 22]].concat();
    binary.ask(&noop, &[0; 8]).unwrap();
    let mut text = Stream::connect(&Address::Tcp(tcp_address)).unwrap();
    text.ask(b"mn\r\n", b"MN\r\n").unwrap_err();
}

#[test]
fn a_descriptor_that_cannot_listen_is_refused_with_number_name_and_reason() {
    let listener = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
    let named = "LISTEN_FDNAMES=cache:other";
    let connected = UnixStream::pair().unwrap().0.into();
    let datagram = UnixDatagram::unbound().unwrap().into();
    let file = fs::File::open("/dev/null").unwrap().into();
    for (fourth, variables, words) in [
        (connected, named, "socket 4 (other) from systemd: it does not listen"),
        (datagram, named, "socket 4 (other) from systemd: a unix socket must be a stream"),
        (file, named, "socket 4 (other) from systemd: Socket operation on non-socket"),
        (listener(), "LISTEN_FDS=3", "socket 5 from systemd: the descriptor does not exist"),
        (listener(), "LISTEN_FDS=many", "LISTEN_FDS=many: expected a number of sockets"),
        (listener(), "LISTEN_FDS=99999999999", "expected a number of sockets"),
        (listener(), "LISTEN_FDS=-1", "expected a number of sockets"),
    ] {
        let output = run_with(&mut given([listener(), fourth], variables, &[])).unwrap();
        assert_eq!(output.0, Some(71), "{words}: {output:?}");
        assert!(output.1.contains(words), "{words}: {output:?}");
    }
    let output = run_with(&mut given([listener(), listener()], "", &["-d"])).unwrap();
    assert_eq!(output.0, Some(64), "{output:?}");
    assert!(output.1.contains("leave -d out"), "{output:?}");
}

#[test]
fn with_tls_a_socket_that_no_address_names_ends_the_start() {
    let files = tls_scene::Files::new().unwrap();
    let [named, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let listen = format!("mtls:{}", named.local_addr().unwrap());
    let unnamed = other.local_addr().unwrap().to_string();
    let tls = files.args("");
    let args: Vec<&str> = tls.iter().map(String::as_str).chain(["-l", &listen]).collect();
    let mut larderd = given([named.into(), other.into()], "LISTEN_FDNAMES=a:b", &args);
    let (status, words) = run_with(&mut larderd).unwrap();
    assert_eq!(status, Some(71), "{words}");
    assert!(words.contains("cannot listen on socket 4 (b) from systemd: with TLS, "), "{words}");
    assert!(words.contains(&format!("add mtls:{unnamed},")), "{words}");
}

/// Runs a command that is expected to exit. Its standard output is already in use.
fn run_with(shell: &mut Command) -> Result<(Option<i32>, String)> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("stderr");
    let mut process = Killed(shell.stderr(fs::File::create(&log)?).spawn()?);
    for _ in 0..1000 {
        if let Some(status) = process.0.try_wait()? {
            return Ok((status.code(), fs::read_to_string(&log)?));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("still runs: {}", fs::read_to_string(&log)?)
}

#[test]
fn variables_for_another_process_are_ignored() {
    let mut larderd = command(&binary());
    larderd.env("LISTEN_PID", "1").env("LISTEN_FDS", "1").args(["-l", "192.0.2.1"]);
    let output = run_to_end(larderd.stdout(Stdio::null())).unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("192.0.2.1"), "{output:?}");
}
