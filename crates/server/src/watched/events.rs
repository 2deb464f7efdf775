//! Events of inotify for the directories that lead to the watched files.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{self, Errno};

use super::places::Places;

/// The watches of inotify.
#[derive(Debug)]
pub(super) struct Events {
    inotify: OwnedFd,
    /// By the number of the watch, the names whose events matter.
    watches: HashMap<i32, BTreeSet<OsString>>,
}

impl Events {
    /// Creates the descriptor, without watches.
    ///
    /// # Errors
    /// Fails if the user has too many descriptors of this kind, or the process too many files.
    pub(super) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { inotify, watches: HashMap::new() })
    }

    /// Watches exactly these places from now on. Changes before this call may have no event.
    ///
    /// # Errors
    /// Returns the first error. The other places are watched nevertheless.
    pub(super) fn follow(&mut self, places: &Places) -> io::Result<()> {
        let (mut watches, mut result) = (HashMap::new(), Ok(()));
        for (directory, names) in places {
            let flags = if names.is_empty() { SELF } else { SELF.union(NAMES) };
            match inotify::add_watch(&self.inotify, directory, flags | WatchFlags::ONLYDIR) {
                Ok(watch) => {
                    let known: &mut BTreeSet<_> = watches.entry(watch).or_default();
                    known.extend(names.iter().cloned());
                }
                // It was removed since the places were determined, which causes another event.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                // A directory that may be passed but not listed, such as /etc/ssl/private of
                // Debian. Its files can be watched.
                Err(Errno::ACCESS) => {
                    for watch in names.iter().filter_map(|name| self.file(directory, name)) {
                        watches.insert(watch, BTreeSet::new());
                    }
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        for watch in self.watches.keys().filter(|watch| !watches.contains_key(watch)) {
            // Fails if the directory is gone, which has already removed the watch.
            let _ = inotify::remove_watch(&self.inotify, *watch);
        }
        self.watches = watches;
        result
    }

    /// Watches a file instead of its directory, if possible.
    fn file(&self, directory: &Path, name: &OsStr) -> Option<i32> {
        let flags = SELF | WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
        inotify::add_watch(&self.inotify, directory.join(name), flags).ok()
    }

    /// Takes all events that have occurred. Returns true if one of them may concern a watched file.
    pub(super) fn take(&mut self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut concerns = false;
        // Bounded, because other files in the same directories may change all the time.
        for _ in 0..EVENTS_MAX {
            let Ok(event) = reader.next() else { break };
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            concerns |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                || self
                    .watches
                    .get(&event.wd())
                    .is_some_and(|names| name.is_none_or(|name| names.contains(name)));
        }
        concerns
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// The directory itself is moved or removed.
const SELF: WatchFlags = WatchFlags::MOVE_SELF.union(WatchFlags::DELETE_SELF);

/// A name in the directory appears or disappears, or its file was written or has other permissions.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB);

const BUFFER_BYTES: usize = 4096;

/// How many events are taken at a time.
const EVENTS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::places::places;
    use super::*;

    #[test]
    fn only_events_of_the_names_on_the_way_concern_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let path = root.join("a/file");
        let mut events = Events::new().unwrap();
        let follow = |events: &mut Events| events.follow(&places([&path])).unwrap();
        follow(&mut events);
        assert!(!events.take());
        fs::write(root.join("other"), "").unwrap();
        assert!(!events.take(), "another name");
        for (what, change) in [
            ("the directory appears", (|root| fs::create_dir(root.join("a"))) as fn(&Path) -> _),
            ("the file appears", |root| fs::write(root.join("a/file"), "1")),
            ("it is written", |root| fs::write(root.join("a/file"), "2")),
            ("another replaces it", |root| {
                fs::write(root.join("a/new"), "3")?;
                fs::rename(root.join("a/new"), root.join("a/file"))
            }),
            ("it is removed", |root| fs::remove_file(root.join("a/file"))),
            ("the directory leaves", |root| fs::rename(root.join("a"), root.join("b"))),
            ("the directory returns", |root| fs::rename(root.join("b"), root.join("a"))),
        ] {
            change(&root).unwrap();
            assert!(events.take(), "{what}");
            follow(&mut events);
            assert!(!events.take(), "the new watches cause no events: {what}");
        }
    }
}
