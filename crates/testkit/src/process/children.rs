//! Processes forked by a test.
#![allow(unsafe_code, reason = "the C library forks, kills and waits")]
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// A forked process, killed when it is dropped.
pub struct Child(libc::pid_t);

/// Forks a child that calls `run` and exits with its result, or with 101 after a panic. The child
/// ends after at most 20 seconds.
///
/// The child has only one thread, and locks that other threads of the test held stay locked in it.
/// It may allocate memory, because the C library supports that after a fork, but must not use other
/// locks.
pub fn fork(run: impl FnOnce() -> i32) -> Child {
    let run = std::panic::AssertUnwindSafe(run);
    // SAFETY: the child runs only the closure, and ends without unwinding into the test.
    unsafe {
        match libc::fork() {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => {
                libc::alarm(20);
                libc::_exit(std::panic::catch_unwind(run).unwrap_or(101));
            }
            child => Child(child),
        }
    }
}

impl Child {
    /// Kills the process. The caller must still wait for it.
    pub fn kill(&self) {
        // SAFETY: the process is our child and we have not waited for it yet, so the kernel has not
        // reused its process id.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }

    /// Returns the exit status, or the negated number of the signal that ended it.
    pub fn wait(self) -> i32 {
        let status = self.reap();
        std::mem::forget(self);
        if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
    }

    fn reap(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the process is our child, and `status` is valid for writes.
        while unsafe { libc::waitpid(self.0, &mut status, 0) } == -1 {}
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}

/// Sleeps until the process is killed.
pub fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: no memory is involved.
        unsafe { libc::pause() };
    }
}

/// A pipe on which a child reports its progress.
pub struct Word(OwnedFd, OwnedFd);

impl Word {
    /// Creates a pipe.
    #[expect(clippy::new_without_default, reason = "a pipe may fail to open")]
    pub fn new() -> Self {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        Self(reader, writer)
    }

    /// Writes a report.
    pub fn say(&self, word: u32) {
        File::from(self.1.try_clone().unwrap()).write_all(&word.to_le_bytes()).unwrap();
    }

    /// Waits up to 20 seconds for the report. Panics if no report arrives, for example because the
    /// child died.
    pub fn hear(&self) -> u32 {
        let mut word = [0; 4];
        rustix::event::poll(
            &mut [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)],
            Some(&rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 }),
        )
        .ok()
        .filter(|ready| *ready > 0)
        .expect("the child ended without a report");
        File::from(self.0.try_clone().unwrap()).read_exact(&mut word).unwrap();
        u32::from_le_bytes(word)
    }
}
