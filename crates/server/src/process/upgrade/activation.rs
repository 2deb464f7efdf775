//! Sockets that systemd has opened, by its convention: descriptors from 3 on, which environment variables tell of.

use std::env;
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::process;

use nix::libc::O_CLOEXEC;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::close;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::process::failure::{EXIT_OS, Failure};
use crate::process::upgrade::handed::Handed;
use crate::process::upgrade::handover;

/// The variables, which are for one process alone.
pub(crate) const VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// Is there anything for this process?
pub(crate) fn is_meant() -> bool {
    let pid = env::var("LISTEN_PID").ok().and_then(|pid| pid.parse().ok());
    pid == Some(process::id()) && env::var_os("LISTEN_FDS").is_some()
}

/// Takes the sockets, of which there may be none. To be called once, at the start.
///
/// # Errors
/// The variables are not as they should be, or there is no such descriptor.
pub(crate) fn take() -> Result<Vec<Handed>, Failure> {
    if !is_meant() {
        return Ok(Vec::new());
    }
    let count = env::var("LISTEN_FDS").unwrap_or_default();
    let Some(count) = count.parse().ok().filter(|count| (0..=COUNT_MAX).contains(count)) else {
        let message = format_args!(
            "LISTEN_FDS={count}: it has to be a number of sockets, at most {COUNT_MAX}"
        );
        return Err(Failure::new(EXIT_OS, message));
    };
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').filter(|name| !name.is_empty());
    let handed = (FIRST..FIRST + count).map(|number| {
        let name = match names.next() {
            Some(name) => format!("socket {number} ({name}) from systemd"),
            None => format!("socket {number} from systemd"),
        };
        match own(number) {
            Ok(descriptor) => Ok(Handed { descriptor, name }),
            Err(error) => {
                Err(Failure::new(EXIT_OS, format_args!("cannot listen on {name}: {error}")))
            }
        }
    });
    handed.collect()
}

/// Makes a number a descriptor that this process owns: sent from here to here, it is another one, and the first is
/// closed.
fn own(number: RawFd) -> io::Result<OwnedFd> {
    if !is_inherited(number) {
        return Err(io::Error::other("there is no such descriptor"));
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

/// Was it open already when the process began? What the process opens itself is all marked to be closed when another
/// program is executed, and what is inherited cannot be.
fn is_inherited(number: RawFd) -> bool {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_CLOEXEC == 0)
}

/// The number of the first descriptor.
const FIRST: RawFd = 3;

/// More than anybody has.
const COUNT_MAX: RawFd = 1024;
