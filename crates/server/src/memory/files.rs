//! Reads the memory limits, the use and the pressure from the files of the kernel.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use larder_options::MemoryBound;

use crate::memory::follower::Observation;
use crate::memory::place::{self, Group, Version};

/// The places of the files that limit the memory of this process.
#[derive(Debug)]
pub(super) struct MemoryFiles {
    /// The folder that contains `proc` and `sys`: `/`, except in tests.
    root: PathBuf,
    /// The cgroups of this process, the lower ones first.
    groups: Vec<Group>,
}

/// The smallest limit, and the cgroup that has it; `None`: the machine's memory.
struct Smallest<'a> {
    bound: MemoryBound,
    group: Option<&'a Group>,
    /// The memory of the machine.
    machine: Machine,
}

/// The memory of the machine, in bytes.
#[derive(Clone, Copy)]
struct Machine {
    total: u64,
    available: u64,
}

impl MemoryFiles {
    /// Finds the cgroups of this process.
    ///
    /// # Errors
    /// Fails if a file of /proc cannot be read.
    pub(super) fn find(root: &Path) -> Result<Self, String> {
        let cgroup = read(&root.join("proc/self/cgroup"))?.unwrap_or_default();
        let mountinfo = read(&root.join("proc/self/mountinfo"))?.unwrap_or_default();
        let groups = place::groups(&cgroup, &mountinfo);
        Ok(Self { root: root.to_owned(), groups })
    }

    /// Returns the memory that this process may use.
    ///
    /// # Errors
    /// Fails if a file cannot be read or has an unexpected content.
    pub(super) fn bound(&self) -> Result<MemoryBound, String> {
        Ok(self.smallest()?.bound)
    }

    /// True if a cgroup limits this process, rather than the machine's memory.
    ///
    /// # Errors
    /// Same as [`Self::bound`].
    pub(super) fn is_limited(&self) -> Result<bool, String> {
        Ok(self.smallest()?.group.is_some())
    }

    /// Returns the limit with the use and the pressure of the memory that it limits.
    ///
    /// # Errors
    /// Same as [`Self::bound`].
    pub(super) fn observe(&self) -> Result<Observation, String> {
        let Smallest { bound, group, machine } = self.smallest()?;
        let (use_bytes, stalled_percent) = match group {
            Some(group) => (self.use_of(group, bound.bytes)?, self.stalled(group)?),
            None => (machine.total.saturating_sub(machine.available), self.machine_stalled()?),
        };
        Ok(Observation { bound, use_bytes, stalled_percent })
    }

    fn smallest(&self) -> Result<Smallest<'_>, String> {
        let machine = self.machine()?;
        let origin = "MemTotal of /proc/meminfo".to_owned();
        let mut smallest =
            Smallest { bound: MemoryBound { bytes: machine.total, origin }, group: None, machine };
        for group in &self.groups {
            for name in limit_names(group.version) {
                let Some(bytes) = self.number(group, name)? else { continue };
                // The lower cgroup comes first. Its limit also counts if it is the same.
                if bytes < smallest.bound.bytes {
                    let origin = format!("{name} of {}", group.folder.display());
                    smallest.bound = MemoryBound { bytes, origin };
                    smallest.group = Some(group);
                }
            }
        }
        Ok(smallest)
    }

    /// Returns the use without the part of the page cache that the kernel can drop. A server with a
    /// disk tier fills its limit with pages of its files, without harm.
    fn use_of(&self, group: &Group, bound_bytes: u64) -> Result<u64, String> {
        let (current, prefix) = match group.version {
            Version::V1 => ("memory.usage_in_bytes", "total_"),
            Version::V2 => ("memory.current", ""),
        };
        let used = self.number(group, current)?.unwrap_or(0);
        // The kernel sums memory.stat up when it is read, so it is only read when it matters.
        if used < bound_bytes / 4 * 3 {
            return Ok(used);
        }
        let path = self.path(group, "memory.stat");
        let stat = read(&path)?.unwrap_or_default();
        let cached: u64 = ["inactive_file", "active_file"]
            .iter()
            .filter_map(|name| field(&stat, &format!("{prefix}{name} ")))
            .fold(0, u64::saturating_add);
        Ok(used.saturating_sub(cached))
    }

    /// Returns the percentage of the last ten seconds in which a task of the cgroup waited for
    /// memory. In version 1, which has no such file, returns that of the machine.
    fn stalled(&self, group: &Group) -> Result<Option<f32>, String> {
        match group.version {
            Version::V2 => pressure(&self.path(group, "memory.pressure")),
            Version::V1 => self.machine_stalled(),
        }
    }

    fn machine_stalled(&self) -> Result<Option<f32>, String> {
        pressure(&self.root.join("proc/pressure/memory"))
    }

    /// Returns the number in a file of a cgroup; `None` if the file does not exist, or contains no
    /// limit.
    fn number(&self, group: &Group, name: &str) -> Result<Option<u64>, String> {
        let path = self.path(group, name);
        let Some(text) = read(&path)? else { return Ok(None) };
        match text.trim_ascii_end() {
            "max" => Ok(None),
            number => number.parse().map(Some).map_err(|_| unexpected(&path, "a number", &text)),
        }
    }

    fn machine(&self) -> Result<Machine, String> {
        let path = self.root.join("proc/meminfo");
        let text = read(&path)?.unwrap_or_default();
        let bytes = |name| {
            let kibibytes = field(&text, name);
            let expected = || unexpected(&path, "MemTotal and MemAvailable", &text);
            kibibytes.and_then(|of| of.checked_mul(1024)).ok_or_else(expected)
        };
        Ok(Machine { total: bytes("MemTotal:")?, available: bytes("MemAvailable:")? })
    }

    fn path(&self, group: &Group, name: &str) -> PathBuf {
        let folder = group.folder.strip_prefix("/").unwrap_or(&group.folder);
        self.root.join(folder).join(name)
    }
}

