//! On SIGUSR2, a successor process replaces a server while clients continue.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use larder::Client;
use larder_testkit::server::{Signal, command, free_address, run_to_end};
use larder_testkit::{Address, Stream, uninterrupted};
use rustix::process::{Pid, kill_process};

use crate::binary;
use crate::tls_scene;
use crate::upgrade_scene::{PidFile, Scene, has_ended, wait_until};

/// Runs clients that reconnect until `stop` is set. Returns how often they connected.
fn come_and_go(address: &Address, stop: &AtomicBool, number: usize) -> Result<usize> {
    let mut count = 0;
    while !stop.load(Relaxed) {
        let visit = || -> Result<()> {
            let mut stream = Stream::connect(address)?;
            let (key, value) = (format!("k{number}"), "x".repeat(count % 3000));
            for _ in 0..count % 4 {
                let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
                stream.ask(set.as_bytes(), b"STORED\r\n")?;
                let got = stream.ask(format!("get {key}\r\n").as_bytes(), b"END\r\n")?;
                let head = format!("VALUE {key} 0 {}\r\n", value.len());
                ensure!(got.starts_with(head.as_bytes()), "{}", got.escape_ascii());
            }
            Ok(())
        };
        visit().with_context(|| format!("visit {count} of client {number}"))?;
        count += 1;
    }
    Ok(count)
}

/// Upgrades three times while clients come and go. None of them may notice.
fn upgrade_under_load(scene: &mut Scene) -> Result<()> {
    let (stop, address) = (AtomicBool::new(false), scene.first.address().clone());
    let visits = thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let (address, stop) = (&address, &stop);
                scope.spawn(move || come_and_go(address, stop, number))
            })
            .collect();
        let upgraded = (0..3).try_for_each(|_| {
            sleep(Duration::from_millis(150));
            let old = scene.upgrade()?;
            sleep(Duration::from_millis(150));
            scene.wait_for_end(old)
        });
        stop.store(true, Relaxed);
        let visits = clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")))
            .sum::<Result<usize>>();
        upgraded.and(visits)
    })?;
    println!("{visits} visits, none of which failed");
    ensure!(visits > 100, "{visits}");
    let mut stream = Stream::connect(&address)?;
    let stats = stream.ask(b"stats\r\n", b"END\r\n")?;
    let pid = format!("STAT pid {}\r\n", scene.pid()?.as_raw_pid());
    ensure!(stats.starts_with(pid.as_bytes()), "{pid}: {}", stats.escape_ascii());
    Ok(())
}

#[test]
fn a_memory_file_survives_the_upgrade_and_both_processes_use_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cache").display().to_string();
    let mut scene = Scene::tcp(&["-e", &path])?;
    let mut before = scene.first.connect()?;
    before.ask(b"set old 0 0 1\r\n1\r\n", b"STORED\r\n")?;
    let old = scene.upgrade()?;
    assert_eq!(scene.said("attached in"), 1, "{}", scene.first.log());
    let mut after = scene.first.connect()?;
    after.ask(b"get old\r\n", b"1\r\nEND\r\n")?;
    after.ask(b"set new 0 0 1\r\n2\r\n", b"STORED\r\n")?;
    before.ask(b"get new\r\n", b"2\r\nEND\r\n")?;
    drop(before);
    scene.wait_for_end(old)?;
    after.ask(b"get old new\r\n", b"2\r\nEND\r\n")?;
    after.ask(b"set more 0 0 1\r\n3\r\n", b"STORED\r\n")?;
    Ok(())
}

#[test]
fn clients_do_not_notice_three_upgrades_over_tcp() {
    upgrade_under_load(&mut Scene::tcp(&[]).unwrap()).unwrap();
}

#[test]
fn clients_do_not_notice_three_upgrades_over_a_unix_socket() {
    let at = |folder: &Path| Ok(Address::Unix(folder.join("socket")));
    let mut scene = Scene::start(at, &[]).unwrap();
    let before = fs::symlink_metadata(scene.path("socket")).unwrap().ino();
    upgrade_under_load(&mut scene).unwrap();
    // The socket has been neither replaced nor removed.
    assert_eq!(fs::symlink_metadata(scene.path("socket")).unwrap().ino(), before);
}

