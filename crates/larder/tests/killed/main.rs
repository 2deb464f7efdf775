//! A process is killed at any instruction of any operation: a valid cache remains, and no process
//! waits for the dead one.
//!
//! A child performs one operation. After each instruction that changed the memory, a copy of the
//! memory shows the state that a kill at this point would leave: its row is still attached, and no
//! process holds its lock. Each copy is judged twice: by a process that opens it later, and by a
//! process that was attached all the time. Some children are really killed, to show that the copies
//! match the state after a kill. Beside others, which are stopped, writers are timed.
//!
//! Two instructions in between leave the same memory, so the child runs to its next store: it finds
//! the memory write-protected. Nor does it matter which bytes it has written where no process can
//! find them, such as those of a record that is not filed yet: states that differ only there are
//! judged once, and the process that opens the copy finds noise there.
//!
//! `LARDER_KILLED=all` judges every copy (`make verify ONLY=crash`). `LARDER_KILLED=1000` judges
//! about 1000 copies of each operation, drawn anew each time. The default is a fixed sample.
//! `LARDER_KILLED_SEED` selects another sample. An argument selects the operations with that part
//! in their name, `--exact evict` the operation of that name.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

#[cfg(target_arch = "x86_64")]
mod copy;
#[cfg(target_arch = "x86_64")]
mod judge;
#[cfg(target_arch = "x86_64")]
mod operations;
#[cfg(target_arch = "x86_64")]
mod plan;
#[cfg(target_arch = "x86_64")]
mod stopped;
#[cfg(target_arch = "x86_64")]
mod tracer;
#[cfg(target_arch = "x86_64")]
mod trial;
#[cfg(target_arch = "x86_64")]
mod victim;
#[cfg(target_arch = "x86_64")]
mod watch;

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    plan::run()
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    larder_testkit::skip("the tracer sets the registers of x86-64");
}
