//! The memory of this process.

use std::fs;

/// Memory of this process that is present, in bytes: `VmRSS`.
///
/// # Panics
/// The system has no `/proc`.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("a process knows its VmRSS") * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_resident_once_it_was_written() {
        let before = resident_bytes();
        let written = std::hint::black_box(vec![1u8; 64 << 20]);
        let grown = resident_bytes() - before;
        assert!(grown.abs_diff(written.len() as u64) < 4 << 20, "{grown}");
    }
}
