//! TLS: which clients are served and which are refused, and that clients do not affect each other.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, free_address, run_to_end};
use rustix::process::{Pid, kill_process};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ClientConnection, HandshakeKind};

use crate::binary;
use crate::tls_scene;
use crate::tls_scene::{Authority, Encrypted, Files, ask, connect, shown_name, stat};

fn set(stream: &mut impl tls_scene::ReadWrite, key: &str, value: &[u8]) -> Result<()> {
    let request =
        [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
    ask(stream, &request, b"STORED\r\n")?;
    Ok(())
}

/// Returns the bytes with which a client begins a handshake.
fn hello(scene: &Encrypted) -> Result<Vec<u8>> {
    let config = Arc::new(scene.config());
    let mut client = ClientConnection::new(config, "localhost".try_into()?)?;
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes)?;
    Ok(bytes)
}

/// Reads to the end of the connection. Returns false if the read times out first.
fn has_ended(stream: &mut TcpStream) -> Result<bool> {
    // An alert may come first. A reset is also an end.
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_closed(mut stream: TcpStream) -> Result<bool> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    has_ended(&mut stream)
}

#[test]
fn both_versions_carry_small_and_large_values_and_long_pipelines() -> Result<()> {
    for words in ["", "ssl_wbuf_size=1", "ssl_wbuf_size=2000"] {
        let scene = Encrypted::start(words, &[])?;
        for version in [&TLS12, &TLS13] {
            let mut client = scene.connect(&Arc::new(scene.config_of(&[version], None)?))?;
            assert_eq!(client.conn.protocol_version(), Some(version.version));
            let value: Vec<u8> = (0..900_000_u32).map(|at| (at % 251) as u8).collect();
            set(&mut client, "large", &value)?;
            let item = [b"VALUE large 0 900000\r\n", &value[..], b"\r\n"].concat();
            let answer = ask(&mut client, b"get large large large\r\n", b"END\r\n")?;
            assert!(answer == [&item.repeat(3)[..], b"END\r\n"].concat());

            set(&mut client, "small", b"x")?;
            client.write_all(&b"get small\r\n".repeat(20_000))?;
            let expected = b"VALUE small 0 1\r\nx\r\nEND\r\n".repeat(20_000);
            let mut answer = vec![0; expected.len()];
            client.read_exact(&mut answer)?;
            assert!(answer == expected);

            // A line of keys too long for every buffer.
            let keys = b" absent".repeat(30_000);
            let answer =
                ask(&mut client, &[b"get", &keys[..], b" small\r\n"].concat(), b"END\r\n")?;
            assert_eq!(answer, b"VALUE small 0 1\r\nx\r\nEND\r\n");

            client.write_all(b"quit\r\n")?;
            let mut rest = Vec::new();
            // Without a close notification this would be an error.
            client.read_to_end(&mut rest)?;
            assert!(rest.is_empty());
        }
    }
    Ok(())
}

#[test]
fn records_that_arrive_byte_by_byte_are_decrypted() -> Result<()> {
    let scene = Encrypted::start("", &["-t", "1"])?;
    let mut socket = TcpStream::connect(scene.address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let config = Arc::new(scene.config());
    let mut client = ClientConnection::new(config, "localhost".try_into()?)?;
    let mut answer = Vec::new();
    let mut is_asked = false;
    while !answer.ends_with(b"END\r\n") {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes)?;
        }
        for byte in bytes {
            socket.write_all(&[byte])?;
        }
        if !client.is_handshaking() && !is_asked {
            is_asked = true;
            client.writer().write_all(b"set k 0 0 5\r\nhello\r\n")?;
            client.writer().write_all(b"get k\r\n")?;
            continue;
        }
        ensure!(client.read_tls(&mut socket)? > 0, "the server has closed");
        let bytes = client.process_new_packets()?.plaintext_bytes_to_read();
        let mut plain = vec![0; bytes];
        client.reader().read_exact(&mut plain)?;
        answer.extend_from_slice(&plain);
    }
    assert_eq!(answer, b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n");
    Ok(())
}

