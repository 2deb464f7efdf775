//! Notifies systemd of the server's state if the unit requests that with `Type=notify`.
//!
//! The crate sd-notify does not fit: it opens a socket for each notification, and only by path. But
//! after `-o drop_privileges` the process may not open sockets, and systemd may use an abstract
//! socket.

use std::env;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::clock::monotonic_us;
use crate::log;

/// The service manager of the process, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Supervisor(Option<UnixDatagram>);

impl Supervisor {
    /// Connects to the service manager that the environment names. Called before the process loses
    /// the permission to open sockets.
    pub(crate) fn find() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else {
            return Self(None);
        };
        let connected = connect(name.as_bytes());
        let said = |error: &io::Error| {
            let name = name.display();
            log::warn(format_args!(
                "larderd: cannot notify systemd via NOTIFY_SOCKET={name}: {error}"
            ));
        };
        Self(connected.inspect_err(said).ok())
    }

    /// Returns a second handle for another thread.
    ///
    /// # Errors
    /// Fails if no file descriptors are left.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.as_ref().map(UnixDatagram::try_clone).transpose().map(Self)
    }

    /// Reports that the sockets respond while the cache opens, so that the service manager does not
    /// assume that the start hangs.
    pub(crate) fn notify_recovering(&self, percent: u8) {
        self.notify(format_args!("READY=1\nSTATUS=recovering ({percent} %)"));
    }

    /// Reports that the cache is open after [`Self::notify_recovering`].
    pub(crate) fn notify_serving(&self) {
        self.notify(format_args!("STATUS=serving"));
    }

    /// Reports that the server serves.
    pub(crate) fn notify_ready(&self) {
        self.notify(format_args!("READY=1"));
    }

    /// Reports that the server reads files again or starts its successor. [`Self::notify_ready`]
    /// ends this state.
    pub(crate) fn notify_reloading(&self) {
        self.notify(format_args!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
    }

    /// Reports that a successor process has taken over.
    pub(crate) fn notify_successor(&self, pid: u32) {
        self.notify(format_args!("MAINPID={pid}\nREADY=1"));
    }

    /// Reports that the server ends.
    pub(crate) fn notify_stopping(&self) {
        self.notify(format_args!("STOPPING=1"));
    }

    fn notify(&self, words: fmt::Arguments<'_>) {
        if let Some(socket) = &self.0 {
            // Fails if the service manager no longer listens.
            let _ = socket.send(words.to_string().as_bytes());
        }
    }
}

fn connect(name: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    let address = match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    socket.connect_addr(&address)?;
    // A service manager that hangs must not block the server.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_reach_a_path_and_an_abstract_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("larder-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (address, name) in [
            (SocketAddr::from_pathname(&path).unwrap(), path.as_os_str().as_bytes()),
            (abstract_address, format!("@{name}").as_bytes()),
        ] {
            let listener = UnixDatagram::bind_addr(&address).unwrap();
            let supervisor = Supervisor(Some(connect(name).unwrap()));
            supervisor.notify_successor(7);
            let mut words = [0; 100];
            let bytes = listener.recv(&mut words).unwrap();
            assert_eq!(&words[..bytes], b"MAINPID=7\nREADY=1");
        }
        assert!(connect(b"/nothing/there").is_err());
        Supervisor::default().notify_ready();
    }
}
