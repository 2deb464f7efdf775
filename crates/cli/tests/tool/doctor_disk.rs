//! `larder doctor` on servers with a disk tier: each rule is provoked on a real disk.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder_testkit::Stream;
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
use tempfile::TempDir;

use crate::doctor::{assert_finds, examine_server, set};
use crate::doctor_kernel::{examine_with_path, filtered};
use crate::{Fixture, Ran};

/// A server with a disk tier.
struct Disk {
    fixture: Fixture,
    folder: TempDir,
}

impl Disk {
    /// Starts larderd.
    fn start(mode: &str, size: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, mode, size, args, Fixture::start_with)
    }

    fn start_in(
        folder: TempDir,
        mode: &str,
        size: &str,
        args: &[&str],
        start: impl Fn(&[&str]) -> Fixture,
    ) -> Self {
        let path = folder.path().join("items").display().to_string();
        let tier = ["--tier-path", &path, "--tier-size", size, "--tier-mode", mode];
        let fixed = [&tier[..], &["--tier-wait-secs", "20"]].concat();
        let fixture = start(&[&fixed[..], args].concat());
        // A request for an item waits until the server has opened its directory.
        fixture.server.connect().unwrap().ask(b"get none\r\n", b"END\r\n").unwrap();
        Self { fixture, folder }
    }

    fn stream(&self) -> Stream {
        self.fixture.server.connect().unwrap()
    }

    fn examine(&self, more: &[&str]) -> Ran {
        examine_server(&self.fixture.address(), &[OF_TESTS, more].concat())
    }

    /// Examines the server until the doctor reports a finding.
    #[track_caller]
    fn assert_finds(&self, name: &str, more: &[&str], words: &[&str]) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut ran = self.examine(more);
        while ran.exit_code == 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(100));
            ran = self.examine(more);
        }
        assert_finds(&ran, name, words);
    }
}

/// Findings that every test server has: its memory is small, and in a container its folder may be
/// on overlayfs.
const OF_TESTS: &[&str] = &["--ignore", "no-huge-pages", "--ignore", "disk-file-system"];

/// Sets small items without waiting for each response.
fn set_many(stream: &mut Stream, numbers: std::ops::Range<u32>, value_bytes: usize) {
    let numbers: Vec<u32> = numbers.collect();
    let value = "v".repeat(value_bytes);
    for numbers in numbers.chunks(1000) {
        let sets = numbers
            .iter()
            .map(|number| format!("set key-{number} 0 0 {value_bytes} noreply\r\n{value}\r\n"));
        let sets = sets.collect::<String>() + "mn\r\n";
        stream.ask(sets.as_bytes(), b"MN\r\n").unwrap();
    }
}

#[test]
fn a_disk_that_does_well_has_no_finding() {
    for mode in ["store", "cache"] {
        let disk = Disk::start(mode, "64m", &["-m", "16"]);
        set_many(&mut disk.stream(), 0..5000, 100);
        assert_eq!(disk.examine(&[]).printed(), b"nothing found\n", "{mode}");
    }
}

#[test]
fn a_write_that_fails_is_found() {
    for (mode, words) in
        [("store", "the server takes no changes"), ("cache", "continues in memory only")]
    {
        // The log grows by extents of 4 MiB. A cache allocates two at its start and a store four.
        // These writes must succeed, so the filter refuses only writes from the fifth extent on.
        let beyond = SeccompCondition::new(3, SeccompCmpArgLen::Qword, SeccompCmpOp::Ge, 16 << 20);
        let rule = SeccompRule::new(vec![beyond.unwrap()]).unwrap();
        let start =
            |args: &[&str]| filtered(libc::SYS_pwrite64, vec![rule.clone()], libc::EIO, args);
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::start_in(folder, mode, "32m", &["-m", "4"], start);
        let mut stream = disk.stream();
        // A cache drops items that arrive faster than its disk can write.
        for round in 0..40 {
            set_many(&mut stream, round * 1000..(round + 1) * 1000, 1000);
            sleep(Duration::from_millis(50));
        }
        let ignored = ["--ignore", "disk-full", "--ignore", "disk-drops"];
        disk.assert_finds("disk-failed", &ignored, &[words, "restart the server"]);
    }
}

#[test]
fn a_full_log_is_found() {
    let disk = Disk::start("store", "32m", &[]);
    set_many(&mut disk.stream(), 0..200, 100_000);
    disk.assert_finds("disk-full", &[], &["of the 9 MiB", "larger --tier-size"]);
}

#[test]
fn an_index_that_is_full_or_too_small_for_the_disk_is_found() {
    let disk = Disk::start("store", "256m", &["-m", "4"]);
    let mut stream = disk.stream();
    set_many(&mut stream, 0..9000, 1);
    assert_eq!(disk.examine(&[]).printed(), b"nothing found\n", "few items say little");
    set_many(&mut stream, 9000..11_000, 1);
    disk.assert_finds("disk-index-small", &[], &["its limit is 3 MiB of -m", "Raise -m to "]);
    set_many(&mut stream, 11_000..320_000, 1);
    let ignored = ["--ignore", "disk-index-small"];
    disk.assert_finds("disk-index-full", &ignored, &["% of the 3 MiB", "new keys fail"]);
}