const READERS: [&str; 4] = ["--local-readers", "same-uid", "-m", "256"];

fn at_a_socket(folder: &Path) -> Result<Address> {
    Ok(Address::Unix(folder.join("socket")))
}

/// Returns the inode of the memory that a process shares with its readers.
fn memory_inode(pid: Pid) -> Result<u64> {
    for entry in fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid()))? {
        let path = entry?.path();
        // The descriptor may have been closed in the meantime.
        let Ok(link) = fs::read_link(&path) else { continue };
        if link.display().to_string().starts_with("/memfd:larder") {
            return Ok(fs::metadata(&path)?.ino());
        }
    }
    bail!("process {pid:?} has no memory for readers")
}

/// Reads items in the server's memory until `stop` is set. None may be missing. Returns how many
/// reads were local.
fn read_on(client: &Client, stop: &AtomicBool) -> Result<u64> {
    let mut local = 0;
    while !stop.load(Relaxed) {
        for number in 0..1000 {
            let mut value = Vec::new();
            let hit = client.get_into(format!("kept{number}"), &mut value)?;
            let hit = hit.with_context(|| format!("kept{number} is gone"))?;
            ensure!(value == format!("value {number}").into_bytes(), "{value:?}");
            local += u64::from(hit.is_local);
        }
    }
    Ok(local)
}

