//! Several listeners together: TCP ports and unix sockets with different words.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder::Client;
use larder_testkit::server::{Signal, command, free_address, is_root, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, http, skip, stat};
use tempfile::TempDir;

use crate::binary;
use crate::killed::Killed;
use crate::tls_scene;
use crate::upgrade_scene::{PidFile, has_ended, wait_until};

/// A larderd that reads its listeners from a configuration file.
struct Scene {
    pid_file: PidFile,
    _first: Killed,
    folder: TempDir,
}

impl Scene {
    fn start(args: &[&str], config: impl Fn(&Path) -> String) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path("larder.toml"), config(folder.path()))?;
        let process = command(&binary())
            .arg("--config")
            .arg(path("larder.toml"))
            .arg("-P")
            .arg(path("pid"))
            .args(["-m", "64", "-t", "2"])
            .args(args)
            .stderr(fs::File::create(path("log"))?)
            .stdout(fs::File::create(path("out"))?)
            .spawn()?;
        let (pid_file, _first) = (PidFile(path("pid")), Killed(process));
        let scene = Self { pid_file, _first, folder };
        wait_until("it serves", || scene.pid_file.pid().is_ok()).with_context(|| scene.log())?;
        Ok(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn unix(&self, name: &str) -> Result<Stream> {
        Ok(Stream::connect(&Address::Unix(self.path(name)))?)
    }

    fn mode(&self, name: &str) -> Result<u32> {
        Ok(fs::metadata(self.path(name))?.permissions().mode() & 0o777)
    }

    /// Replaces the process by one with this configuration.
    fn upgrade(&self, config: impl Fn(&Path) -> String) -> Result<()> {
        fs::write(self.path("larder.toml"), config(self.folder.path()))?;
        let old = self.pid_file.pid()?;
        rustix::process::kill_process(old, Signal::USR2)?;
        wait_until("the old process ends", || has_ended(old)).with_context(|| self.log())?;
        ensure!(self.pid_file.pid()? != old, "{}", self.log());
        Ok(())
    }
}

fn tcp(address: SocketAddr) -> Result<Stream> {
    Ok(Stream::connect(&Address::Tcp(address))?)
}

/// Reads items in the server's memory until `stop` is set. Returns how many reads were local.
fn read_on(client: &Client, stop: &AtomicBool) -> Result<u64> {
    let mut local = 0;
    while !stop.load(Relaxed) {
        let mut value = Vec::new();
        let hit = client.get_into("counted", &mut value)?.context("it is gone")?;
        local += u64::from(hit.is_local);
    }
    Ok(local)
}

#[test]
fn tcp_clients_write_while_a_local_reader_reads_and_others_use_tls() -> Result<()> {
    let files = tls_scene::Files::new()?;
    let (plain, encrypted) = (free_address()?, free_address()?);
    let args = files.args("");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let scene = Scene::start(&args, |folder| {
        let folder = folder.display();
        format!(
            "listen = \"notls:{plain},unix[mode=0660,readers]:{folder}/readers,\
             unix:{folder}/plain,mtls:proto[ascii]:{encrypted}\"\n"
        )
    })?;
    assert_eq!((scene.mode("readers")?, scene.mode("plain")?), (0o660, 0o700));
    let mut writer = tcp(plain)?;
    writer.ask(b"set counted 0 0 1\r\n0\r\n", b"STORED\r\n")?;
    let reader = Client::connect(scene.path("readers"))?;
    let stop = AtomicBool::new(false);
    let local = thread::scope(|scope| {
        let reading = scope.spawn(|| read_on(&reader, &stop));
        let written =
            (0..2000).try_for_each(|_| writer.ask(b"incr counted 1\r\n", b"\r\n").map(drop));
        stop.store(true, Relaxed);
        written.map_err(anyhow::Error::from).and(reading.join().expect("the reader panicked"))
    })?;
    assert!(local > 100, "{local} reads without the socket");
    assert_eq!(reader.get("counted")?.as_deref(), Some(&b"2000"[..]));
    let other = Client::connect(scene.path("plain"))?;
    assert_eq!(other.get("counted")?.as_deref(), Some(&b"2000"[..]));
    assert!(reader.reads_memory() && !other.reads_memory(), "only one socket admits readers");
    let identity = files.authority.identity("client")?;
    let config = files.config_of(rustls::ALL_VERSIONS, Some(&identity))?;
    let mut client = tls_scene::connect(encrypted, &config.into())?;
    tls_scene::ask(&mut client, b"get counted\r\n", b"2000\r\nEND\r\n")?;
    assert!(tls_scene::connect(encrypted, &files.config().into()).is_err(), "mtls: has effect");
    let conns = writer.ask(b"stats conns\r\n", b"END\r\n")?;
    let conns = String::from_utf8(conns)?;
    assert_eq!(conns.matches("conn_listening").count(), 4, "{conns}");
    for name in ["readers", "plain"] {
        let path = format!("unix:{}\r\n", scene.path(name).display());
        assert!(conns.matches(&path).count() >= 2, "the listener and a connection: {conns}");
    }
    let out = fs::read_to_string(scene.path("out"))?;
    assert!(out.contains("/readers (64 MiB, 2 workers, readers)\n"), "{out}");
    assert!(out.contains(&format!("{encrypted} (64 MiB, 2 workers, TLS)\n")), "{out}");
    let settings = writer.ask(b"stats settings\r\n", b"END\r\n")?;
    let settings = String::from_utf8(settings)?;
    assert!(settings.contains("unix[mode=660,readers]:"), "{settings}");
    Ok(())
}

