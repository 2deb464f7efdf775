//! Memory without huge pages.

use std::fs;

use super::facts::Facts;
use super::{Finding, Rule};

pub(super) const RULES: &[Rule] = &[lacks_huge_pages];

/// larderd requests huge pages only for private memory, not for the memory of `-e`.
fn lacks_huge_pages(facts: &Facts) -> Option<Finding> {
    let process = facts.process.as_ref()?;
    let is_private = facts.setting("memory_file") == "(null)";
    let resident = process.memory_bytes("Anonymous")?;
    let huge = process.memory_bytes("AnonHugePages")? + process.memory_bytes("Private_Hugetlb")?;
    (is_private && resident >= RESIDENT_BYTES_MIN && huge == 0).then(|| {
        let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        let is_never = setting.is_ok_and(|setting| setting.contains("[never]"));
        let remedy = match process.status("THP_enabled").as_deref() {
            Some("0") => "the service disables them with prctl: remove that",
            _ if is_never => {
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and restart"
            }
            _ => {
                "the kernel has no free huge pages: start the server earlier, or reserve some for \
                 -L"
            }
        };
        let megabytes = resident >> 20;
        let sentence = format!(
            "{megabytes} MiB of memory have no huge pages, so reads miss the TLB: {remedy}"
        );
        Finding::new("no-huge-pages", sentence)
    })
}

/// A smaller process may have started too recently to have huge pages.
const RESIDENT_BYTES_MIN: u64 = 32 << 20;