#[test]
fn memory_that_others_read_is_handed_over_and_they_read_on() {
    let args = [&READERS[..], &["--upgrade-drain", "1"]].concat();
    let mut scene = Scene::start(at_a_socket, &args).unwrap();
    let Address::Unix(path) = scene.first.address().clone() else { panic!("a unix socket") };
    let client = Client::connect(&path).unwrap();
    for number in 0..1000 {
        client.set(format!("kept{number}"), format!("value {number}"), None).unwrap();
    }
    let inode = memory_inode(scene.pid().unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    let local = thread::scope(|scope| {
        let reader = scope.spawn(|| read_on(&client, &stop));
        let upgraded = upgrade_under_load(&mut scene);
        stop.store(true, Relaxed);
        upgraded.and(reader.join().unwrap_or_else(|_| bail!("the reader panicked")))
    });
    assert!(local.unwrap() > 1000, "{}", scene.first.log());
    // The same memory, not a copy, so that the usage does not double.
    assert_eq!(memory_inode(scene.pid().unwrap()).unwrap(), inode);
    assert_eq!(scene.said("inherited a cache of"), 3, "{}", scene.first.log());
    let mut hit = None;
    wait_until("it reads in the memory again", || {
        hit = client.get_into("kept1", &mut Vec::new()).unwrap();
        hit.as_ref().is_some_and(|hit| hit.is_local)
    })
    .unwrap();
    client.set("kept1", "anew", None).unwrap();
    assert_eq!(client.get("kept1").unwrap().as_deref(), Some(&b"anew"[..]));
}

#[test]
fn an_old_process_that_is_killed_leaves_the_memory_in_order() {
    let mut scene = Scene::start(at_a_socket, &READERS).unwrap();
    let mut before = scene.first.connect().unwrap();
    before.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
    // An upload is in progress in the old process.
    before.write_all(b"set large 0 0 500000\r\n").unwrap();
    before.write_all(&vec![b'x'; 100_000]).unwrap();
    let old = scene.upgrade().unwrap();
    let mut after = scene.first.connect().unwrap();
    after.ask(b"get k\r\n", b"x\r\nEND\r\n").unwrap();
    kill_process(old, Signal::KILL).unwrap();
    scene.wait_for_end(old).unwrap();
    after.ask(b"get k large\r\n", b"x\r\nEND\r\n").unwrap();
    after.ask(b"set large 0 0 1\r\ny\r\n", b"STORED\r\n").unwrap();
    // All memory is overwritten.
    let value = "x".repeat(500_000);
    for number in 0..1000 {
        let set = format!("set fill{number} 0 0 500000\r\n{value}\r\n");
        assert_eq!(after.ask(set.as_bytes(), b"\r\n").unwrap(), b"STORED\r\n");
    }
}

#[test]
fn memory_is_not_handed_over_if_the_options_ask_for_another() {
    for (line, why) in [
        ("memory_limit = 128\n", "its memory in bytes is"),
        ("local_readers = \"any\"\n", "it was started with --local-readers=same-uid"),
    ] {
        let config = tempfile::NamedTempFile::new().unwrap();
        let before = "memory_limit = 64\nlocal_readers = \"same-uid\"\n";
        fs::write(config.path(), before).unwrap();
        let args = ["--config", config.path().to_str().unwrap()];
        let mut scene = Scene::start(at_a_socket, &args).unwrap();
        let mut stream = scene.first.connect().unwrap();
        stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        let option = line.split(' ').next().unwrap();
        let kept = before.lines().filter(|line| !line.starts_with(option));
        fs::write(config.path(), kept.chain([line]).collect::<Vec<_>>().join("\n")).unwrap();
        let old = scene.upgrade().unwrap();
        assert_eq!(scene.said(why), 1, "{}", scene.first.log());
        let mut other = scene.first.connect().unwrap();
        other.ask(b"get k\r\n", b"END\r\n").unwrap();
        assert_ne!(memory_inode(old).unwrap(), memory_inode(scene.pid().unwrap()).unwrap());
        drop(stream);
        scene.wait_for_end(old).unwrap();
    }
}

#[test]
fn connections_stay_where_they_are_until_they_end_or_their_time_is_over() {
    for (drain, ends_itself) in [("60", true), ("1", false)] {
        let mut scene = Scene::tcp(&["--upgrade-drain", drain]).unwrap();
        let mut stream = scene.first.connect().unwrap();
        stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        let old = scene.upgrade().unwrap();
        let mut other = scene.first.connect().unwrap();
        assert_eq!(other.ask(b"get k\r\n", b"END\r\n").unwrap(), b"END\r\n");
        stream.ask(b"get k\r\n", b"x\r\nEND\r\n").unwrap();
        kill_process(old, Signal::USR2).unwrap();
        wait_until("the log reports the upgrade", || scene.said("no upgrade: another") == 1)
            .unwrap();
        if ends_itself {
            assert!(scene.first.is_running().unwrap());
            drop(stream);
            scene.wait_for_end(old).unwrap();
        } else {
            scene.wait_for_end(old).unwrap();
            stream.ask(b"get k\r\n", b"END\r\n").unwrap_err();
        }
        other.ask(b"mn\r\n", b"MN\r\n").unwrap();
    }
}

#[test]
fn a_binary_that_does_not_start_leaves_everything_as_it_was() {
    let mut scene = Scene::tcp(&[]).unwrap();
    let pid = scene.pid().unwrap();
    let mut stream = scene.first.connect().unwrap();
    stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
    let scripts = [
        ("#!/bin/sh\nexit 3\n", "it ended with exit status: 3"),
        ("#!/bin/sh\nexec sleep 100 <&-\n", "it is not a larderd"),
        ("no program", "cannot start"),
    ];
    for (script, why) in scripts {
        put_script(&scene.path("larderd"), script).unwrap();
        scene.first.signal(Signal::USR2).unwrap();
        wait_until(why, || scene.said(why) == 1).with_context(|| scene.first.log()).unwrap();
        assert_eq!(scene.pid().unwrap(), pid);
        stream.ask(b"get k\r\n", b"x\r\nEND\r\n").unwrap();
        scene.first.connect().unwrap().ask(b"get k\r\n", b"x\r\nEND\r\n").unwrap();
    }
    fs::remove_file(scene.path("larderd")).unwrap();
    scene.first.signal(Signal::USR2).unwrap();
    wait_until("the start fails", || scene.said("cannot start") == 2).unwrap();
    // Then a binary that works.
    put(&scene.path("larderd"), &binary()).unwrap();
    let old = scene.upgrade().unwrap();
    assert_eq!(old, pid);
    drop(stream);
    scene.wait_for_end(old).unwrap();
}

/// Replaces a program, as an installer does. Another process writes the file. Otherwise a child
/// that another thread is just starting here could keep the file open for a moment, and a file that
/// is open for writing cannot be executed.
fn put(path: &Path, program: &Path) -> Result<()> {
    let new = path.with_extension("new");
    ensure!(Command::new("cp").arg(program).arg(&new).status()?.success(), "cp fails");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    Ok(fs::rename(new, path)?)
}

/// Same as [`put`], but with a script.
fn put_script(path: &Path, script: &str) -> Result<()> {
    let written = path.with_extension("script");
    fs::write(&written, script)?;
    put(path, &written)
}

#[test]
fn a_binary_that_does_not_answer_is_killed() {
    let scene = Scene::tcp(&[]).unwrap();
    let script =
        format!("#!/bin/sh\necho $$ > {}/pid\nexec sleep 100\n", scene.folder.path().display());
    put_script(&scene.path("larderd"), &script).unwrap();
    let pid = scene.pid().unwrap();
    scene.first.signal(Signal::USR2).unwrap();
    wait_until("the pid file is another's", || scene.pid().is_ok_and(|of| of != pid)).unwrap();
    let silent = scene.pid().unwrap();
    scene.first.signal(Signal::USR2).unwrap();
    wait_until("the second upgrade is refused", || {
        scene.said("no upgrade: an upgrade is in progress") == 1
    })
    .unwrap();
    scene.first.connect().unwrap().ask(b"mn\r\n", b"MN\r\n").unwrap();
    wait_until("the upgrade times out", || scene.said("did not serve within 10 s") == 1).unwrap();
    wait_until("it is ended", || has_ended(silent)).unwrap();
    wait_until("the pid file is taken back", || scene.pid().is_ok_and(|of| of == pid)).unwrap();
    scene.first.connect().unwrap().ask(b"mn\r\n", b"MN\r\n").unwrap();
}

#[test]
fn an_upgrade_with_invalid_options_changes_nothing() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let path = config.path().to_str().unwrap();
    let scene = Scene::tcp(&["--config", path]).unwrap();
    fs::write(path, "threads = 0\n").unwrap();
    scene.first.signal(Signal::USR2).unwrap();
    wait_until("it fails", || scene.said("it ended with exit status: 64") == 1).unwrap();
    fs::write(path, "threads = 2\n").unwrap();
    scene.upgrade().unwrap();
    let mut stream = scene.first.connect().unwrap();
    let stats = stream.ask(b"stats\r\n", b"END\r\n").unwrap();
    assert!(String::from_utf8(stats).unwrap().contains("STAT threads 2\r\n"));
}

