//! The leftovers of a start: files that it has created, and that must be removed if it fails.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that this process has created and that are useless without it: the paths of its sockets
/// and an unfinished pid file. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers(Arc<Mutex<Vec<Leftover>>>);

#[derive(Debug)]
struct Leftover {
    path: PathBuf,
    /// Device and inode. Another process may have replaced the file at the path.
    identity: (u64, u64),
}

impl Leftovers {
    /// Adds a file that this process has created.
    pub(crate) fn note(&self, path: &Path) {
        if let Some(identity) = identity(path) {
            self.list().push(Leftover { path: path.to_owned(), identity });
        }
    }

    /// Keeps the files, because the start succeeded.
    pub(crate) fn keep(&self) {
        self.list().clear();
    }

    /// Removes the files. A file that cannot be removed stays, as it would after a kill.
    pub(crate) fn remove(&self) {
        for Leftover { path, identity: own } in self.list().drain(..) {
            if identity(&path) == Some(own) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Leftover>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let of = |metadata: Metadata| (metadata.dev(), metadata.ino());
    fs::symlink_metadata(path).ok().map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_removed_unless_it_is_kept_or_another_processs() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            path
        };
        let (own, replaced, kept) = (make("own"), make("replaced"), make("kept"));
        let leftovers = Leftovers::default();
        leftovers.note(&kept);
        leftovers.keep();
        leftovers.note(&own);
        leftovers.note(&replaced);
        leftovers.note(&folder.path().join("nothing"));
        fs::rename(make("other"), &replaced).unwrap();
        leftovers.clone().remove();
        assert!(!own.exists());
        assert!(kept.exists() && replaced.exists(), "these are of use");
    }
}