#[test]
fn keys_can_be_changed_in_the_middle() -> Result<()> {
    let scene = Encrypted::start("", &[])?;
    let mut client = scene.connect(&Arc::new(scene.config_of(&[&TLS13], None)?))?;
    for _ in 0..3 {
        client.conn.refresh_traffic_keys()?;
        set(&mut client, "k", b"value")?;
        assert_eq!(ask(&mut client, b"get k\r\n", b"END\r\n")?, b"VALUE k 0 5\r\nvalue\r\nEND\r\n");
    }
    Ok(())
}

#[test]
fn a_stalled_handshake_blocks_no_client_and_ends_with_the_idle_timeout() -> Result<()> {
    let scene = Encrypted::start("idle_timeout=2", &["-t", "1"])?;
    let hello = hello(&scene)?;
    let mut stalled = Vec::new();
    for bytes in [0, 1, 5, 100, hello.len() - 1, hello.len()] {
        let mut socket = TcpStream::connect(scene.address)?;
        socket.write_all(&hello[..bytes])?;
        stalled.push(socket);
    }
    // The handshake of a client that sends slowly must also time out.
    let mut dripping = TcpStream::connect(scene.address)?;
    let mut client = scene.client()?;
    let begun = Instant::now();
    for byte in hello.iter().take(20) {
        dripping.write_all(&[*byte])?;
        set(&mut client, "k", b"v")?;
        sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for (mut socket, number) in stalled.into_iter().zip(0..) {
        // The client sends requests in the meantime, because it would otherwise be idle as well.
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        while !has_ended(&mut socket)? {
            set(&mut client, "k", b"v")?;
            assert!(begun.elapsed() < Duration::from_secs(20), "{number} stays open");
        }
    }
    let mut is_open = true;
    for byte in hello.iter().skip(20).take(60) {
        is_open = is_open && dripping.write_all(&[*byte]).is_ok();
        set(&mut client, "k", b"v")?;
        sleep(Duration::from_millis(50));
    }
    assert!(!is_open, "a slow handshake never times out");
    assert_eq!(stat(&mut client, "idle_kicks")?, Some(7));
    Ok(())
}

#[test]
fn a_connection_without_tls_is_closed_and_counted() -> Result<()> {
    let scene = Encrypted::start("", &[])?;
    let mut client = scene.client()?;
    let garbage: [&[u8]; 5] = [
        b"version\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3],
        &[0x80; 100],
        &[0x17, 3, 3, 0, 5, 1, 2, 3, 4, 5],
    ];
    for bytes in garbage {
        let mut socket = TcpStream::connect(scene.address)?;
        socket.write_all(bytes)?;
        assert!(is_closed(socket)?, "{bytes:?}");
    }
    assert_eq!(stat(&mut client, "ssl_handshake_errors")?, Some(garbage.len() as u64));
    assert_eq!(stat(&mut client, "ssl_proto_errors")?, Some(0));

    let mut other = scene.client()?;
    other.sock.write_all(b"version\r\n")?;
    assert!(is_closed(other.sock)?);
    assert_eq!(stat(&mut client, "ssl_proto_errors")?, Some(1));
    Ok(())
}

#[test]
fn client_certificates_are_checked_where_configured() -> Result<()> {
    let files = Files::new()?;
    let ours = files.authority.identity("client")?;
    let theirs = Authority::new("Theirs")?.identity("stranger")?;
    let mut files = Some(files);
    let mut scenes = Vec::new();
    for (words, without, with_theirs) in [
        ("ssl_verify_mode=0", true, true),
        ("ssl_verify_mode=1", true, false),
        ("ssl_verify_mode=2", false, false),
        ("ssl_verify_mode=3", true, false),
    ] {
        let scene = match files.take() {
            Some(files) => Encrypted::start_with(files, words, &[])?,
            None => {
                let before: Encrypted = scenes.pop().context("there was one before")?;
                Encrypted::start_with(before.files, words, &[])?
            }
        };
        for version in [&TLS12, &TLS13] {
            let connects = |identity| -> Result<bool> {
                Ok(scene.connect(&Arc::new(scene.config_of(&[version], identity)?)).is_ok())
            };
            assert!(connects(Some(&ours))?, "{words}");
            assert_eq!(connects(None)?, without, "{words}");
            assert_eq!(connects(Some(&theirs))?, with_theirs, "{words}");
        }
        scenes.push(scene);
    }
    Ok(())
}

#[test]
fn addresses_differ_in_their_certificate_policy() -> Result<()> {
    let files = Files::new()?;
    let ours = files.authority.identity("client")?;
    let [plain, any, mutual] = [free_address()?, free_address()?, free_address()?];
    let list = format!("notls:{plain},btls:{any},mtls:{mutual}");
    let words = "ssl_verify_mode=1,ssl_session_cache";
    let scene = Encrypted::start_with(files, words, &["-l", &list])?;
    // The server binds these addresses after the one that the test has waited for.
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(mutual).is_err() && Instant::now() < deadline {
        sleep(Duration::from_millis(5));
    }

    let mut socket = TcpStream::connect(plain)?;
    set(&mut socket, "k", b"v")?;
    let without = Arc::new(scene.config());
    let mut client = connect(any, &without)?;
    assert_eq!(ask(&mut client, b"get k\r\n", b"END\r\n")?, b"VALUE k 0 1\r\nv\r\nEND\r\n");
    let with_ours = Arc::new(scene.config_of(rustls::ALL_VERSIONS, Some(&ours))?);
    connect(mutual, &with_ours)?;
    // Resuming a session from an address that requires no certificate fails as well.
    assert!(connect(mutual, &without).is_err());
    let mut again = connect(any, &without)?;
    set(&mut again, "k", b"v")?;
    Ok(())
}

#[test]
fn sessions_are_resumed_if_that_is_switched_on() -> Result<()> {
    for version in [&TLS12, &TLS13] {
        let kinds = |words| -> Result<_> {
            let scene = Encrypted::start(words, &[])?;
            let config = Arc::new(scene.config_of(&[version], None)?);
            let first = scene.connect(&config)?.conn.handshake_kind();
            let mut client = scene.connect(&config)?;
            let sessions = stat(&mut client, "ssl_new_sessions")?;
            Ok((first, client.conn.handshake_kind(), sessions))
        };
        let full = Some(HandshakeKind::Full);
        assert_eq!(kinds("ssl_session_cache")?, (full, Some(HandshakeKind::Resumed), Some(1)));
        assert_eq!(kinds("")?, (full, full, None));
    }
    Ok(())
}

#[test]
fn tls_versions_and_cipher_suites_are_enforced() -> Result<()> {
    let scene = Encrypted::start("ssl_min_version=3", &[])?;
    let connects = |scene: &Encrypted, version| -> Result<bool> {
        Ok(scene.connect(&Arc::new(scene.config_of(&[version], None)?)).is_ok())
    };
    assert!(connects(&scene, &TLS13)?);
    assert!(!connects(&scene, &TLS12)?);
    for old in ["ssl_min_version=0", "ssl_min_version=1"] {
        let scene = Encrypted::start(old, &[])?;
        assert!(connects(&scene, &TLS13)?);
        assert!(connects(&scene, &TLS12)?);
        assert!(scene.server.log().contains("ssl_min_version"), "{}", scene.server.log());
    }
    let scene = Encrypted::start("ssl_ciphers=ECDHE-ECDSA-CHACHA20-POLY1305", &[])?;
    let client = scene.connect(&Arc::new(scene.config_of(&[&TLS12], None)?))?;
    assert_eq!(
        client.conn.negotiated_cipher_suite().map(|suite| suite.suite()),
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256)
    );
    assert!(connects(&scene, &TLS13)?);
    let scene = Encrypted::start("ssl_ciphers=TLS_AES_128_GCM_SHA256", &[])?;
    let client = scene.client()?;
    assert_eq!(
        client.conn.negotiated_cipher_suite().map(|suite| suite.suite()),
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256)
    );
    assert!(!connects(&scene, &TLS12)?);
    Ok(())
}

