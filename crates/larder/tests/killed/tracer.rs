//! A child that runs one instruction at a time.

use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::victim;

/// A traced child, killed when it is dropped. It belongs to the thread that started it.
pub(crate) struct Tracee {
    child: Child,
    pid: Pid,
    pub(crate) steps: u64,
}

impl Tracee {
    /// Starts this program again as a victim, and waits until it is about to begin its operation.
    pub(crate) fn start(name: &str, path: &std::path::Path, detail: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .env(victim::NAME, name)
            .env(victim::PATH, path)
            .env(victim::DETAIL, detail)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let tracee = Self { child, pid, steps: 0 };
        match waitpid(pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => tracee,
            other => panic!("the victim did not start: {other:?}"),
        }
    }

    /// Executes one more instruction. Returns false once the operation is over.
    pub(crate) fn step(&mut self) -> bool {
        ptrace::step(self.pid, None).unwrap();
        self.steps += 1;
        match waitpid(self.pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => true,
            WaitStatus::Stopped(_, Signal::SIGSTOP) => false,
            other => panic!("the victim ended early: {other:?}"),
        }
    }

    /// Returns the child's position as an address for `addr2line`.
    pub(crate) fn place(&self) -> String {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let base = maps.split('-').next().and_then(|base| u64::from_str_radix(base, 16).ok());
        #[cfg(target_arch = "x86_64")]
        if let (Ok(registers), Some(base)) = (ptrace::getregs(self.pid), base) {
            return format!("{:#x}", registers.rip.wrapping_sub(base));
        }
        format!("{base:?}")
    }

    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        self.end();
    }
}
