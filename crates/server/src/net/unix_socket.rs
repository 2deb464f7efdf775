//! Listening on the path of a unix socket.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{self, Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use larder_options::{AdminAddress, Options};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::process::{geteuid, umask};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::failure::{EXIT_USAGE, Failure};

/// The reason why a path cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnixSocketError {
    /// A process listens there.
    #[error("a process listens there: stop it, or choose another path")]
    Live,
    /// Whether a process listens there cannot be found out.
    #[error(
        "a socket is there, and connecting to it fails with an unexpected error: {0}; remove it if no process listens there"
    )]
    Unknown(io::Error),
    /// The path names another file.
    #[error("the file there is not a socket: remove it, or choose another path")]
    NotASocket,
    /// The socket belongs to another user.
    #[error(
        "the socket there belongs to user {owner}, and this process runs as user {ours}: remove it if no process listens there, or choose another path"
    )]
    Foreign { owner: u32, ours: u32 },
    /// The system refuses.
    #[error("{0}{remedy}", remedy = crate::net::sockets::remedy(.0))]
    System(#[from] io::Error),
}

/// Listens on a path. Removes a stale socket of an earlier run: one that belongs to this user, and
/// on which no process listens. Any other file stays and is an error.
///
/// If several processes start on the same path together, one of them succeeds. The others fail with
/// [`UnixSocketError::Live`].
pub(crate) fn listen(path: &Path, mode: u32, backlog: i32) -> Result<OwnedFd, UnixSocketError> {
    let address = SockAddr::unix(path)?;
    // Without the lock, this process could remove the socket of another one that has started after
    // the look.
    let _lock = lock_folder(path);
    if is_stale(path, &address)? {
        fs::remove_file(path)?;
    }
    bind(&address, mode, backlog)
}

/// Same as [`listen`], but replaces any socket, also one of another user or on which a process
/// listens, as memcached does with `-s`. That process keeps its connections and receives no new
/// ones.
pub(crate) fn take_over(path: &Path, mode: u32, backlog: i32) -> Result<OwnedFd, UnixSocketError> {
    let address = SockAddr::unix(path)?;
    let _lock = lock_folder(path);
    if is_socket(path)? {
        fs::remove_file(path)?;
    }
    bind(&address, mode, backlog)
}

fn bind(address: &SockAddr, mode: u32, backlog: i32) -> Result<OwnedFd, UnixSocketError> {
    let socket = new_socket()?;
    // The permissions must be right from the moment the path exists, and a client that finds the
    // path may connect immediately. So nothing happens between bind and listen.
    let before = umask(Mode::from_raw_mode(!mode & 0o777));
    let listens = socket.bind(address).and_then(|()| socket.listen(backlog));
    umask(before);
    listens?;
    Ok(socket.into())
}

fn new_socket() -> io::Result<Socket> {
    Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)
}

/// Checks that a process of this user could listen on a path. Changes nothing.
///
/// # Errors
/// Same as [`listen`].
pub(crate) fn check(path: &Path) -> Result<(), UnixSocketError> {
    is_stale(path, &SockAddr::unix(path)?).map(drop)
}

/// Checks that a process of this user could take a path over. Changes nothing.
///
/// # Errors
/// Same as [`take_over`].
pub(crate) fn check_take_over(path: &Path) -> Result<(), UnixSocketError> {
    // Fails if the path is too long.
    SockAddr::unix(path)?;
    is_socket(path).map(drop)
}

/// True if a socket is at the path, false if nothing is.
fn is_socket(path: &Path) -> Result<bool, UnixSocketError> {
    Ok(socket_at(path)?.is_some())
}

/// Returns the socket at a path.
fn socket_at(path: &Path) -> Result<Option<fs::Metadata>, UnixSocketError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(Some(found)),
        Ok(_) => Err(UnixSocketError::NotASocket),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// True if a stale socket is at the path, false if nothing is.
fn is_stale(path: &Path, address: &SockAddr) -> Result<bool, UnixSocketError> {
    let Some(found) = socket_at(path)? else { return Ok(false) };
    let (owner, ours) = (found.uid(), geteuid().as_raw());
    match new_socket()?.connect(address) {
        // If a process listens but its queue of connections is full, the attempt would have to
        // wait, which also shows that the socket is not stale.
        Ok(()) => return Err(UnixSocketError::Live),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => {}
            io::ErrorKind::WouldBlock => return Err(UnixSocketError::Live),
            // The process that listened has just removed it.
            io::ErrorKind::NotFound => return Ok(false),
            // Only some users may connect to the socket.
            io::ErrorKind::PermissionDenied if owner != ours => {}
            _ => return Err(UnixSocketError::Unknown(error)),
        },
    }
    if owner != ours {
        return Err(UnixSocketError::Foreign { owner, ours });
    }
    Ok(true)
}

