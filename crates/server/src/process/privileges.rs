//! The user of the process, and its capabilities.

use larder_options::Options;
use nix::errno::Errno;
use nix::unistd::{User, geteuid, setgid, setgroups, setuid};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::failure::{EXIT_NO_USER, EXIT_OS, EXIT_USAGE, Failure};
use crate::log;

/// Switches to the named user permanently. Only root can do that, and root must.
pub(crate) fn drop_root(options: &Options) -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let Some(name) = options.user.as_deref() else {
        let message = "cannot run as root without option -u: give -u USER to run as that user, or -u root to \
                       stay root";
        return Err(Failure::new(EXIT_USAGE, message));
    };
    let found = User::from_name(name).map_err(|error| cannot_become(name, error))?;
    let Some(user) = found else {
        let message =
            format_args!("option -u: the user {name:?} does not exist; create it, or name another");
        return Err(Failure::new(EXIT_NO_USER, message));
    };
    if user.uid.is_root() {
        return Ok(());
    }
    let left_groups = match setgroups(&[]) {
        // A container without the permission to change groups has no supplementary groups to drop.
        Err(Errno::EPERM) => {
            log::warn(format_args!(
                "larderd: option -u: the supplementary groups of root are kept: {}",
                Errno::EPERM
            ));
            Ok(())
        }
        left_groups => left_groups,
    };
    left_groups
        .and_then(|()| setgid(user.gid))
        .and_then(|()| setuid(user.uid))
        .map_err(|error| cannot_become(name, error))?;
    if options.core_dumps {
        // By default the system writes no core file of a process that has changed its user.
        let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    }
    Ok(())
}

/// Drops every capability that serving does not need, in this thread and those that it will start.
/// Only memory locking stays, with `-k`.
pub(crate) fn drop_capabilities(options: &Options) -> Result<(), Failure> {
    let kept = if options.lock_memory { CapabilitySet::IPC_LOCK } else { CapabilitySet::empty() };
    let dropped = capabilities(None).and_then(|held| {
        let left = held.permitted & kept;
        let sets = CapabilitySets {
            effective: left,
            permitted: left,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets)
    });
    dropped.map_err(|error| {
        let message = format_args!("option -o drop_privileges: cannot drop capabilities: {error}");
        Failure::new(EXIT_OS, message)
    })
}

fn cannot_become(name: &str, error: nix::Error) -> Failure {
    Failure::new(EXIT_OS, format_args!("option -u: cannot become user {name:?}: {error}"))
}
