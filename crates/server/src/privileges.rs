//! Which user the process runs as.

use nix::unistd::{User, geteuid, setgid, setgroups, setuid};

use crate::failure::{EXIT_NO_USER, EXIT_OS, EXIT_USAGE, Failure};

/// Becomes the user that was named, for good. Only root can, and root must.
pub(crate) fn drop_root(user: Option<&str>) -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let Some(name) = user else {
        let message = "cannot run as root without option -u: name a user, or root itself";
        return Err(Failure::new(EXIT_USAGE, message));
    };
    let found = User::from_name(name).map_err(|error| cannot_become(name, error))?;
    let Some(user) = found else {
        let message = format_args!("option -u: there is no user {name:?} to run as");
        return Err(Failure::new(EXIT_NO_USER, message));
    };
    if user.uid.is_root() {
        return Ok(());
    }
    setgroups(&[])
        .and_then(|()| setgid(user.gid))
        .and_then(|()| setuid(user.uid))
        .map_err(|error| cannot_become(name, error))
}

fn cannot_become(name: &str, error: nix::Error) -> Failure {
    Failure::new(EXIT_OS, format_args!("option -u: cannot become user {name:?}: {error}"))
}