#[test]
fn evicted_items_that_the_disk_has_no_room_for_are_found() {
    let disk = Disk::start("cache", "64m", &["-m", "4"]);
    // The disk stalls: the writer thread is delayed and does not free buffers.
    let Some(_tracer) = Tracer::start(&disk, "fdatasync:delay_enter=3000000") else { return };
    set_many(&mut disk.stream(), 0..20_000, 1000);
    disk.assert_finds("disk-drops", &[], &["could not take them", "--tier-admit reused"]);
}

#[test]
fn damaged_items_are_found() {
    let disk = Disk::start("store", "64m", &["-m", "4"]);
    let mut stream = disk.stream();
    set_many(&mut stream, 0..2000, 10_000);
    let log = disk.folder.path().join("items/log");
    let length = fs::metadata(&log).unwrap().len();
    let log = File::options().write(true).open(log).unwrap();
    for page in (4 << 20..length.min(12 << 20)).step_by(4096) {
        log.write_all_at(&[0; 3000], page + 100).unwrap();
    }
    for number in 0..2000 {
        stream.ask(format!("mg key-{number} s\r\n").as_bytes(), b"\r\n").unwrap();
    }
    disk.assert_finds("disk-unreadable", &[], &["the disk did not return ", "kernel's log"]);
}

#[test]
fn slow_syncs_that_clients_wait_for_are_found() {
    let disk = Disk::start("store", "64m", &["--durability", "sync"]);
    let Some(_tracer) = Tracer::start(&disk, "fdatasync:delay_enter=15000") else { return };
    let mut stream = disk.stream();
    (0..150).for_each(|number| set(&mut stream, &format!("key-{number}"), 10));
    disk.assert_finds("disk-slow", &[], &["ms on average", "--durability interval=100"]);
}

#[test]
fn a_file_system_that_does_not_suit_is_found() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let disk = Disk::start_in(folder, "store", "64m", &[], Fixture::start_with);
    let ran = examine_server(&disk.fixture.address(), &["--ignore", "no-huge-pages"]);
    assert_finds(&ran, "disk-file-system", &["it is on tmpfs", "a reboot deletes it"]);
}

#[test]
fn a_log_that_may_outgrow_its_file_system_is_found() {
    let disk = Disk::start("store", "1024g", &[]);
    disk.assert_finds("disk-space", &[], &["may still grow by", "stores fail when it is used up"]);
}

#[test]
fn a_unit_that_is_killed_before_it_has_stopped_is_found() {
    let disk = Disk::start("store", "64m", &["--tier-stop-secs", "90"]);
    let programs = disk.folder.path().join("bin");
    fs::create_dir(&programs).unwrap();
    let systemctl = programs.join("systemctl");
    let groups = format!("/proc/{}/cgroup", disk.fixture.server.pid());
    for (answer, is_found) in [("1min 30s", true), ("2min", false), ("infinity", false)] {
        let script =
            format!("#!/bin/sh\n[ \"$4\" = larderd.service ] && echo TimeoutStopUSec={answer}\n");
        fs::write(&systemctl, script).unwrap();
        let made = Command::new("chmod").arg("+x").arg(&systemctl).status();
        assert!(made.unwrap().success());
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let unit = "0::/system.slice/larderd.service\n";
        let ran = examine_with_path(&groups, unit, &path, &disk.fixture, OF_TESTS);
        let Some(ran) = ran else { return };
        match is_found {
            true => assert_finds(&ran, "disk-stop", &["kills larderd.service 90 s", "=120"]),
            false => assert_eq!(ran.printed(), b"nothing found\n", "{answer}"),
        }
    }
}

/// An strace that delays the system calls of a server.
struct Tracer(Child);

impl Tracer {
    /// Returns `None` and prints the reason if strace is not installed.
    fn start(disk: &Disk, inject: &str) -> Option<Self> {
        if Command::new("strace").arg("-V").output().is_err() {
            larder_testkit::skip("strace, which delays system calls, is missing");
            return None;
        }
        let pid = disk.fixture.server.pid().to_string();
        let tracer = Command::new("strace")
            .args(["-f", "-qq", "-e", "trace=fdatasync", "-e", &format!("inject={inject}")])
            .args(["-o", "/dev/null", "-p", &pid])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let tracer = Self(tracer);
        let is_traced = || {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
            let states = tasks.map(|task| fs::read_to_string(task.path().join("status")));
            states.flatten().all(|status| !status.contains("TracerPid:\t0\n"))
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_traced() {
            assert!(Instant::now() < deadline, "strace does not trace the server after 10 s");
            sleep(Duration::from_millis(20));
        }
        Some(tracer)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