#[test]
fn new_certificates_are_taken_by_command_and_by_signal() -> Result<()> {
    const NAMES: [&str; 3] = ["first", "second", "third"];
    let scene = Encrypted::start("", &[])?;
    let mut old = scene.client()?;
    assert_eq!(shown_name(&old, &NAMES), Some("first"));
    scene.files.write(&scene.files.authority.identity("second")?)?;
    sleep(Duration::from_millis(1100));
    assert!(stat(&mut old, "time_since_server_cert_refresh")? >= Some(1));
    ask(&mut old, b"refresh_certs\r\n", b"OK\r\n")?;
    assert_eq!(stat(&mut old, "time_since_server_cert_refresh")?, Some(0));
    assert_eq!(shown_name(&scene.client()?, &NAMES), Some("second"));

    fs::write(scene.files.path("chain.pem"), "no certificate")?;
    let answer = ask(&mut old, b"refresh_certs\r\n", b"\r\n")?;
    assert!(answer.starts_with(b"Error "), "{}", answer.escape_ascii());
    assert!(scene.server.log().contains("chain.pem"), "{}", scene.server.log());
    assert_eq!(shown_name(&scene.client()?, &NAMES), Some("second"));

    scene.files.write(&scene.files.authority.identity("third")?)?;
    let pid = i32::try_from(scene.server.pid())?;
    kill_process(Pid::from_raw(pid).context("0 is not a process id")?, Signal::HUP)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !scene.server.log().contains("larderd: SIGHUP: certificates reloaded: ") {
        ensure!(Instant::now() < deadline, "the signal changed nothing");
        sleep(Duration::from_millis(20));
    }
    assert_eq!(shown_name(&scene.client()?, &NAMES), Some("third"));
    set(&mut old, "k", b"v")
}