/// Locks the directory of a path against other larderds that start there. Waits for a bounded time.
/// `None` if the lock is not available; the start then continues without it.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = File::open(folder_of(path)).ok()?;
    for _ in 0..LOCK_TRIES {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(rustix::io::Errno::AGAIN) => sleep(LOCK_PAUSE),
            Err(_) => return None,
        }
    }
    None
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Returns a spelling of a path that is the same for all paths of the same socket. Resolves the
/// symbolic links of its directory.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let folder = fs::canonicalize(folder_of(path));
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// Checks that all unix sockets of the options have different paths. The options compare the texts;
/// this compares the directories to which they lead.
///
/// # Errors
/// Names a path that two listeners share.
pub(crate) fn check_distinct(options: &Options) -> Result<(), Failure> {
    let admin = options.admin_listen.iter().filter_map(|at| match &at.address {
        AdminAddress::Unix { path, .. } => Some(path.clone()),
        AdminAddress::Tcp { .. } => None,
    });
    let mut known = HashMap::new();
    for path in options.unix_addresses().into_iter().map(|at| at.path).chain(admin) {
        if let Some(other) = known.insert(resolved(&path), path.clone()) {
            let (path, other) = (path.display(), other.display());
            let message = format_args!(
                "two listeners have the same path, {other} and {path}: choose another one"
            );
            return Err(Failure::new(EXIT_USAGE, message));
        }
    }
    Ok(())
}

/// How long another process can delay the start: it holds the lock only for some system calls.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    #[test]
    fn a_socket_in_use_is_taken_over_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = listen(&path, 0o600, 5).unwrap();
        check_take_over(&path).unwrap();
        let second = take_over(&path, 0o640, 5).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        drop(first);
        UnixStream::connect(&path).expect("the second one listens");
        drop(second);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "kept").unwrap();
        for error in [take_over(&path, 0o600, 5).unwrap_err(), check_take_over(&path).unwrap_err()]
        {
            assert!(error.to_string().contains("not a socket"), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let error = |path: &Path| listen(path, 0o600, 5).unwrap_err().to_string();
        let first = listen(&path, 0o640, 5).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(error(&path).starts_with("a process listens there"), "{}", error(&path));
        UnixStream::connect(&path).expect("the refused start has not removed it");
        drop(first);
        let second = listen(&path, 0o600, 0).expect("the socket is stale");
        // The queue is full, so a look at the socket would have to wait.
        let waiting: Vec<_> = (0..2).map_while(|_| new_socket().ok()).collect();
        let address = SockAddr::unix(&path).unwrap();
        waiting.iter().for_each(|socket| drop(socket.connect(&address)));
        assert!(error(&path).starts_with("a process listens there"), "{}", error(&path));
        drop(second);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "kept").unwrap();
        assert!(error(&path).contains("not a socket"), "{}", error(&path));
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        let link = folder.path().join("link");
        symlink(folder.path().join("nothing"), &link).unwrap();
        assert!(error(&link).contains("not a socket"), "{}", error(&link));
        let datagrams = folder.path().join("datagrams");
        let _datagrams = UnixDatagram::bind(&datagrams).unwrap();
        assert!(error(&datagrams).contains("unexpected error"), "{}", error(&datagrams));
        assert!(datagrams.exists());
        let missing = folder.path().join("missing/socket");
        assert!(error(&missing).contains("create the directory"), "{}", error(&missing));
    }

    #[test]
    fn of_many_starts_on_a_stale_socket_one_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..20 {
            let opened: Vec<_> = std::thread::scope(|scope| {
                let starts = [(); 4].map(|()| scope.spawn(|| listen(&path, 0o600, 5)));
                starts.into_iter().filter_map(|start| start.join().unwrap().ok()).collect()
            });
            assert_eq!(opened.len(), 1, "a start has removed the socket of another one");
            UnixStream::connect(&path).expect("the socket that is left at the path is served");
        }
    }

    #[test]
    fn two_spellings_of_a_path_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        fs::create_dir(&real).unwrap();
        symlink(&real, folder.path().join("link")).unwrap();
        let same = ["real/socket", "link/socket", "link/../real/./socket"];
        let all = same.map(|name| resolved(&folder.path().join(name)));
        assert!(all.iter().all(|path| *path == all[0]), "{all:?}");
        assert_ne!(resolved(&real.join("other")), all[0]);
        assert_eq!(resolved(Path::new("here")), resolved(Path::new("./here")));
    }
}
