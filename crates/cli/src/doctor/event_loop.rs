//! Workers that use epoll although the kernel has io_uring.

use std::fs;

use super::facts::Facts;
use super::{Finding, Rule};

pub(super) const RULES: &[Rule] = &[uses_epoll];

fn uses_epoll(facts: &Facts) -> Option<Finding> {
    let process = facts.process.as_ref()?;
    // A kernel before 6.6 does not have the file. Then the cause is unknown.
    let setting = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    let has_ring = process.has_ring()?;
    (!has_ring).then(|| {
        let is_filtered = process.status("Seccomp").is_some_and(|mode| mode == "2");
        let remedy = match setting.trim() {
            "0" if is_filtered => "allow io_uring in the seccomp profile of the service",
            "0" => "start without --io=epoll",
            _ => "the kernel forbids it: sysctl kernel.io_uring_disabled=0",
        };
        let sentence =
            format!("the workers use epoll, which takes more system calls than io_uring: {remedy}");
        Finding::new("no-io-uring", sentence)
    })
}
