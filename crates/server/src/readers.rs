//! Who may read the cache's memory by himself, and how he gets it.
//!
//! The descriptor that is passed can only be read through: the memory of a cache that others read is sealed, and what is
//! passed was opened for reading. So a reader can neither write nor cut it off, and holds nothing that anybody waits for.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use larder::{Cache, REGION_FORMAT};
use larder_options::{LocalReaders, Options};
use larder_protocol::local::Region;
use nix::unistd::Group;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::socket_peercred,
};
use rustix::process::geteuid;

/// One read of so many is told.
pub(crate) const READS_PER_HINT: u32 = 2;

/// Who may read, and what he gets.
#[derive(Debug)]
pub(crate) struct Readers {
    who: Who,
    /// The cache's memory, open for reading.
    file: File,
    /// What is said with it.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    User(u32),
    Group(u32),
    Any,
}

/// Why nobody can read.
#[derive(Debug, thiserror::Error)]
pub enum ReadersError {
    /// There is no such group.
    #[error("option --local-readers: there is no group {0:?}; name another, or make it")]
    NoGroup(String),
    /// The system does not say.
    #[error("option --local-readers: the system does not say whether there is a group {0:?}: {1}")]
    Groups(String, nix::Error),
    /// The memory cannot be opened once more.
    #[error("option --local-readers: the cache's memory cannot be opened for readers: {0}")]
    Memory(io::Error),
}

impl Readers {
    /// Those that the options allow, if they do. The cache must have been opened for them.
    pub(crate) fn new(options: &Options, cache: &Cache) -> Result<Option<Self>, ReadersError> {
        let who = match &options.local_readers {
            _ if !options.has_readers() => return Ok(None),
            LocalReaders::Off => return Ok(None),
            LocalReaders::SameUser => Who::User(geteuid().as_raw()),
            LocalReaders::Any => Who::Any,
            LocalReaders::Group(name) => match Group::from_name(name) {
                Ok(Some(group)) => Who::Group(group.gid.as_raw()),
                Ok(None) => return Err(ReadersError::NoGroup(name.clone())),
                Err(error) => return Err(ReadersError::Groups(name.clone(), error)),
            },
        };
        let Some(shared) = cache.reading_file() else { return Ok(None) };
        // Not the descriptor itself: through one that is open for writing others could write to a file with a name.
        let file = File::open(format!("/proc/self/fd/{}", shared.as_raw_fd()))
            .map_err(ReadersError::Memory)?;
        let region = Region {
            identity: cache.identity().0,
            bytes: file.metadata().map_err(ReadersError::Memory)?.len(),
            format: REGION_FORMAT,
            reads_per_hint: READS_PER_HINT,
        };
        Ok(Some(Self { who, file, line: region.line() }))
    }

    /// May the peer of this unix socket read? What it was when it connected decides.
    pub(crate) fn admits(&self, socket: &impl AsFd) -> bool {
        let Ok(peer) = socket_peercred(socket) else { return false };
        match self.who {
            Who::User(user) => peer.uid.as_raw() == user,
            Who::Group(group) => {
                peer.gid.as_raw() == group
                    || larder::peer_groups(socket).is_ok_and(|groups| groups.contains(&group))
            }
            Who::Any => true,
        }
    }

    /// Sends the memory and what is said with it. Says how many bytes went: all or none.
    pub(crate) fn pass(&self, socket: &impl AsFd) -> rustix::io::Result<usize> {
        let descriptors = [self.file.as_fd()];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(socket, &[IoSlice::new(&self.line)], &mut ancillary, flags)
    }
}
