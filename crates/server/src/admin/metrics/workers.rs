//! How busy each worker is, according to the system's statistics of its thread.

use std::fs;

use super::family::{Kind, Page};
use super::process::cpu_seconds;

/// Appends the processor time of each worker. A waiting worker uses none, so the increase per
/// second is the busy fraction of the worker.
pub(super) fn show(page: &mut Page) {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
    let mut samples: Vec<(u32, String)> = threads
        .flatten()
        .filter_map(|thread| of_worker(&fs::read_to_string(thread.path().join("stat")).ok()?))
        .collect();
    samples.sort();
    let samples: Vec<_> = samples
        .into_iter()
        .map(|(number, seconds)| (vec![("worker", number.to_string())], seconds))
        .collect();
    let help = "Processor time of a worker, in user mode and in the kernel; waiting uses none.";
    page.family("larder_worker_busy_seconds_total", Kind::Counter, help, &samples);
}

/// Returns the number and the processor time of a worker's thread; `None` for other threads.
fn of_worker(stat: &str) -> Option<(u32, String)> {
    let (_, rest) = stat.split_once('(')?;
    let (name, _) = rest.rsplit_once(')')?;
    let number = name.strip_prefix("worker ")?.parse().ok()?;
    Some((number, cpu_seconds(stat)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_known_by_the_name_of_its_thread() {
        let stat = |name: &str| {
            format!("7 ({name}) S 1 2 3 4 5 6 7 8 9 10 150 51 0 0 20 0 6 0 12345 4096 17 18")
        };
        assert_eq!(of_worker(&stat("worker 12")), Some((12, "2.01".to_owned())));
        assert_eq!(of_worker(&stat("admin")), None);
        assert_eq!(of_worker(&stat("worker x")), None);
        assert_eq!(of_worker("7"), None);
    }
}
