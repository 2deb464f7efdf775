//! A folder that looks like the root of a system with cgroups of version 2, for tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::memory::files::MemoryFiles;

/// The folder. Its process is in the cgroup `pod/larder`, without a limit, on a machine of 1 GiB of
/// which half is in use.
pub(super) struct Tree(TempDir);

impl Tree {
    pub(super) fn new() -> Self {
        let tree = Self(TempDir::new().expect("the folder of temporary files is writable"));
        tree.write("proc/self/cgroup", "0::/pod/larder\n");
        let mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        tree.write("proc/self/mountinfo", mount);
        let machine = "MemTotal:       1048576 kB\nMemFree: 1 kB\nMemAvailable:   524288 kB\n";
        tree.write("proc/meminfo", machine);
        tree.write("proc/pressure/memory", &stalls("3.00"));
        tree.group("pod/larder", "memory.max", "max\n");
        tree
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a file of a cgroup.
    pub(super) fn group(&self, group: &str, name: &str, text: &str) {
        self.write(&format!("sys/fs/cgroup/{group}/{name}"), text);
    }

    pub(super) fn files(&self) -> MemoryFiles {
        MemoryFiles::find(self.path()).unwrap()
    }
}

/// Returns a file of the kernel with this percentage of waiting.
pub(super) fn stalls(avg10: &str) -> String {
    format!("some avg10={avg10} avg60=0.00 avg300=0.00 total=0\nfull avg10=9.00 avg60=0\n")
}
