//! A process is killed at any instruction of any operation: the cache stays valid, and no process
//! waits for the dead process.
//!
//! A child performs one operation. After each instruction that changes the memory, the test copies
//! the memory. The copy is the state that a kill at this point would leave: the memory still lists
//! the child as attached, but no process holds its lock. Each copy is checked twice: by a process
//! that opens it later, and by a process that was attached the whole time. Some children are really
//! killed, to check that the copies match the state after a kill. Other children are stopped, and
//! the test measures how long the writers of other processes wait.
//!
//! Instructions between two stores do not change the memory, so the child runs to its next store,
//! which stops it because the memory is write-protected. States that differ only in bytes that no
//! process can reach, such as the bytes of a record that is not in the index yet, are checked only
//! once. In the copy these bytes are random.
//!
//! `LARDER_KILLED=all` checks every copy (`make verify ONLY=crash`). `LARDER_KILLED=1000` checks
//! about 1000 copies of each operation, a new sample each time. The default is a fixed sample.
//! `LARDER_KILLED_SEED` selects another sample. An argument selects the operations whose names
//! contain it; `--exact evict` selects the operation with this name.
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
