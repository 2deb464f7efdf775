//! `larder doctor` where the kernel or the profile of a service forbids something. The server runs
//! under a real filter of system calls. Only the system-wide setting is simulated: the doctor runs
//! in a separate mount namespace with another file in its place.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::process::{Command, Output};
use std::thread;

use larder_testkit::Transport;
use larder_testkit::server::is_root;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::doctor::{self, OF_TESTS, assert_finds, examine_server, set};
use crate::{Fixture, Ran};

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const IO_URING: &str = "/proc/sys/kernel/io_uring_disabled";

/// Starts larderd under a filter that refuses a system call. Without rules every such call is
/// refused.
pub(crate) fn filtered(call: i64, rules: Vec<SeccompRule>, errno: i32, args: &[&str]) -> Fixture {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let arch = TargetArch::try_from(ARCH).unwrap();
    let rules = BTreeMap::from([(call, rules)]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    let start = || {
        apply_filter(&program).unwrap();
        Fixture::start_on(Transport::Unix, args)
    };
    // The filter applies to one thread, and the server that the thread starts inherits it.
    thread::scope(|scope| scope.spawn(start).join()).unwrap()
}

/// Refuses io_uring, as the default profile of container runtimes does.
fn without_uring() -> Fixture {
    filtered(libc::SYS_io_uring_setup, Vec::new(), libc::EPERM, &["--io=auto"])
}

/// Runs `larder doctor` where the file of a kernel setting has this text. Returns `None`, and
/// prints the reason, if this user may not mount.
fn examine_with(setting: &str, text: &str, fixture: &Fixture, more: &[&str]) -> Option<Ran> {
    let path = std::env::var("PATH").unwrap();
    examine_with_path(setting, text, &path, fixture, more)
}

/// Same as [`examine_with`], but with the programs of another `PATH`.
pub(crate) fn examine_with_path(
    setting: &str,
    text: &str,
    path: &str,
    fixture: &Fixture,
    more: &[&str],
) -> Option<Ran> {
    const MOUNT: &str = r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#;
    let may_mount = Command::new("unshare").args(["-m", "true"]).output();
    if !is_root() || !may_mount.is_ok_and(|output| output.status.success()) {
        larder_testkit::skip(format!("{setting} = {text:?} needs root and unshare"));
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let run = Command::new("unshare")
        .args(["-m", "sh", "-c", MOUNT, "sh"])
        .arg(file.path())
        .args([setting, env!("CARGO_BIN_EXE_larder"), "doctor", "--server", &fixture.address()])
        .args(more)
        .env("PATH", path)
        .output();
    let Output { status, stdout, stderr } = run.unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    Some(Ran { exit_code: status.code().unwrap(), stdout, stderr })
}

#[test]
fn an_io_uring_that_is_forbidden_is_found() {
    let setting = fs::read_to_string(IO_URING).unwrap_or_default();
    if setting.trim() != "0" {
        larder_testkit::skip(format!("{IO_URING} is {setting:?}, expected 0"));
        return;
    }
    let fixture = without_uring();
    let ran = examine_server(&fixture.address(), OF_TESTS);
    assert_finds(&ran, "no-io-uring", &["use epoll", "io_uring in the seccomp profile"]);
    let Some(ran) = examine_with(IO_URING, "2\n", &fixture, OF_TESTS) else { return };
    assert_finds(&ran, "no-io-uring", &["the kernel forbids it", "io_uring_disabled=0"]);
}

#[test]
fn huge_pages_that_the_system_never_gives_are_found() {
    let setting = fs::read_to_string(HUGE_PAGES).unwrap_or_default();
    if setting.is_empty() || setting.contains("[always]") {
        larder_testkit::skip(format!("{HUGE_PAGES} is {setting:?}, expected madvise or never"));
        return;
    }
    // If the kernel gives huge pages to no process, requesting them has no effect.
    let advice = u64::from(libc::MADV_HUGEPAGE.unsigned_abs());
    let asks = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, advice);
    let rule = SeccompRule::new(vec![asks.unwrap()]).unwrap();
    let start = doctor::HUGE_PAGES.lock();
    let fixture = filtered(libc::SYS_madvise, vec![rule], libc::EINVAL, &["-m", "128"]);
    drop(start);
    let mut stream = fixture.server.connect().unwrap();
    (0..100).for_each(|number| set(&mut stream, &format!("key-{number}"), 500_000));
    let ignored = ["--ignore", "restart"];
    let never = "always madvise [never]\n";
    let Some(ran) = examine_with(HUGE_PAGES, never, &fixture, &ignored) else { return };
    let words = ["MiB of memory have no huge pages", "echo madvise > /sys/kernel/mm/"];
    assert_finds(&ran, "no-huge-pages", &words);
    if setting.contains("[madvise]") {
        let ran = examine_server(&fixture.address(), &ignored);
        assert_finds(&ran, "no-huge-pages", &["the kernel has no free huge pages"]);
    }
}
