//! The column of the command table for a near cache: where each command is executed.

use larder_protocol::{Command, Fetch, Frame};

/// Where a near cache executes a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the near cache itself: the command concerns the process, not items of the origin.
    Local,
    /// By a copy, otherwise by fetching the item: a plain read.
    Read,
    /// By the origin of its key.
    Origin,
    /// By the origin, and it concerns all keys.
    Everything,
}

impl Way {
    /// Returns where a command is executed.
    pub(crate) fn of(command: &Command<'_>, frame: &Frame<'_>) -> Self {
        match command {
            Command::Get { exptime: None, .. } => Self::Read,
            Command::Fetch(fetch) if is_plain(fetch, frame) => Self::Read,
            Command::Get { exptime: Some(_), .. }
            | Command::Fetch(_)
            | Command::LeaseGet { .. }
            | Command::Inspect { .. }
            | Command::Store(_)
            | Command::Delete(_)
            | Command::Arithmetic(_)
            | Command::Touch { .. } => Self::Origin,
            Command::FlushAll { .. } | Command::DeletePrefix { .. } => Self::Everything,
            Command::EndOfKeys
            | Command::NoOp
            | Command::Version
            | Command::Config { .. }
            | Command::Verbosity { .. }
            | Command::Stats(_)
            | Command::Mechanisms
            | Command::Authenticate { .. }
            | Command::Quit
            | Command::RefreshCertificates
            | Command::Shutdown { .. }
            | Command::MemoryLimit { .. }
            | Command::Follow { .. }
            | Command::Follower { .. }
            | Command::Copy(_)
            | Command::Warm(_)
            | Command::Region
            | Command::NoteReads { .. }
            | Command::Name { .. }
            | Command::Kill(_)
            | Command::Admin(_) => Self::Local,
        }
    }
}

/// True if a copy answers the fetch exactly like the item. The time since the last access and
/// whether there was one (`h`, `l`) are known to the origin only.
fn is_plain(fetch: &Fetch<'_>, frame: &Frame<'_>) -> bool {
    let Frame::Meta(frame) = frame else { return false };
    let is_known = |word: &[u8]| word.first().is_none_or(|letter| b"bcfkOqstuv".contains(letter));
    fetch.exptime.is_none()
        && fetch.vivify.is_none()
        && fetch.recache.is_none()
        && fetch.known_cas.is_none()
        && fetch.version.is_none()
        && frame.flags.split(|byte| *byte == b' ').all(is_known)
}
