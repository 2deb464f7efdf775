//! A filter of system calls. It permits only the calls that serving needs, even to a compromised
//! process.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};

use crate::failure::{EXIT_OS, Failure};

/// The file operations that a server with these options needs in addition to reading.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// True if it removes its pid file.
    pub(crate) removal: bool,
    /// True if it writes to the directory of a disk tier.
    pub(crate) disk: bool,
}

/// Makes all other system calls fail with EPERM in every thread of the process from now on:
/// executing a program, opening a socket, writing or creating a file, making memory executable, and
/// everything else that is not listed here. The file operations in `needs` stay permitted.
pub(crate) fn restrict(needs: Needs) -> Result<(), Failure> {
    let failure = |error: &dyn std::fmt::Display| {
        let message =
            format_args!("option -o drop_privileges: cannot restrict system calls: {error}");
        Failure::new(EXIT_OS, message)
    };
    // In this order, because the second filter does not permit installing another one.
    for filter in [without_clone3(), only_serving(needs)] {
        let program = filter.map_err(|error| failure(&error))?;
        apply_filter_all_threads(&program).map_err(|error| failure(&error))?;
    }
    Ok(())
}

/// Returns a filter that refuses clone3 with ENOSYS. The flags of clone3 are in memory, which a
/// filter cannot read. The C library then starts threads with clone.
fn without_clone3() -> Result<BpfProgram, BackendError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    compile(rules, SeccompAction::Allow, SeccompAction::Errno(errno(libc::ENOSYS)))
}

fn only_serving(needs: Needs) -> Result<BpfProgram, BackendError> {
    let whole: &[&[i64]] = &[DESCRIPTORS, FILES, MEMORY, THREADS, TIME, PROCESS, OF_X86];
    let mut rules: BTreeMap<_, _> =
        whole.iter().copied().flatten().map(|call| (*call, Vec::new())).collect();
    for (calls, is_needed) in [(REMOVAL, needs.removal), (DISK, needs.disk)] {
        rules.extend(calls.iter().filter(|_| is_needed).map(|call| (*call, Vec::new())));
    }
    let of_disk = DISK_FILES.iter().filter(|_| needs.disk);
    for (call, argument, mask, allowed) in MASKED.iter().chain(of_disk) {
        let rule = SeccompRule::new(vec![masked(*argument, *mask, *allowed)?])?;
        rules.entry(*call).or_insert_with(Vec::new).push(rule);
    }
    let names = [libc::PR_SET_NAME, libc::PR_GET_NAME, PR_SET_VMA];
    let names = names.map(|name| {
        let number = u64::from(name.unsigned_abs());
        SeccompRule::new(vec![masked(0, u64::from(u32::MAX), number)?])
    });
    rules.insert(libc::SYS_prctl, names.into_iter().collect::<Result<_, _>>()?);
    compile(rules, SeccompAction::Errno(errno(libc::EPERM)), SeccompAction::Allow)
}

/// Returns a condition that is true if the argument, after applying the mask, equals `bits`.
fn masked(argument: u8, mask: u64, bits: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), bits)
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    others: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(ARCH)?;
    SeccompFilter::new(rules, others, listed, arch)?.try_into()
}

fn errno(number: i32) -> u32 {
    number.unsigned_abs()
}

/// Operations on open descriptors, and new connections.
const DESCRIPTORS: &[i64] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_listen,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Reading files: users, certificates and /proc, and watching some of them.
const FILES: &[i64] = &[
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fstat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_statx,
];

/// Removing the pid file.
const REMOVAL: &[i64] = &[
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Writing the log of a disk tier and replacing its other files. Opening them is in [`DISK_FILES`].
const DISK: &[i64] = &[
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fdatasync,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_pwrite64,
    libc::SYS_renameat2,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_renameat,
];

/// The process's own memory. mmap and mprotect are in [`MASKED`].
const MEMORY: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munmap,
];

/// The process's own threads. clone is in [`MASKED`], and clone3 has a separate filter.
const THREADS: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
];

const TIME: &[i64] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_times,
];

