//! The metrics of the process, with the standard names of Prometheus' client libraries.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::family::{Kind, Page};

/// Appends the metrics that the system reports.
pub(super) fn show(page: &mut Page) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(stat) = parse(&stat) {
        let help = "Processor time in user mode and in the kernel.";
        let seconds = in_seconds(stat.cpu_ticks);
        page.single("process_cpu_seconds_total", Kind::Counter, help, seconds);
        let help = "Resident memory.";
        let bytes = stat.resident_pages * rustix::param::page_size() as u64;
        page.single("process_resident_memory_bytes", Kind::Gauge, help, bytes.to_string());
        let (help, bytes) = ("Virtual memory.", stat.virtual_bytes.to_string());
        page.single("process_virtual_memory_bytes", Kind::Gauge, help, bytes);
        let (help, threads) = ("Threads.", stat.threads.to_string());
        page.single("process_threads", Kind::Gauge, help, threads);
        if let Some(boot) = boot_seconds(&fs::read_to_string("/proc/stat").unwrap_or_default()) {
            let help = "Unix time at which the process was started.";
            let seconds = in_seconds(boot * TICKS_PER_SECOND + stat.start_ticks);
            page.single("process_start_time_seconds", Kind::Gauge, help, seconds);
        }
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        // Listing the directory itself needs a descriptor, which is not counted.
        let count = descriptors.count().saturating_sub(1).to_string();
        page.single("process_open_fds", Kind::Gauge, "Open file descriptors.", count);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        let help = "File descriptors that the process may have open.";
        page.single("process_max_fds", Kind::Gauge, help, limit.to_string());
    }
}

/// Fields of /proc/self/stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

/// Returns the processor time of a process or thread in seconds, from its `stat` file in /proc.
pub(super) fn cpu_seconds(stat: &str) -> Option<String> {
    parse(stat).map(|stat| in_seconds(stat.cpu_ticks))
}

fn parse(stat: &str) -> Option<Stat> {
    // The name of the program may contain any character. It ends at the last parenthesis.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The fields before these are the process id and the name. proc(5) counts from 1.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        cpu_ticks: field(14)? + field(15)?,
        threads: field(20)?,
        start_ticks: field(22)?,
        virtual_bytes: field(23)?,
        resident_pages: field(24)?,
    })
}

fn boot_seconds(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn in_seconds(ticks: u64) -> String {
    format!("{}.{:02}", ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND)
}

/// The unit of times in /proc, which is the same for all programs on Linux.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_the_name_whatever_it_contains() {
        let line = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 51 0 0 20 0 6 0 12345 4096 17 18";
        let stat = parse(line).unwrap();
        let expected = Stat {
            cpu_ticks: 201,
            threads: 6,
            start_ticks: 12_345,
            virtual_bytes: 4096,
            resident_pages: 17,
        };
        assert_eq!(stat, expected);
        assert_eq!(in_seconds(stat.cpu_ticks), "2.01");
        assert_eq!(boot_seconds("cpu 1\nbtime 77\n"), Some(77));
        assert!(parse("").is_none());
    }
}