#[test]
fn an_upgrade_is_refused_if_no_program_can_be_started() {
    let scene = Scene::tcp(&["--io=auto", "-o", "drop_privileges"]).unwrap();
    scene.first.signal(Signal::USR2).unwrap();
    wait_until("the log has the reason", || scene.said("no upgrade: with -o drop_privileges") == 1)
        .unwrap();
    scene.first.connect().unwrap().ask(b"mn\r\n", b"MN\r\n").unwrap();
}

#[test]
fn encrypted_addresses_stay_encrypted_and_the_others_plain() {
    let (folder, plain) = (tempfile::tempdir().unwrap(), free_address().unwrap());
    let pid_file = PidFile(folder.path().join("pid"));
    let args = ["-l", &format!("notls:{plain}"), "-P", pid_file.0.to_str().unwrap()];
    let mut scene = tls_scene::Encrypted::start("", &args).unwrap();
    wait_until("the pid file is written", || pid_file.pid().is_ok()).unwrap();
    scene.server.signal(Signal::USR2).unwrap();
    wait_until("the old process ends", || !scene.server.is_running().unwrap()).unwrap();
    let mut stream = Stream::connect(&Address::Tcp(plain)).unwrap();
    stream.ask(b"mn\r\n", b"MN\r\n").unwrap();
    scene.client().unwrap();
}