/// A process that listens on the socket of `-s` keeps its connections, as with memcached.
#[test]
fn the_socket_of_s_is_taken_over_from_a_running_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let address = Address::Unix(folder.path().join("socket"));
    let first = ServerUnderTest::start_at(&binary(), address.clone(), &[])?;
    let mut old = first.connect()?;
    old.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    let next = ServerUnderTest::start_at(&binary(), address.clone(), &[])?;
    wait_until("the second server has the socket", || {
        let answering = Stream::connect(&address).map_err(anyhow::Error::from);
        let pid = answering.and_then(|mut stream| stat(&mut stream, "", "pid"));
        pid.is_ok_and(|pid| pid == u64::from(next.pid()))
    })?;
    assert_eq!(old.ask(b"get k\r\n", b"END\r\n")?, b"VALUE k 0 1\r\nv\r\nEND\r\n");
    assert_eq!(stat(&mut old, "", "pid")?, u64::from(first.pid()));
    Ok(())
}

#[test]
fn a_socket_file_is_only_replaced_if_it_is_stale_and_ours() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let _live = UnixListener::bind(path("live"))?;
    fs::write(path("file"), "words")?;
    drop(UnixListener::bind(path("foreign"))?);
    if is_root() {
        chown(path("foreign"), Some(65_534), None)?;
    }
    fs::create_dir(path("real"))?;
    symlink(path("real"), path("link"))?;
    let (real, link) = (path("real/s").display().to_string(), path("link/s").display().to_string());
    for (name, status, words) in [
        ("live", 71, "a process listens there: stop it"),
        ("file", 71, "the file there is not a socket"),
        ("foreign", 71, "the socket there belongs to user 65534"),
    ] {
        if name == "foreign" && !is_root() {
            continue;
        }
        let path = path(name).display().to_string();
        let with_s = vec!["-s".to_owned(), path.clone()];
        // `-s` replaces any socket, as in memcached.
        for args in (name == "file").then_some(with_s).into_iter().chain([
            vec!["-l".to_owned(), format!("unix:{path}")],
            vec!["-s".to_owned(), real.clone(), "--admin-listen".to_owned(), path.clone()],
        ]) {
            let output = run_to_end(command(&binary()).args(&args))?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
            assert!(said.contains(words) && said.contains(&path), "{args:?}: {said}");
        }
        assert!(Path::new(&path).exists());
    }
    for args in [
        ["-l", &format!("unix:{real},unix:{link}"), "-t", "1"],
        ["-l", &format!("unix:{real}"), "--admin-listen", &link],
        ["-s", &real, "--admin-listen", &format!("unix:{link}")],
    ] {
        let output = run_to_end(command(&binary()).args(args))?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {said}");
        assert!(said.contains("two listeners have the same path"), "{args:?}: {said}");
    }
    let address = free_address()?;
    let list = format!("{address},readonly:{address}");
    let output = run_to_end(command(&binary()).args(["-l", &list]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("names {address} twice, with different words")), "{said}");
    assert!(!path("real/s").exists(), "a start that fails leaves no socket behind");
    Ok(())
}

