//! Permissions of the process, without using them.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::thread::{CapabilitySet, capabilities};

/// Checks that the process may write a file, or create files in a directory.
///
/// # Errors
/// Returns the error of the system, such as a file that does not exist, or a file system that is
/// mounted read-only.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    let access = match fs::metadata(path)?.is_dir() {
        true => Access::WRITE_OK | Access::EXEC_OK,
        false => Access::READ_OK | Access::WRITE_OK,
    };
    Ok(accessat(CWD, path, access, AtFlags::EACCESS)?)
}

/// True if the process may listen on a port.
pub(super) fn may_bind(port: u16) -> bool {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first = first.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
    let may_bind_all = || {
        let held = capabilities(None).map(|held| held.effective);
        held.is_ok_and(|held| held.contains(CapabilitySet::NET_BIND_SERVICE))
    };
    port == 0 || port >= first || may_bind_all()
}