#[test]
fn sessions_are_resumed_after_a_refresh() -> Result<()> {
    let scene = Encrypted::start("ssl_session_cache", &[])?;
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(scene.config_of(&[version], None)?);
        let mut first = scene.connect(&config)?;
        scene.files.write(&scene.files.authority.identity("second")?)?;
        ask(&mut first, b"refresh_certs\r\n", b"OK\r\n")?;
        let second = scene.connect(&config)?;
        assert_eq!(second.conn.handshake_kind(), Some(HandshakeKind::Resumed), "{version:?}");
    }
    Ok(())
}

#[test]
fn a_list_of_ciphers_for_openssl_is_taken_with_a_warning() -> Result<()> {
    let list = "ECDHE-ECDSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:!kRSA:@SECLEVEL=1";
    let scene = Encrypted::start(&format!("ssl_ciphers={list}"), &[])?;
    let client = scene.connect(&Arc::new(scene.config_of(&[&TLS12], None)?))?;
    assert_eq!(
        client.conn.negotiated_cipher_suite().map(|suite| suite.suite()),
        Some(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
    );
    let log = scene.server.log();
    let warning = log.lines().find(|line| line.contains("ssl_ciphers")).context("no warning")?;
    assert!(warning.ends_with(": DHE-RSA-AES128-GCM-SHA256"), "{warning}");
    Ok(())
}

#[test]
fn a_key_may_be_in_der() -> Result<()> {
    let files = Files::new()?;
    let identity = files.authority.identity("first")?;
    files.write(&identity)?;
    fs::write(files.path("key.pem"), identity.key.serialize_der())?;
    let scene = Encrypted::start_with(files, "ssl_keyformat=2", &[])?;
    scene.client()?;
    Ok(())
}

#[test]
fn a_key_may_be_called_by_another_name_in_its_pem() -> Result<()> {
    let files = Files::new()?;
    let pem = fs::read_to_string(files.path("key.pem"))?;
    fs::write(files.path("key.pem"), pem.replace(" PRIVATE KEY", " RSA PRIVATE KEY"))?;
    let scene = Encrypted::start_with(files, "", &[])?;
    scene.client()?;
    Ok(())
}

#[test]
fn files_that_cannot_be_used_end_the_start() -> Result<()> {
    type Damage = fn(&Files) -> Result<()>;
    let damage: [(&str, Damage); 6] = [
        ("chain.pem", |files| Ok(fs::remove_file(files.path("chain.pem"))?)),
        ("chain.pem", |files| Ok(fs::write(files.path("chain.pem"), "")?)),
        ("key.pem", |files| Ok(fs::remove_file(files.path("key.pem"))?)),
        ("key.pem", |files| Ok(fs::write(files.path("key.pem"), "nonsense")?)),
        ("ca.pem", |files| Ok(fs::write(files.path("ca.pem"), [0xff; 10])?)),
        ("key.pem", |files| {
            let other = files.authority.identity("other")?;
            Ok(fs::write(files.path("key.pem"), other.key.serialize_pem())?)
        }),
    ];
    for (name, damage) in damage {
        let files = Files::new()?;
        damage(&files)?;
        let address = free_address()?.to_string();
        let mut larderd = command(&binary());
        larderd.args(files.args("")).args(["-l", &address]);
        let output = run_to_end(&mut larderd)?;
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{message}");
        let path = files.path(name).display().to_string();
        assert!(message.contains(&path), "{message}");
        assert!(message.lines().count() == 1, "{message}");
        // rustls shows its type names in some messages.
        for word in ["KeyMismatch", "NoItemsFound", "BadEncoding", "Inconsistent"] {
            assert!(!message.contains(word), "{message}");
        }
    }
    let files = Files::new()?;
    let output = run_to_end(command(&binary()).args(files.args("ssl_ciphers=AES128-SHA")))?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{message}");
    assert!(message.contains("ssl_ciphers"), "{message}");
    assert!(message.contains("AES128-SHA"), "{message}");
    Ok(())
}

#[test]
fn without_tls_there_is_nothing_to_refresh() -> Result<()> {
    let server =
        larder_testkit::ServerUnderTest::start(&binary(), larder_testkit::Transport::Tcp, &[])?;
    let answer = server.connect()?.ask(b"refresh_certs\r\n", b"\r\n")?;
    assert_eq!(answer, b"Error TLS not enabled\r\n");
    Ok(())
}

#[test]
fn memory_of_encrypted_clients_is_bounded() -> Result<()> {
    const MIB: u64 = 1 << 20;
    let scene = Encrypted::start("read_buf_mem_limit=4", &["-c", "2000"])?;
    let config = Arc::new(scene.config());
    let mut bystander = scene.connect(&config)?;
    // Short enough to be copied into a response. A longer value is sent from the cache's memory and
    // needs no other memory.
    set(&mut bystander, "value", &[b'v'; 10_000])?;
    let before = scene.server.rss_bytes()?;
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(scene.connect(&config)?);
    }
    let idle_bytes = scene.server.rss_bytes()?.saturating_sub(before) / 400;
    assert!(idle_bytes < 16 * 1024, "an idle connection costs {idle_bytes} bytes");

    // Clients that request much and do not read occupy as much as the others leave.
    let before = scene.server.rss_bytes()?;
    for client in &mut idle[..200] {
        client.write_all(&[&b"get"[..], &b" value".repeat(1000), b"\r\n"].concat())?;
    }
    // Clients that send a record without its last byte wait.
    for client in &mut idle[200..] {
        client.sock.write_all(&[0x17, 3, 3, 0x40, 0])?;
        client.sock.write_all(&vec![0; 0x4000 - 1])?;
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while stat(&mut bystander, "read_buf_bytes")? < Some(200 * 16 * 1024) {
        ensure!(Instant::now() < deadline, "the records have not arrived");
        sleep(Duration::from_millis(100));
    }
    // Long enough for a connection to count as idle.
    sleep(Duration::from_secs(3));
    let grown = scene.server.rss_bytes()?.saturating_sub(before);
    assert!(grown < 40 * MIB, "{} KiB", grown / 1024);
    for (number, client) in idle[..200].iter_mut().enumerate() {
        let item = [&b"VALUE value 0 10000\r\n"[..], &[b'v'; 10_000], b"\r\n"].concat();
        let mut answer = vec![0; 1000 * item.len() + 5];
        client.read_exact(&mut answer).with_context(|| format!("client {number}"))?;
        ensure!(answer == [item.repeat(1000), b"END\r\n".to_vec()].concat(), "client {number}");
    }
    for closed in ["response_obj_oom", "read_buf_oom"] {
        assert_eq!(stat(&mut bystander, closed)?, Some(0), "{closed}");
    }
    drop(idle);
    let deadline = Instant::now() + Duration::from_secs(10);
    while stat(&mut bystander, "read_buf_bytes")? > Some(0) {
        ensure!(Instant::now() < deadline, "the buffers of closed connections are still counted");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
