//! Local readers: decides which processes may read the cache's memory directly, and sends them its
//! descriptor.
//!
//! A local reader is a process on this machine that reads items in the server's memory instead of
//! sending requests. It receives a read-only descriptor of memory whose length is sealed. So it
//! cannot truncate the memory, and it holds no lock that another process waits for. The memory's
//! mode permits only the server's user to open it again for writing.

use std::fs;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use larder::{Cache, REGION_FORMAT};
use larder_options::{LocalReaders, Options};
use larder_protocol::local::Region;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Group;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::geteuid;

use crate::log;

/// Readers report one out of this many reads.
pub(crate) const READS_PER_HINT: u32 = 2;

/// The permitted readers, and the data that they receive.
#[derive(Debug)]
pub(crate) struct Readers {
    who: Who,
    unmapped: UnmappedIds,
    /// The cache's memory, opened read-only.
    file: File,
    /// The line that is sent with the descriptor.
    line: Vec<u8>,
}

/// The users who may be local readers, as set by `--local-readers`.
#[derive(Clone, Copy, Debug)]
enum Who {
    User(u32),
    Group(u32),
    Any,
}

/// The user id and group id that the kernel reports for ids without a mapping in this user
/// namespace.
#[derive(Clone, Copy, Debug)]
struct UnmappedIds {
    user: u32,
    group: u32,
}

impl UnmappedIds {
    fn read() -> Self {
        let number = |name: &str| {
            let path = format!("/proc/sys/kernel/{name}");
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().parse().unwrap_or(UNMAPPED_DEFAULT)
        };
        Self { user: number("overflowuid"), group: number("overflowgid") }
    }
}

/// The kernel's default.
const UNMAPPED_DEFAULT: u32 = 65534;

/// Checks that the group of `--local-readers` exists.
///
/// # Errors
/// Same as [`Readers::new`].
pub(crate) fn check(options: &Options) -> Result<(), ReadersError> {
    Who::of(options).map(|_| ())
}

impl Who {
    /// Returns the readers that the options permit; `None` if they permit none.
    fn of(options: &Options) -> Result<Option<Self>, ReadersError> {
        Ok(Some(match &options.local_readers {
            _ if !options.has_readers() => return Ok(None),
            LocalReaders::Off => return Ok(None),
            LocalReaders::SameUser => Self::User(geteuid().as_raw()),
            LocalReaders::Any => Self::Any,
            LocalReaders::Group(name) => match Group::from_name(name) {
                Ok(Some(group)) => Self::Group(group.gid.as_raw()),
                Ok(None) => return Err(ReadersError::NoGroup(name.clone())),
                Err(error) => return Err(ReadersError::Groups(name.clone(), error)),
            },
        }))
    }

    /// True if a peer with this user and these groups may read. An id that stands for all unmapped
    /// ids never matches the server's.
    fn admits(self, user: u32, groups: &[u32], unmapped: UnmappedIds) -> bool {
        match self {
            Self::User(ours) => user == ours && user != unmapped.user,
            Self::Group(ours) => groups.contains(&ours) && ours != unmapped.group,
            Self::Any => true,
        }
    }
}

/// The reason why local readers cannot be admitted.
#[derive(Debug, thiserror::Error)]
pub enum ReadersError {
    /// The group does not exist.
    #[error("option --local-readers: the group {0:?} does not exist; name another, or create it")]
    NoGroup(String),
    /// The system cannot look up the groups.
    #[error("option --local-readers: cannot look up the group {0:?}: {1}")]
    Groups(String, nix::Error),
    /// The memory cannot be opened again.
    #[error("option --local-readers: the cache's memory cannot be opened for readers: {0}")]
    Memory(io::Error),
}

impl Readers {
    /// Creates the readers that the options permit; `None` if they permit none. The cache must be
    /// inheritable.
    pub(crate) fn new(options: &Options, cache: &Cache) -> Result<Option<Self>, ReadersError> {
        let Some(who) = Who::of(options)? else { return Ok(None) };
        let Some(shared) = cache.reading_file() else { return Ok(None) };
        // Opened again: with a duplicate of the writable descriptor, readers could write to a
        // memory file.
        let file = File::open(format!("/proc/self/fd/{}", shared.as_raw_fd()))
            .map_err(ReadersError::Memory)?;
        let region = Region {
            identity: cache.identity().0,
            bytes: file.metadata().map_err(ReadersError::Memory)?.len(),
            format: REGION_FORMAT,
            reads_per_hint: READS_PER_HINT,
        };
        let unmapped = UnmappedIds::read();
        let is_unmapped = match who {
            Who::User(user) => user == unmapped.user,
            Who::Group(group) => group == unmapped.group,
            Who::Any => false,
        };
        if is_unmapped {
            log::warn(format_args!(
                "larderd: option --local-readers: no process may read, because the id of this user \
                 or group stands for all ids without a mapping here; run larderd as another user, \
                 or name another group"
            ));
        }
        Ok(Some(Self { who, unmapped, file, line: region.line() }))
    }

    /// True if the peer of this unix socket may read. Its credentials at the time of the connect
    /// decide.
    pub(crate) fn admits(&self, socket: &impl AsFd) -> bool {
        // nix, because rustix has no process id of 0. The kernel reports 0 for a process that this
        // one cannot see, as in another container.
        let Ok(peer) = getsockopt(socket, PeerCredentials) else { return false };
        let mut groups = match self.who {
            Who::Group(_) => larder::peer_groups(socket).unwrap_or_default(),
            Who::User(_) | Who::Any => Vec::new(),
        };
        groups.push(peer.gid());
        self.who.admits(peer.uid(), &groups, self.unmapped)
    }

    /// Sends the descriptor with its line. Returns how many bytes were sent: either all of them or
    /// an error.
    pub(crate) fn pass(&self, socket: &impl AsFd) -> rustix::io::Result<usize> {
        let descriptors = [self.file.as_fd()];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(socket, &[IoSlice::new(&self.line)], &mut ancillary, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapped_users_and_groups_do_not_match_the_servers() {
        let unmapped = UnmappedIds { user: 65534, group: 65533 };
        let cases = [
            (Who::User(1000), 1000, vec![1], true),
            (Who::User(1000), 1001, vec![1000], false),
            (Who::User(65534), 65534, vec![1], false),
            (Who::User(65533), 65533, vec![1], true),
            (Who::Group(7), 1000, vec![1, 7], true),
            (Who::Group(7), 7, vec![1], false),
            (Who::Group(65533), 1000, vec![65533], false),
            (Who::Any, 65534, vec![65533], true),
        ];
        for (who, user, groups, admitted) in cases {
            assert_eq!(who.admits(user, &groups, unmapped), admitted, "{who:?} {user} {groups:?}");
        }
    }
}
