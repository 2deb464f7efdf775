//! A traced child: it runs one instruction at a time, or until it is about to store into the
//! region.
//!
//! While a child runs, the region is write-protected, so that each store stops the child. To change
//! the protection, the tracer makes the child itself call `mprotect`: it sets the child's registers
//! to the arguments and to the address of a system call instruction.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::victim;

/// A traced child, killed when it is dropped. It belongs to the thread that started it.
pub(crate) struct Tracee {
    child: Child,
    pid: Pid,
    path: PathBuf,
    /// The address of an instruction that calls the system.
    system_call_at: u64,
    /// The addresses at which the region is mapped.
    mapped: Vec<Range<u64>>,
}

/// The reason why a child has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has executed an instruction.
    Stepped,
    /// It is about to store into protected memory.
    Store,
    /// It has executed a system call.
    Called,
    /// It has mapped memory.
    Mapped,
    /// The operation has ended.
    Over,
}

/// The next action of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A system call. The instruction must be run, not stepped.
    Call,
    /// A copy of bytes to this part of the region, with a repeating instruction.
    Copy(Range<usize>),
    Other,
}

/// The access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

const SYSTEM_CALL: u64 = 0x050F;
/// `rep movsb`. A single step copies one byte.
const COPY: u64 = 0xA4F3;
const BREAKPOINT: i64 = 0xCC;
const NOT_A_SYSTEM_CALL: u64 = u64::MAX;

impl Tracee {
    /// Starts this program again as a victim, and waits until it is about to begin its operation.
    pub(crate) fn start(name: &str, path: &Path, detail: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .env(victim::NAME, name)
            .env(victim::PATH, path)
            .env(victim::DETAIL, detail)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let path = path.canonicalize().unwrap();
        let mut tracee = Self { child, pid, path, system_call_at: 0, mapped: Vec::new() };
        match waitpid(pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
            other => panic!("the victim did not start: {other:?}"),
        }
        ptrace::setoptions(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
        // It has called `raise`.
        tracee.system_call_at = ptrace::getregs(pid).unwrap().rip - 2;
        let instruction = tracee.instruction(tracee.system_call_at);
        assert_eq!(instruction, SYSTEM_CALL, "no system call to repeat");
        tracee.find_mappings();
        tracee
    }

    /// Executes one more instruction.
    pub(crate) fn step(&mut self) -> Stop {
        ptrace::step(self.pid, None).unwrap();
        self.wait()
    }

    /// Runs until the next store into protected memory or the next system call.
    pub(crate) fn run(&mut self) -> Stop {
        ptrace::syscall(self.pid, None).unwrap();
        let stop = self.wait();
        if stop != Stop::Called {
            return stop;
        }
        ptrace::syscall(self.pid, None).unwrap();
        let stop = self.wait();
        let registers = ptrace::getregs(self.pid).unwrap();
        // Stores by the kernel for the child do not stop the child.
        let refused = -(Errno::EFAULT as i64);
        assert_ne!(registers.rax.cast_signed(), refused, "the kernel stores into the region");
        if registers.orig_rax == libc::SYS_mmap as u64 {
            self.find_mappings();
            return Stop::Mapped;
        }
        stop
    }

    fn wait(&self) -> Stop {
        match waitpid(self.pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => Stop::Stepped,
            WaitStatus::Stopped(_, Signal::SIGSEGV) => Stop::Store,
            WaitStatus::Stopped(_, Signal::SIGSTOP) => Stop::Over,
            WaitStatus::PtraceSyscall(_) => Stop::Called,
            other => panic!("the victim ended early: {other:?}"),
        }
    }

    pub(crate) fn next(&self) -> Next {
        let registers = ptrace::getregs(self.pid).unwrap();
        match self.instruction(registers.rip) {
            SYSTEM_CALL => Next::Call,
            COPY => {
                let region = self.mapped.iter().find(|mapped| mapped.contains(&registers.rdi));
                let to = region.map(|mapped| (registers.rdi - mapped.start) as usize);
                to.map_or(Next::Other, |to| Next::Copy(to..to + registers.rcx as usize))
            }
            _ => Next::Other,
        }
    }

    /// Executes a repeating instruction to its end.
    pub(crate) fn finish_copy(&mut self) -> Stop {
        let end = ptrace::getregs(self.pid).unwrap().rip + 2;
        let at = end as ptrace::AddressType;
        let word = ptrace::read(self.pid, at).unwrap();
        ptrace::write(self.pid, at, word & !0xFF | BREAKPOINT).unwrap();
        ptrace::cont(self.pid, None).unwrap();
        let stop = self.wait();
        ptrace::write(self.pid, at, word).unwrap();
        let mut registers = ptrace::getregs(self.pid).unwrap();
        assert_eq!(registers.rip, end + 1, "the breakpoint was not reached: {stop:?}");
        registers.rip = end;
        ptrace::setregs(self.pid, registers).unwrap();
        stop
    }

    /// Returns the first two bytes of an instruction.
    fn instruction(&self, at: u64) -> u64 {
        ptrace::read(self.pid, at as ptrace::AddressType).unwrap().cast_unsigned() & 0xFFFF
    }

    fn find_mappings(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap();
        let of_region = maps.lines().filter(|line| line.ends_with(self.path.to_str().unwrap()));
        let range = |line: &str| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
        };
        self.mapped = of_region.filter_map(range).collect();
    }

    /// Sets the child's access to a part of the region, in whole pages.
    pub(crate) fn protect(&mut self, part: Range<usize>, access: Access) {
        let rights = match access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        for mapped in self.mapped.clone() {
            let (at, bytes) = (mapped.start + part.start as u64, part.len() as u64);
            self.call(libc::SYS_mprotect as u64, [at, bytes, rights as u64]);
        }
    }

    /// Makes the child execute a system call.
    fn call(&mut self, number: u64, arguments: [u64; 3]) {
        let before = ptrace::getregs(self.pid).unwrap();
        let mut registers = before;
        registers.rip = self.system_call_at;
        registers.rax = number;
        registers.orig_rax = NOT_A_SYSTEM_CALL;
        [registers.rdi, registers.rsi, registers.rdx] = arguments;
        ptrace::setregs(self.pid, registers).unwrap();
        assert_eq!(self.step(), Stop::Stepped, "a system call of the tracer's");
        ptrace::setregs(self.pid, before).unwrap();
    }

    /// Returns the child's position as an address for `addr2line`.
    pub(crate) fn place(&self) -> String {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let base = maps.split('-').next().and_then(|base| u64::from_str_radix(base, 16).ok());
        match (ptrace::getregs(self.pid), base) {
            (Ok(registers), Some(base)) => format!("{:#x}", registers.rip.wrapping_sub(base)),
            _ => format!("{base:?}"),
        }
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
