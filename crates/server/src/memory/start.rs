//! What larderd reports about its memory when it starts, and what it follows from then on.

use std::path::Path;

use larder_options::{MemoryBound, MemoryShare, Options};

use crate::log;
use crate::memory::control::{Mebibytes, MemoryControl, MemoryWatch};
use crate::memory::files::MemoryFiles;
use crate::memory::follower::LimitFollower;

/// Finds the memory that this process may use, logs how `-m` relates to it, and begins to follow it
/// if `-m` is a percentage. `root` contains `proc` and `sys`: `/`, except in tests.
pub(crate) fn start(options: &Options, root: &Path) -> (MemoryControl, MemoryWatch) {
    let found = MemoryFiles::find(root).and_then(|files| {
        let (bound, is_limited) = (files.bound()?, files.is_limited()?);
        Ok((files, bound, is_limited))
    });
    let (files, bound, is_limited) = match found {
        Ok(found) => found,
        Err(why) => {
            log::warn(format_args!("larderd: the memory limit of this process is unknown: {why}"));
            return (MemoryControl::default(), MemoryWatch::default());
        }
    };
    let Some(share) = options.memory_share else {
        if is_limited && let Some(warning) = too_large(options, &bound) {
            log::warn(format_args!("larderd: {warning}"));
        }
        return (MemoryControl::new(None, bound.bytes), MemoryWatch::default());
    };
    let fixed_by = fixed_by(options);
    log::info(format_args!("larderd: {}", followed(options, share, &bound, fixed_by)));
    if let Some(warning) = mostly_fixed(options, share, &bound) {
        log::warn(format_args!("larderd: {warning}"));
    }
    if fixed_by.is_some() {
        return (MemoryControl::new(None, bound.bytes), MemoryWatch::default());
    }
    let follower = LimitFollower::new(share, bound.bytes, options.memory_bytes);
    (MemoryControl::new(Some(follower), bound.bytes), MemoryWatch::new(files))
}

/// Returns the option that fixes the memory at the start; `None` if the limit can change.
fn fixed_by(options: &Options) -> Option<&'static str> {
    if options.memory_file.is_some() {
        Some("-e")
    } else if options.lock_memory {
        Some("-k")
    } else if options.huge_pages {
        Some("-L")
    } else {
        options.has_readers().then_some("--local-readers")
    }
}

fn followed(
    options: &Options,
    share: MemoryShare,
    bound: &MemoryBound,
    fixed_by: Option<&str>,
) -> String {
    let and_then = match fixed_by {
        Some(option) => {
            format!("the size stays until the next start, because {option} fixes the memory")
        }
        None => "larderd follows that limit".to_owned(),
    };
    format!(
        "-m {}% is {}: the percentage of {} ({}), minus {} for connections and the process; \
         {and_then}",
        share.percent,
        Mebibytes(options.memory_bytes),
        Mebibytes(bound.bytes),
        bound.origin,
        Mebibytes(share.fixed_bytes),
    )
}

/// Returns a warning if `-m` in MiB, with the memory that is used beyond it, is more than the limit
/// of the cgroup.
fn too_large(options: &Options, bound: &MemoryBound) -> Option<String> {
    let fixed_bytes = options.fixed_memory_bytes();
    let needed = options.memory_bytes.saturating_add(fixed_bytes);
    (needed > bound.bytes).then(|| {
        let left = bound.bytes.saturating_sub(fixed_bytes);
        let remedy = if left >= MemoryShare::CACHE_BYTES_MIN {
            format!("lower -m to {} or less", left >> 20)
        } else {
            "lower -c or -o read_buf_mem_limit".to_owned()
        };
        format!(
            "option -m: {} and up to {} for connections and the process are more than the {} of \
             this process ({}), above which the kernel ends it: {remedy}, raise that limit, or use \
             -m 80%",
            Mebibytes(options.memory_bytes),
            Mebibytes(fixed_bytes),
            Mebibytes(bound.bytes),
            bound.origin,
        )
    })
}

/// Returns a warning if a percentage leaves less for the cache than for connections.
fn mostly_fixed(options: &Options, share: MemoryShare, bound: &MemoryBound) -> Option<String> {
    (options.memory_bytes < share.fixed_bytes).then(|| {
        format!(
            "option -m: {}% of {} leaves {} for items, less than the {} for connections and the \
             process: raise the limit ({}), or lower -c or -o read_buf_mem_limit",
            share.percent,
            Mebibytes(bound.bytes),
            Mebibytes(options.memory_bytes),
            Mebibytes(share.fixed_bytes),
            bound.origin,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(map: &[(&str, &str)]) -> Options {
        Options::from_map(map.iter().copied()).unwrap().0
    }

    fn bound(mebibytes: u64) -> MemoryBound {
        MemoryBound { bytes: mebibytes << 20, origin: "memory.max of /g".to_owned() }
    }

    #[test]
    fn a_number_that_does_not_fit_the_cgroup_is_warned_about() {
        let of_512 = options(&[("memory_limit", "512")]);
        assert_eq!(too_large(&of_512, &bound(610)), None);
        assert_eq!(
            too_large(&of_512, &bound(512)).unwrap(),
            "option -m: 512 MiB and up to 98 MiB for connections and the process are more than the \
             512 MiB of this process (memory.max of /g), above which the kernel ends it: lower -m \
             to 414 or less, raise that limit, or use -m 80%"
        );
        let warning = too_large(&of_512, &bound(100)).unwrap();
        assert!(warning.contains("lower -c or -o read_buf_mem_limit, raise"), "{warning}");
    }

    #[test]
    fn a_percentage_of_which_connections_take_most_is_warned_about() {
        let mut options = options(&[("conn_limit", "100000")]);
        let share = MemoryShare { percent: 80, fixed_bytes: options.fixed_memory_bytes() };
        options.memory_bytes = share.bytes_of(600 << 20);
        assert_eq!(
            mostly_fixed(&options, share, &bound(600)).unwrap(),
            "option -m: 80% of 600 MiB leaves 188 MiB for items, less than the 291 MiB for \
             connections and the process: raise the limit (memory.max of /g), or lower -c or -o \
             read_buf_mem_limit"
        );
        options.memory_bytes = share.fixed_bytes;
        assert_eq!(mostly_fixed(&options, share, &bound(600)), None);
    }

    #[test]
    fn the_log_names_the_option_that_keeps_the_size() {
        let socket = ("unix_socket", "/s");
        for (map, option) in [
            (&[("memory_file", "/f")][..], Some("-e")),
            (&[("lock_memory", "yes")], Some("-k")),
            (&[("enable_largepages", "yes")], Some("-L")),
            (&[("local_readers", "same-uid"), socket], Some("--local-readers")),
            (&[("local_readers", "same-uid")], None),
            (&[socket], None),
        ] {
            let options = options(map);
            assert_eq!(fixed_by(&options), option, "{map:?}");
            let share = MemoryShare { percent: 80, fixed_bytes: options.fixed_memory_bytes() };
            let words = followed(&options, share, &bound(256), fixed_by(&options));
            let end = match option {
                Some(option) => format!(
                    "; the size stays until the next start, because {option} fixes the memory"
                ),
                None => "; larderd follows that limit".to_owned(),
            };
            assert!(words.ends_with(&end), "{words}");
        }
    }
}