#[test]
fn nothing_is_left_open_in_the_new_process() {
    let scene = Scene::tcp(&[]).unwrap();
    let count = |pid: Pid| fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).unwrap().count();
    let mut stream = scene.first.connect().unwrap();
    let mut is_alone = || {
        let stats = stream.ask(b"stats\r\n", b"END\r\n").unwrap();
        String::from_utf8_lossy(&stats).contains("STAT curr_connections 1\r\n")
    };
    // Polled, because the descriptor is closed a moment after the connection is no longer counted.
    wait_until("the first connection is gone", || {
        is_alone() && {
            sleep(Duration::from_millis(100));
            is_alone()
        }
    })
    .unwrap();
    let before = count(scene.pid().unwrap()) - 1;
    drop(stream);
    scene.upgrade().unwrap();
    scene.upgrade().unwrap();
    wait_until("it has as many descriptors", || count(scene.pid().unwrap()) == before).unwrap();
}

#[test]
fn datagrams_are_answered_by_the_new_process_alone() {
    let address = free_address().unwrap();
    let port = address.port().to_string();
    let mut scene = Scene::start(|_| Ok(Address::Tcp(address)), &["-U", &port]).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let ask = |request: &str| {
        let request = [&[0, 1, 0, 0, 0, 1, 0, 0], request.as_bytes()].concat();
        socket.send(&request).unwrap();
        let mut answer = [0; 1500];
        let bytes = uninterrupted(|| socket.recv(&mut answer)).unwrap();
        String::from_utf8_lossy(&answer[8..bytes]).into_owned()
    };
    assert_eq!(ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    // The old process remains, and must not respond: it still has the item.
    let held = scene.first.connect().unwrap();
    let old = scene.upgrade().unwrap();
    // For a moment both respond.
    let has_left = || (0..300).all(|_| ask("get k\r\n") == "END\r\n");
    wait_until("the old process has left the socket", has_left).unwrap();
    drop(held);
    scene.wait_for_end(old).unwrap();
}

#[test]
fn a_daemon_is_upgraded_as_well_and_the_last_one_removes_the_pid_file() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, pid_file) = (folder.path().join("socket"), PidFile(folder.path().join("pid")));
    let mut larderd = command(&binary());
    larderd.arg("-d").arg("-s").arg(&socket).arg("-P").arg(&pid_file.0);
    assert_eq!(run_to_end(&mut larderd).unwrap().status.code(), Some(0));
    wait_until("the pid file is written", || pid_file.pid().is_ok()).unwrap();
    let mut last = pid_file.pid().unwrap();
    for _ in 0..2 {
        kill_process(last, Signal::USR2).unwrap();
        wait_until("the old process ends", || has_ended(last)).unwrap();
        assert_ne!(pid_file.pid().unwrap(), last);
        last = pid_file.pid().unwrap();
        let mut stream = Stream::connect(&Address::Unix(socket.clone())).unwrap();
        let stats = stream.ask(b"stats\r\n", b"END\r\n").unwrap();
        assert!(stats.starts_with(format!("STAT pid {}\r\n", last.as_raw_pid()).as_bytes()));
    }
    kill_process(last, Signal::TERM).unwrap();
    wait_until("the pid file is removed", || !pid_file.0.exists()).unwrap();
}

#[test]
fn the_service_manager_is_notified_of_the_serving_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let listener = UnixDatagram::bind(&path).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let hear = || {
        let mut words = [0; 200];
        let bytes = uninterrupted(|| listener.recv(&mut words)).unwrap();
        String::from_utf8_lossy(&words[..bytes]).into_owned()
    };
    let address: SocketAddr = free_address().unwrap();
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let mut larderd = command(&binary());
    let pid_file = PidFile(folder.path().join("pid"));
    larderd.env("NOTIFY_SOCKET", &path).args(["-l", &ip, "-p", &port]).arg("-P").arg(&pid_file.0);
    let mut process = larderd.spawn().unwrap();
    assert_eq!(hear(), "READY=1");
    let pid = Pid::from_child(&process);
    kill_process(pid, Signal::HUP).unwrap();
    assert!(hear().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(hear(), "READY=1");
    kill_process(pid, Signal::USR2).unwrap();
    assert!(hear().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    let words = hear();
    let new = words.strip_prefix("MAINPID=").and_then(|rest| rest.strip_suffix("\nREADY=1"));
    let new = Pid::from_raw(new.context(words.clone()).unwrap().parse().unwrap()).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
    kill_process(new, Signal::TERM).unwrap();
    assert_eq!(hear(), "STOPPING=1");
}
