//! How this process was started, so that it can be started again.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of the binary, the arguments and the directory.
#[derive(Debug)]
pub(crate) struct Program {
    path: io::Result<PathBuf>,
    /// The name by which the program was called, and its arguments.
    words: Vec<OsString>,
    /// The working directory.
    folder: Option<PathBuf>,
}

impl Program {
    /// Records how this process was started. Must be called first, because the directory and the
    /// file at the path may change later.
    pub(crate) fn remember() -> Self {
        let words: Vec<_> = env::args_os().collect();
        let folder = env::current_dir().ok();
        let path = path_of(words.first(), folder.as_deref());
        Self { path, words, folder }
    }

    /// Returns the path of the binary.
    ///
    /// # Errors
    /// Fails if the system cannot determine the path.
    pub(crate) fn path(&self) -> io::Result<&Path> {
        self.path.as_deref().map_err(|error| error.kind().into())
    }

    /// Returns the command that starts the file that is now at the path, in the way in which this
    /// process was started, with the current environment.
    ///
    /// # Errors
    /// Same as [`Self::path`].
    pub(crate) fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(self.path()?);
        if let [name, words @ ..] = &self.words[..] {
            command.arg0(name).args(words);
        }
        if let Some(folder) = self.folder.as_ref().filter(|folder| folder.is_dir()) {
            command.current_dir(folder);
        }
        Ok(command)
    }
}

/// Returns the path by which the binary was called. It may be a link that will later lead to
/// another binary. If the binary was not called by a path, returns the path that the system
/// reports.
fn path_of(name: Option<&OsString>, folder: Option<&Path>) -> io::Result<PathBuf> {
    let running = fs::metadata(RUNNING)?;
    let called = name.and_then(|name| called(name, folder, &running));
    called.map_or_else(|| fs::read_link(RUNNING).map(without_mark), Ok)
}

/// Returns the path to which a name resolves by a shell's rules, if it leads to the running binary.
fn called(name: &OsStr, folder: Option<&Path>, running: &Metadata) -> Option<PathBuf> {
    let is_running = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (running.dev(), running.ino()))
    };
    if name.as_bytes().contains(&b'/') {
        return Some(folder?.join(name)).filter(is_running);
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .filter(|path| path.is_absolute())
        .find(is_running)
}

/// Removes the mark that the system adds to the path of a deleted file.
fn without_mark(path: PathBuf) -> PathBuf {
    let mut bytes = path.into_os_string().into_vec();
    if bytes.ends_with(REMOVED) {
        bytes.truncate(bytes.len() - REMOVED.len());
    }
    OsString::from_vec(bytes).into()
}

const RUNNING: &str = "/proc/self/exe";
const REMOVED: &[u8] = b" (deleted)";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_by_which_it_was_called_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let itself = fs::read_link(RUNNING).unwrap();
        symlink(&itself, folder.path().join("link")).unwrap();
        let path = |name: &str| path_of(Some(&name.into()), Some(folder.path())).unwrap();
        assert_eq!(path("./link"), folder.path().join("./link"));
        assert_eq!(path(folder.path().join("link").to_str().unwrap()), folder.path().join("link"));
        // The name of another program, and a name of no program.
        assert_eq!(path("/bin/sh"), itself);
        assert_eq!(path("larderd-of-nobody"), itself);
        assert_eq!(path_of(None, None).unwrap(), itself);
    }

    #[test]
    fn the_path_of_a_removed_file_is_where_it_was() {
        assert_eq!(
            without_mark("/usr/bin/larderd (deleted)".into()),
            Path::new("/usr/bin/larderd")
        );
        assert_eq!(without_mark("/usr/bin/larderd".into()), Path::new("/usr/bin/larderd"));
    }
}
