//! The groups of a process that has connected to a unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Returns the supplementary groups that the peer of a unix socket had when it connected, by
/// number. The primary group is included only if it is also a supplementary group; `SO_PEERCRED`
/// reports it.
///
/// # Errors
/// The system's error: the descriptor is not a unix socket, or the kernel is older than Linux 4.13.
///
/// # Examples
/// ```
/// use std::os::unix::net::UnixStream;
///
/// # if cfg!(miri) { return Ok(()); }
/// let (one, _other) = UnixStream::pair()?;
/// larder_region::peer_groups(&one)?;
/// assert!(larder_region::peer_groups(&std::fs::File::open("/dev/null")?).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn peer_groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    /// Largest number of groups that a process can have.
    const GROUPS_MAX: usize = 65_536;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
        // SAFETY: the system writes at most `bytes` bytes to the vector, whose capacity is `bytes`,
        // and stores the number of bytes that it wrote or would have written in `bytes`. The
        // descriptor is borrowed, so it is open.
        let outcome = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<libc::gid_t>();
        if outcome == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        let is_short = error.raw_os_error() == Some(libc::ERANGE);
        if !is_short || count <= groups.len() || count > GROUPS_MAX {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}
