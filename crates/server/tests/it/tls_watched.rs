//! Changed certificate files are loaded without a signal, and files that cannot be used change
//! nothing.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, is_root};
use rustls::ClientConfig;

use crate::tls_scene::{Authority, Encrypted, Files, Identity, ask, shown_name};

/// Replaces a file by another in one step.
fn replace(path: &Path, content: &str) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, content)?;
    Ok(fs::rename(new, path)?)
}

/// Replaces the chain and the key, each in one step.
fn renew(files: &Files, identity: &Identity) -> Result<()> {
    replace(&files.path("chain.pem"), &identity.certificate)?;
    replace(&files.path("key.pem"), &identity.key.serialize_pem())
}

/// Waits until the server shows the certificate with this name.
fn wait_for(scene: &Encrypted, name: &'static str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while shown_name(&scene.client()?, &[name]).is_none() {
        ensure!(Instant::now() < deadline, "{name} is not shown: {}", scene.server.log());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn wait_for_log(scene: &Encrypted, words: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !scene.server.log().contains(words) {
        ensure!(Instant::now() < deadline, "no {words} in {}", scene.server.log());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn failures(scene: &Encrypted) -> Result<u64> {
    let stats = ask(&mut scene.client()?, b"stats larder\r\n", b"END\r\n")?;
    let stats = String::from_utf8(stats)?;
    let row = stats.lines().find_map(|line| line.strip_prefix("STAT certificate_reload_failures "));
    Ok(row.context("no such statistic")?.parse()?)
}

fn count(text: &str, words: &str) -> usize {
    text.matches(words).count()
}

const NOT_RELOADED: &str = "certificates not reloaded, the previous ones stay in effect: ";

#[test]
fn files_that_are_replaced_or_written_in_place_are_loaded() -> Result<()> {
    let scene = Encrypted::start("", &[])?;
    let authority = &scene.files.authority;
    let mut old = scene.client()?;
    renew(&scene.files, &authority.identity("renamed")?)?;
    wait_for(&scene, "renamed")?;
    scene.files.write(&authority.identity("in place")?)?;
    wait_for(&scene, "in place")?;
    // A program that is slow to replace the second file.
    let slow = authority.identity("slow")?;
    replace(&scene.files.path("key.pem"), &slow.key.serialize_pem())?;
    sleep(Duration::from_secs(1));
    ensure!(shown_name(&scene.client()?, &["in place"]).is_some());
    replace(&scene.files.path("chain.pem"), &slow.certificate)?;
    wait_for(&scene, "slow")?;
    let last = authority.identity("last")?;
    scene.files.write(&last)?;
    wait_for(&scene, "last")?;
    let log = scene.server.log();
    assert_eq!(count(&log, "not reloaded"), 0, "{log}");
    assert_eq!(count(&log, "larderd: certificates reloaded: "), 4, "{log}");
    assert_eq!(count(&log, "chain.pem, expires 4096-01-01T00:00:00Z"), 4, "{log}");
    assert_eq!(failures(&scene)?, 0);
    ask(&mut old, b"version\r\n", b"\r\n")?;
    Ok(())
}

#[test]
fn the_link_that_kubelet_swaps_is_followed() -> Result<()> {
    let files = Files::new()?;
    let at = |name: &str| files.path(name);
    for (name, version) in [("..v1", "first"), ("..v2", "second"), ("..v3", "third")] {
        let identity = files.authority.identity(version)?;
        fs::create_dir(at(name))?;
        fs::write(at(name).join("chain.pem"), identity.certificate)?;
        fs::write(at(name).join("key.pem"), identity.key.serialize_pem())?;
        fs::copy(at("ca.pem"), at(name).join("ca.pem"))?;
    }
    for name in ["chain.pem", "key.pem", "ca.pem"] {
        fs::remove_file(at(name))?;
        symlink(Path::new("..data").join(name), at(name))?;
    }
    symlink("..v1", at("..data"))?;
    let folder = files.folder.path().to_owned();
    let scene = Encrypted::start_with(files, "", &[])?;
    wait_for(&scene, "first")?;
    for (old, new, name) in [("..v1", "..v2", "second"), ("..v2", "..v3", "third")] {
        symlink(new, folder.join("..data_tmp"))?;
        fs::rename(folder.join("..data_tmp"), folder.join("..data"))?;
        fs::remove_dir_all(folder.join(old))?;
        wait_for(&scene, name)?;
    }
    assert_eq!(failures(&scene)?, 0);
    Ok(())
}

#[test]
fn files_that_cannot_be_used_change_nothing_and_are_one_line_of_the_log() -> Result<()> {
    type Damage = fn(&Files) -> Result<()>;
    let damage: [(&str, Damage); 5] = [
        ("the key belongs to another certificate", |files| {
            let other = files.authority.identity("other")?;
            replace(&files.path("key.pem"), &other.key.serialize_pem())
        }),
        ("it contains no certificate", |files| replace(&files.path("chain.pem"), "garbage")),
        ("No such file", |files| Ok(fs::remove_file(files.path("key.pem"))?)),
        ("has expired at 2002-01-01T00:00:00Z; renew it", |files| {
            renew(files, &files.authority.identity_between("expired", 2000..2002)?)
        }),
        ("is not valid before 4000-01-01T00:00:00Z", |files| {
            renew(files, &files.authority.identity_between("future", 4000..4002)?)
        }),
    ];
    let mut scenes = Vec::new();
    for (words, damage) in damage {
        let scene = Encrypted::start("", &[])?;
        wait_for(&scene, "first")?;
        damage(&scene.files)?;
        scenes.push((words, scene));
    }
    for (words, scene) in &scenes {
        wait_for_log(scene, NOT_RELOADED)?;
        let log = scene.server.log();
        let line = log.lines().find(|line| line.contains(NOT_RELOADED)).unwrap_or_default();
        ensure!(line.contains(words), "{words}: {log}");
        ensure!(shown_name(&scene.client()?, &["first"]).is_some(), "{words}");
        ensure!(failures(scene)? >= 1, "{words}");
    }
    sleep(Duration::from_secs(1));
    for (words, scene) in &scenes {
        let log = scene.server.log();
        assert_eq!(count(&log, NOT_RELOADED), 1, "{words}: {log}");
        renew(&scene.files, &scene.files.authority.identity("repaired")?)?;
    }
    for (_, scene) in &scenes {
        wait_for(scene, "repaired")?;
    }
    Ok(())
}

#[test]
fn other_authorities_for_clients_are_loaded() -> Result<()> {
    let scene = Encrypted::start("ssl_verify_mode=2", &[])?;
    let theirs = Authority::new("Theirs")?;
    let config_of = |authority: &Authority| -> Result<Arc<ClientConfig>> {
        let identity = authority.identity("client")?;
        Ok(Arc::new(scene.config_of(rustls::ALL_VERSIONS, Some(&identity))?))
    };
    let (ours, theirs_config) = (config_of(&scene.files.authority)?, config_of(&theirs)?);
    ensure!(scene.connect(&ours).is_ok() && scene.connect(&theirs_config).is_err());
    replace(&scene.files.path("ca.pem"), &theirs.pem)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while scene.connect(&theirs_config).is_err() {
        ensure!(Instant::now() < deadline, "{}", scene.server.log());
        sleep(Duration::from_millis(20));
    }
    ensure!(scene.connect(&ours).is_err(), "the old authority is no longer accepted");
    Ok(())
}

/// Certificates that change ten times per second, while clients connect all the time.
#[test]
fn changes_under_load_cause_no_error_and_take_effect_soon() -> Result<()> {
    const CHANGES: usize = 100;
    const NAMES: [&str; 4] = ["number one", "number two", "number three", "number four"];
    let scene = Encrypted::start("", &[])?;
    let identities: Vec<_> =
        NAMES.iter().map(|name| scene.files.authority.identity(name)).collect::<Result<_>>()?;
    let (is_over, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
    let config = Arc::new(scene.config());
    let slowest = thread::scope(|threads| -> Result<Duration> {
        let connect = || -> Result<()> {
            while !is_over.load(Relaxed) {
                let mut client = scene.connect(&Arc::new((*config).clone()))?;
                ask(&mut client, b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
                connections.fetch_add(1, Relaxed);
            }
            Ok(())
        };
        let clients: Vec<_> = (0..3).map(|_| threads.spawn(connect)).collect();
        let mut slowest = Duration::ZERO;
        let changed = || -> Result<()> {
            for number in 0..CHANGES {
                let begun = Instant::now();
                renew(&scene.files, &identities[number % 4])?;
                if number % 10 == 0 {
                    while shown_name(&scene.client()?, &NAMES) != Some(NAMES[number % 4]) {
                        ensure!(begun.elapsed() < Duration::from_secs(10), "change {number}");
                        sleep(Duration::from_millis(5));
                    }
                    slowest = slowest.max(begun.elapsed());
                }
                sleep(Duration::from_millis(100).saturating_sub(begun.elapsed()));
            }
            Ok(())
        }();
        is_over.store(true, Relaxed);
        for client in clients {
            client.join().expect("a client panicked")?;
        }
        changed.map(|()| slowest)
    })?;
    let connections = connections.load(Relaxed);
    println!("{connections} connections, no error; the slowest change took {slowest:?}");
    ensure!(slowest < Duration::from_secs(2), "{slowest:?}");
    let log = scene.server.log();
    assert_eq!(count(&log, "not reloaded"), 0, "{log}");
    assert_eq!(failures(&scene)?, 0);
    Ok(())
}

#[test]
fn the_system_call_filter_permits_the_watching() -> Result<()> {
    let scene = Encrypted::start("", &["-o", "drop_privileges", "--io=auto"])?;
    renew(&scene.files, &scene.files.authority.identity("second")?)?;
    wait_for(&scene, "second")?;
    // Another folder needs another watch.
    let folder = scene.files.folder.path();
    fs::create_dir(folder.join("other"))?;
    let third = scene.files.authority.identity("third")?;
    for (name, content) in
        [("chain.pem", third.certificate), ("key.pem", third.key.serialize_pem())]
    {
        fs::write(folder.join("other").join(name), content)?;
        symlink(Path::new("other").join(name), folder.join("link"))?;
        fs::rename(folder.join("link"), folder.join(name))?;
    }
    wait_for(&scene, "third")?;
    let fourth = scene.files.authority.identity("fourth")?;
    scene.files.write(&fourth)?;
    wait_for(&scene, "fourth")?;
    ensure!(!scene.server.log().contains("noticed only"), "{}", scene.server.log());
    Ok(())
}

#[test]
fn a_key_that_only_root_can_read_is_announced_at_the_start() -> Result<()> {
    if !is_root() {
        return Ok(());
    }
    for mode in [0o700, 0o755] {
        let files = Files::new()?;
        fs::set_permissions(files.folder.path(), fs::Permissions::from_mode(mode))?;
        fs::set_permissions(files.path("key.pem"), fs::Permissions::from_mode(0o600))?;
        let scene = Encrypted::start_with(files, "", &["-u", "nobody"])?;
        wait_for_log(&scene, "larderd: changed certificates cannot be read while the server runs")?;
        sleep(Duration::from_millis(500));
        let log = scene.server.log();
        ensure!(log.contains("allow the user of larderd to read the file"), "{log}");
        assert_eq!((count(&log, "not reloaded"), failures(&scene)?), (0, 0), "{log}");
        // A change that cannot be read is a failure.
        if mode == 0o755 {
            renew(&scene.files, &scene.files.authority.identity("second")?)?;
            let key = scene.files.path("key.pem");
            fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
            wait_for_log(&scene, NOT_RELOADED)?;
            fs::set_permissions(&key, fs::Permissions::from_mode(0o644))?;
            wait_for(&scene, "second")?;
        }
    }
    Ok(())
}

#[test]
fn a_file_whose_disk_hangs_delays_neither_clients_nor_the_stop() -> Result<()> {
    let scene = Encrypted::start("", &[])?;
    wait_for(&scene, "first")?;
    // To open a pipe without a writer takes forever.
    fs::remove_file(scene.files.path("key.pem"))?;
    nix::unistd::mkfifo(&scene.files.path("key.pem"), nix::sys::stat::Mode::S_IRUSR)?;
    sleep(Duration::from_millis(500));
    scene.server.signal(Signal::HUP)?;
    for _ in 0..20 {
        ensure!(shown_name(&scene.client()?, &["first"]).is_some());
        sleep(Duration::from_millis(50));
    }
    wait_for_log(&scene, "certificates cannot be read again since 10 s")?;
    let (begun, address) = (Instant::now(), scene.address);
    scene.server.stop(Signal::TERM)?;
    ensure!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let refused = TcpStream::connect(address).err().context("it still listens")?;
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    Ok(())
}

/// One worker serves all clients, so that it would delay them if it read the files itself.
#[test]
fn a_command_waits_for_a_disk_that_hangs_and_delays_no_other_client() -> Result<()> {
    let scene = Encrypted::start("", &["-t", "1"])?;
    wait_for(&scene, "first")?;
    let (mut asks, mut other) = (scene.client()?, scene.client()?);
    let (pipe, chain) = (scene.files.path("pipe"), scene.files.path("chain.pem"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR)?;
    fs::remove_file(&chain)?;
    fs::hard_link(&pipe, &chain)?;
    let begun = Instant::now();
    asks.write_all(b"refresh_certs\r\nversion\r\n")?;
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(3) {
        let sent = Instant::now();
        ask(&mut other, b"get k\r\n", b"END\r\n")?;
        ensure!(shown_name(&scene.client()?, &["first"]).is_some());
        slowest = slowest.max(sent.elapsed());
        sleep(Duration::from_millis(20));
    }
    ensure!(slowest < Duration::from_millis(500), "another client waited {slowest:?}");
    let answer = ask(&mut asks, b"", b"1.6.45\r\n")?;
    let took = begun.elapsed();
    ensure!(answer.starts_with(b"Error the certificates"), "{}", answer.escape_ascii());
    ensure!((9..15).contains(&took.as_secs()), "{took:?}");
    ensure!(scene.server.log().contains("certificates cannot be read again since 10 s"));

    // The disk responds again.
    renew(&scene.files, &scene.files.authority.identity("second")?)?;
    drop(fs::OpenOptions::new().write(true).open(&pipe)?);
    wait_for(&scene, "second")?;
    ask(&mut asks, b"refresh_certs\r\n", b"OK\r\n")?;
    Ok(())
}

/// A datagram has no session that could wait.
#[test]
fn a_command_by_udp_is_answered_before_the_files_are_read() -> Result<()> {
    let udp = larder_testkit::server::free_address()?;
    let scene = Encrypted::start("", &["-U", &udp.port().to_string()])?;
    wait_for(&scene, "first")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(udp)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    scene.files.write(&scene.files.authority.identity("second")?)?;
    socket.send(b"\x00\x01\x00\x00\x00\x01\x00\x00refresh_certs\r\n")?;
    let mut answer = [0; 100];
    let bytes = socket.recv(&mut answer)?;
    assert_eq!(&answer[8..bytes], b"OK\r\n");
    wait_for_log(&scene, "refresh_certs: certificates reloaded: ")
}

#[test]
fn a_certificate_that_has_expired_is_served_from_the_start_with_a_warning() -> Result<()> {
    let files = Files::new()?;
    files.write(&files.authority.identity_between("first", 2000..2002)?)?;
    let address = larder_testkit::server::free_address()?;
    let args = files.args("");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = larder_testkit::ServerUnderTest::start_at(
        &crate::binary(),
        larder_testkit::Address::Tcp(address),
        &args,
    )?;
    let scene = Encrypted { files, server, address };
    wait_for_log(&scene, "has expired at 2002-01-01T00:00:00Z, and clients that check it")?;
    renew(&scene.files, &scene.files.authority.identity("second")?)?;
    wait_for_log(&scene, "larderd: certificates reloaded: ")?;
    wait_for(&scene, "second")
}