/// The files with limits. Above `memory.high` the kernel slows a process down instead of ending it.
fn limit_names(version: Version) -> &'static [&'static str] {
    match version {
        Version::V1 => &["memory.limit_in_bytes"],
        Version::V2 => &["memory.max", "memory.high"],
    }
}

/// Returns the number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns `avg10` of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`; `None` if the
/// kernel does not measure pressure.
fn pressure(path: &Path) -> Result<Option<f32>, String> {
    let Some(text) = read(path)? else { return Ok(None) };
    let some = text.lines().find_map(|line| line.strip_prefix("some avg10="));
    let percent = some.and_then(|rest| rest.split(' ').next()?.parse().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(Some).ok_or_else(|| unexpected(path, "a line \"some avg10=…\"", &text))
}

fn unexpected(path: &Path, expected: &str, found: &str) -> String {
    let mut found: String = found.chars().take(FOUND_MAX).collect();
    found.truncate(found.trim_ascii_end().len());
    format!("{} contains {found:?} instead of {expected}", path.display())
}

/// Returns the beginning of a file; `None` if the file does not exist, or the kernel has switched
/// it off.
fn read(path: &Path) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => {
            Ok(None)
        }
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

/// Upper limit for the bytes of a file. The table of mounts of a host with many containers is the
/// largest one.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Upper limit for the characters that an error shows.
const FOUND_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::memory::tree::{Tree, stalls};

    const MIB: u64 = 1 << 20;

    fn bound(tree: &Tree) -> (u64, String) {
        let MemoryBound { bytes, origin } = tree.files().bound().unwrap();
        (bytes / MIB, origin)
    }

    #[test]
    fn the_smallest_limit_of_all_cgroups_above_counts() {
        let tree = Tree::new();
        let machine = (1024, "MemTotal of /proc/meminfo".to_owned());
        assert_eq!(bound(&tree), machine);
        assert!(!tree.files().is_limited().unwrap());
        tree.group("pod", "memory.max", "268435456\n");
        assert_eq!(bound(&tree), (256, "memory.max of /sys/fs/cgroup/pod".to_owned()));
        tree.group("pod/larder", "memory.max", "268435456\n");
        assert_eq!(bound(&tree), (256, "memory.max of /sys/fs/cgroup/pod/larder".to_owned()));
        tree.group("pod/larder", "memory.high", "134217728\n");
        assert_eq!(bound(&tree), (128, "memory.high of /sys/fs/cgroup/pod/larder".to_owned()));
        assert!(tree.files().is_limited().unwrap());
        tree.group("pod/larder", "memory.high", "max\n");
        tree.group("pod/larder", "memory.max", "99999999999\n");
        tree.group("pod", "memory.max", "18446744073709551615\n");
        assert_eq!(bound(&tree), machine);
    }

    #[test]
    fn the_use_and_the_pressure_are_those_of_the_cgroup_with_the_limit() {
        let tree = Tree::new();
        let observed = || {
            let seen = tree.files().observe().unwrap();
            (seen.use_bytes / MIB, seen.stalled_percent)
        };
        assert_eq!(observed(), (512, Some(3.0)));
        tree.group("pod", "memory.max", "268435456\n");
        tree.group("pod", "memory.current", "104857600\n");
        assert_eq!(observed(), (100, None));
        tree.group("pod", "memory.pressure", &stalls("12.50"));
        assert_eq!(observed(), (100, Some(12.5)));
        tree.group("pod", "memory.current", "251658240\n");
        assert_eq!(observed(), (240, Some(12.5)));
        let stat = "anon 1\ninactive_file 41943040\nactive_file 20971520\ninactive_anon 7\n";
        tree.group("pod", "memory.stat", stat);
        assert_eq!(observed(), (180, Some(12.5)), "60 MiB of page cache can be dropped");
    }

    #[test]
    fn version_1_has_other_files() {
        let tree = Tree::new();
        tree.write("proc/self/cgroup", "4:memory:/a\n0::/\n");
        let mount = "35 31 0:32 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n";
        tree.write("proc/self/mountinfo", mount);
        tree.group("", "memory.limit_in_bytes", "9223372036854771712\n");
        tree.group("a", "memory.limit_in_bytes", "268435456\n");
        tree.group("a", "memory.usage_in_bytes", "251658240\n");
        let stat = "inactive_file 1\ntotal_inactive_file 41943040\ntotal_active_file 0\n";
        tree.group("a", "memory.stat", stat);
        assert_eq!(bound(&tree), (256, "memory.limit_in_bytes of /sys/fs/cgroup/a".to_owned()));
        let seen = tree.files().observe().unwrap();
        assert_eq!((seen.use_bytes / MIB, seen.stalled_percent), (200, Some(3.0)));
    }

    #[test]
    fn a_system_without_cgroups_has_the_machines_memory() {
        let tree = Tree::new();
        fs::remove_dir_all(tree.path().join("proc/self")).unwrap();
        fs::remove_dir_all(tree.path().join("proc/pressure")).unwrap();
        assert_eq!(bound(&tree).0, 1024);
        assert_eq!(tree.files().observe().unwrap().stalled_percent, None);
    }

    #[test]
    fn a_malformed_file_is_an_error_that_names_it() {
        for (path, text, expected) in [
            ("sys/fs/cgroup/pod/memory.max", "", "contains \"\" instead of a number"),
            ("sys/fs/cgroup/pod/memory.max", "-1", "contains \"-1\" instead of a number"),
            ("sys/fs/cgroup/pod/memory.max", "1e9\n", "contains \"1e9\" instead of a number"),
            ("proc/meminfo", "", "contains \"\" instead of MemTotal and MemAvailable"),
            ("proc/meminfo", "MemTotal: 99999999999999999999 kB\n", "instead of MemTotal"),
            ("proc/meminfo", "MemTotal: 18446744073709551615 kB\n", "instead of MemTotal"),
            ("proc/pressure/memory", "some avg10=x avg60=\n", "instead of a line \"some avg10=…\""),
            ("proc/pressure/memory", "some avg10=nan \n", "instead of a line \"some avg10=…\""),
            ("proc/pressure/memory", "\u{fffd}\0", "instead of a line \"some avg10=…\""),
        ] {
            let tree = Tree::new();
            tree.write(path, text);
            let error = tree.files().observe().unwrap_err();
            assert!(error.contains(path) && error.contains(expected), "{error}");
        }
        let tree = Tree::new();
        fs::create_dir(tree.path().join("sys/fs/cgroup/pod/memory.max")).unwrap();
        let error = tree.files().bound().unwrap_err();
        assert!(error.contains("pod/memory.max cannot be read"), "{error}");
        let long = Tree::new();
        long.write("proc/meminfo", &"x".repeat(100_000));
        assert!(long.files().bound().unwrap_err().len() < 300);
    }
}