#[test]
fn a_successor_takes_the_new_words_and_logs_the_differences() -> Result<()> {
    let (address, later) = (free_address()?, free_address()?);
    let before = |folder: &Path| {
        let folder = folder.display();
        format!(
            "listen = \"{address},unix[readers]:{folder}/a,unix:{folder}/gone\"\n\
             local_readers = \"same-uid\"\nupgrade_drain = 1\nmemory_limit = 64\n"
        )
    };
    let scene = Scene::start(&[], before)?;
    let mut stream = tcp(address)?;
    stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n")?;
    drop((stream, scene.unix("gone")?));
    let after = |folder: &Path| {
        let folder = folder.display();
        format!(
            "listen = \"{address},proto[ascii]:{later},unix[mode=0660]:{folder}/../{}/a,\
             unix[readers,mode=0640]:{folder}/new\"\n\
             local_readers = \"same-uid\"\nupgrade_drain = 1\nmemory_limit = 64\n",
            Path::new(&folder.to_string()).file_name().unwrap_or_default().display()
        )
    };
    scene.upgrade(after)?;
    let log = scene.log();
    let path = |name: &str| scene.path(name).display().to_string();
    for words in [
        format!("listener {}: readers → no readers\n", path("a")),
        format!("listener {}: mode=700 → mode=660\n", path("a")),
        format!("listener {}: new\n", path("new")),
        format!("listener {later}: new\n"),
        format!("listener {}: closed, because the options no longer name it\n", path("gone")),
        "inherited a cache of 1 item\n".to_owned(),
    ] {
        assert!(log.contains(&words), "{words}: {log}");
    }
    assert_eq!((scene.mode("a")?, scene.mode("new")?), (0o660, 0o640));
    for mut stream in [tcp(address)?, tcp(later)?, scene.unix("a")?, scene.unix("new")?] {
        stream.ask(b"get k\r\n", b"x\r\nEND\r\n")?;
    }
    assert!(scene.unix("gone").is_err());
    let (old, new) = (Client::connect(scene.path("a"))?, Client::connect(scene.path("new"))?);
    assert_eq!((old.get("k")?, new.get("k")?), (Some(b"x".to_vec()), Some(b"x".to_vec())));
    assert!(!old.reads_memory() && new.reads_memory());
    assert!(!log.contains("does not name"), "the closed socket has no second line: {log}");
    // Without a change there is nothing to log.
    let lines = scene.log().matches("listener ").count();
    scene.upgrade(after)?;
    assert_eq!(scene.log().matches("listener ").count(), lines, "{}", scene.log());
    Ok(())
}

#[test]
fn the_admin_listener_takes_the_same_words() -> Result<()> {
    let (address, admin) = (free_address()?, free_address()?);
    let scene = Scene::start(&[], |folder| {
        let folder = folder.display();
        format!(
            "listen = \"{address}\"\n\
             admin_listen = \"unix[mode=0640,readonly]:{folder}/admin;readonly:{admin}\"\n"
        )
    })?;
    assert_eq!(scene.mode("admin")?, 0o640);
    for admin in [Address::Unix(scene.path("admin")), Address::Tcp(admin)] {
        http::wait_until_ready(&admin)?;
        let role = http::get(&admin, "/api/v1/role", &[])?;
        assert!(role.body.contains("\"read\""), "{}", role.body);
    }
    Ok(())
}

#[test]
fn the_file_of_ports_has_those_of_tcp_next_to_unix_sockets() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (ports, socket) = (folder.path().join("ports"), folder.path().join("socket"));
    let list = format!("127.0.0.1:0,unix:{}", socket.display());
    let mut larderd = command(&binary());
    larderd.env("MEMCACHED_PORT_FILENAME", &ports).args(["-l", &list]);
    let _process = Killed(larderd.stdout(std::process::Stdio::null()).spawn()?);
    wait_until("the ports are written", || ports.exists())?;
    let text = fs::read_to_string(&ports)?;
    let port = text.trim().strip_prefix("TCP INET: ").with_context(|| text.clone())?.parse()?;
    tcp(SocketAddr::from(([127, 0, 0, 1], port)))?.ask(b"mn\r\n", b"MN\r\n")?;
    Stream::connect(&Address::Unix(socket))?.ask(b"mn\r\n", b"MN\r\n")?;
    Ok(())
}

/// Two containers can share a socket, but not see each other's processes. The kernel then reports 0
/// as the process id of the peer.
#[test]
fn a_reader_may_be_a_process_that_the_server_cannot_see() -> Result<()> {
    if !is_root() {
        skip("only root can make a process namespace");
        return Ok(());
    }
    let folder = TempDir::new()?;
    let (socket, log) = (folder.path().join("readers"), folder.path().join("log"));
    let list = format!("unix[readers]:{}", socket.display());
    let larderd = command(&binary());
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--"]).arg(binary());
    unshare.args(larderd.get_args()).args(["-m", "8", "-l", &list]);
    let mut process = Killed(unshare.stderr(fs::File::create(&log)?).spawn()?);
    let deadline = Instant::now() + Duration::from_secs(30);
    while Stream::connect(&Address::Unix(socket.clone())).is_err() {
        ensure!(Instant::now() < deadline, "{}", fs::read_to_string(&log)?);
        thread::sleep(Duration::from_millis(20));
        let Some(status) = process.0.try_wait()? else { continue };
        let log = fs::read_to_string(&log)?;
        ensure!(log.contains("unshare failed"), "{status}: {log}");
        skip(format!("this machine does not allow a new process namespace: {log}"));
        return Ok(());
    }
    let reader = Client::connect(&socket)?;
    reader.set("k", "v", None)?;
    assert_eq!(reader.get("k")?.as_deref(), Some(&b"v"[..]));
    assert!(reader.reads_memory(), "{}", fs::read_to_string(&log)?);
    Ok(())
}
