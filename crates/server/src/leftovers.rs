//! The files of a start that does not come to its end.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that this process has made, and that are of no use without it: the paths of its sockets,
/// an unfinished pid file. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers(Arc<Mutex<Vec<Leftover>>>);

#[derive(Debug)]
struct Leftover {
    path: PathBuf,
    /// Device and inode: the path may become another process's.
    identity: (u64, u64),
}

impl Leftovers {
    /// Notes a file that this process has made.
    pub(crate) fn note(&self, path: &Path) {
        if let Some(identity) = identity(path) {
            self.list().push(Leftover { path: path.to_owned(), identity });
        }
    }

    /// The start has come to its end: the files stay.
    pub(crate) fn keep(&self) {
        self.list().clear();
    }

    /// Removes the files. One that cannot be removed stays, as after a kill.
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
