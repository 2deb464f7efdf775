//! The resident memory of this process.

use std::fs;

/// Returns the resident memory of this process, in bytes: `VmRSS`.
///
/// # Panics
/// The system has no `/proc`.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("/proc/self/status has VmRSS") * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_memory_is_resident() {
        let before = resident_bytes();
        let written = std::hint::black_box(vec![1u8; 64 << 20]);
        let grown = resident_bytes() - before;
        assert!(grown.abs_diff(written.len() as u64) < 4 << 20, "{grown}");
    }
}
