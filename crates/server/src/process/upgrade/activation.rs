//! Socket activation: sockets that systemd has opened and passes as descriptors from 3 on.
//! Environment variables describe them.

use std::env;
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::process;

use nix::libc::O_CLOEXEC;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::close;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::failure::{EXIT_OS, Failure};
use crate::process::upgrade::handover;
use crate::process::upgrade::inherited::InheritedSocket;

/// The variables, which are meant for one process only.
pub(crate) const VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// True if the variables are meant for this process.
pub(crate) fn is_meant() -> bool {
    let pid = env::var("LISTEN_PID").ok().and_then(|pid| pid.parse().ok());
    pid == Some(process::id()) && env::var_os("LISTEN_FDS").is_some()
}

/// Takes the sockets, possibly none. Called once, at the start.
///
/// # Errors
/// Fails if the variables are malformed, or if a descriptor does not exist.
pub(crate) fn take() -> Result<Vec<InheritedSocket>, Failure> {
    if !is_meant() {
        return Ok(Vec::new());
    }
    let count = env::var("LISTEN_FDS").unwrap_or_default();
    let Some(count) = count.parse().ok().filter(|count| (0..=COUNT_MAX).contains(count)) else {
        let message =
            format_args!("LISTEN_FDS={count}: expected a number of sockets, at most {COUNT_MAX}");
        return Err(Failure::new(EXIT_OS, message));
    };
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').filter(|name| !name.is_empty());
    let inherited = (FIRST..FIRST + count).map(|number| {
        let name = match names.next() {
            Some(name) => format!("socket {number} ({name}) from systemd"),
            None => format!("socket {number} from systemd"),
        };
        match own(number) {
            Ok(descriptor) => Ok(InheritedSocket { descriptor, name, words: None, is_given: true }),
            Err(error) => {
                Err(Failure::new(EXIT_OS, format_args!("cannot listen on {name}: {error}")))
            }
        }
    });
    inherited.collect()
}

/// Converts a descriptor number into an owned descriptor. The process sends the descriptor to
/// itself, which creates a new one, and closes the first.
fn own(number: RawFd) -> io::Result<OwnedFd> {
    if !is_inherited(number) {
        return Err(io::Error::other("the descriptor does not exist"));
    }
    let flags = SocketFlags::CLOEXEC;
    let (from, to) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let numbers = [number];
    let message = [ControlMessage::ScmRights(&numbers)];
    sendmsg::<()>(from.as_raw_fd(), &[IoSlice::new(b"1")], &message, MsgFlags::empty(), None)?;
    close(number)?;
    let (_, mut descriptors) = handover::receive_message(to.as_fd(), &mut [0])?;
    descriptors.pop().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// True if the descriptor was inherited. All descriptors that the process opens itself are marked
/// close-on-exec, and inherited ones cannot be.
fn is_inherited(number: RawFd) -> bool {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_CLOEXEC == 0)
}

/// The number of the first descriptor.
const FIRST: RawFd = 3;

/// More than any service manager passes.
const COUNT_MAX: RawFd = 1024;