/// Information about the process and its machine.
const PROCESS: &[i64] = &[
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Older variants of the calls above.
#[cfg(target_arch = "x86_64")]
const OF_X86: &[i64] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OF_X86: &[i64] = &[];

/// Calls that are permitted only with some arguments: the call's number, the index of the argument,
/// a mask of its bits, and the required value of these bits.
const MASKED: &[(i64, u8, u64, u64)] = &[
    (libc::SYS_mmap, 2, PROT_EXEC, 0),
    (libc::SYS_mprotect, 2, PROT_EXEC, 0),
    // Only threads, not processes.
    (libc::SYS_clone, 0, CLONE_THREAD, CLONE_THREAD),
    (libc::SYS_openat, 2, WRITING, 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, WRITING, 0),
    // Limits can only be read, and only those of this process.
    (libc::SYS_prlimit64, 2, u64::MAX, 0),
];

/// Calls for a disk tier, in the format of [`MASKED`]. The tier's files are opened for reading and
/// writing, without following a link and without truncation. A filter cannot check the directory.
const DISK_FILES: &[(i64, u8, u64, u64)] = &[(libc::SYS_openat, 2, OF_DISK, IN_PLACE)];

const OF_DISK: u64 =
    (libc::O_ACCMODE | libc::O_TRUNC | libc::O_APPEND | libc::O_NOFOLLOW).unsigned_abs() as u64;
const IN_PLACE: u64 = (libc::O_RDWR | libc::O_NOFOLLOW).unsigned_abs() as u64;
const PROT_EXEC: u64 = libc::PROT_EXEC.unsigned_abs() as u64;
const CLONE_THREAD: u64 = libc::CLONE_THREAD.unsigned_abs() as u64;
const WRITING: u64 =
    (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND).unsigned_abs() as u64;
/// Names a mapping, as glibc does. The number is part of the kernel's interface.
const PR_SET_VMA: i32 = 0x5356_4d41;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;
    use std::{env, fs, thread};

    use rustix::fs::{Mode, OFlags, openat, renameat};
    use rustix::io::Errno;

    use super::*;

    /// A filter cannot be removed, so the test runs again in separate processes, without a disk
    /// tier and with one.
    #[test]
    fn system_calls_that_serving_does_not_need_are_refused() {
        const MARK: &str = "LARDER_TEST_RESTRICTED";
        if let Some(mark) = env::var_os(MARK) {
            return in_a_restricted_process(mark == "disk");
        }
        let name = "process::syscalls::tests::system_calls_that_serving_does_not_need_are_refused";
        for mark in ["memory", "disk"] {
            let mut again = Command::new(env::current_exe().unwrap());
            let again = again.args(["--exact", name, "--nocapture"]).env(MARK, mark);
            let output = again.output().unwrap();
            assert!(output.status.success(), "{mark}: {output:?}");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("all refused"), "{mark}: {output:?}");
        }
    }

    fn in_a_restricted_process(has_disk: bool) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut client = UnixStream::connect(&socket).unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "words").unwrap();

        let directory = File::open(folder.path()).unwrap();
        let open = |name: &str, flags: OFlags| {
            let file = openat(&directory, name, OFlags::RDWR | flags, Mode::RUSR | Mode::WUSR);
            file.map(drop).map_err(std::io::Error::from)
        };
        std::os::unix::fs::symlink(&file, folder.path().join("link")).unwrap();

        restrict(Needs { removal: false, disk: has_disk }).unwrap();

        for (name, more) in [("file", OFlags::empty()), ("log", OFlags::CREATE)] {
            let opened = open(name, OFlags::NOFOLLOW | more);
            let is_refused = opened.is_err_and(|why| why.kind() == ErrorKind::PermissionDenied);
            assert_eq!(is_refused, !has_disk, "{name}");
        }
        // On some machines the C library's rename is another call, which is in none of the lists.
        let renamed = renameat(&directory, "file", &directory, "file");
        assert_eq!(renamed.is_err_and(|why| why == Errno::PERM), !has_disk, "a renamed file");
        if has_disk {
            let error = open("link", OFlags::NOFOLLOW).unwrap_err();
            assert_ne!(error.kind(), ErrorKind::PermissionDenied, "the link itself refuses");
        }

        for (what, refused) in [
            ("a program", Command::new("/bin/true").status().map(drop)),
            ("a connection", TcpStream::connect("127.0.0.1:1").map(drop)),
            ("a socket", UnixListener::bind(folder.path().join("other")).map(drop)),
            ("a new file", File::create(folder.path().join("new")).map(drop)),
            ("a written file", File::options().append(true).open(&file).map(drop)),
            ("a removed file", fs::remove_file(&file)),
            ("a followed link", open("link", OFlags::empty())),
            ("an emptied file", open("file", OFlags::NOFOLLOW | OFlags::TRUNC)),
            ("an extended file", open("file", OFlags::NOFOLLOW | OFlags::APPEND)),
        ] {
            let error = refused.expect_err(what);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
        }

        assert_eq!(fs::read_to_string(&file).unwrap(), "words");
        let (mut accepted, _) = listener.accept().unwrap();
        thread::spawn(move || accepted.write_all(b"hello").unwrap()).join().unwrap();
        let mut heard = String::new();
        client.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hello");
        assert!(vec![1_u8; 64 << 20].iter().all(|byte| *byte == 1));
        println!("all refused");
    }
}
