//! A process that kills a server when this process ends, even if this process was killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A shell that reads a pipe from this process. The kernel closes the pipe when this process ends.
/// Dropping the watchdog ends the shell.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Starts a watchdog that kills a child of this process and removes the folder when this
    /// process ends. The caller must drop the watchdog before it waits for the child. Otherwise the
    /// kernel could reuse the child's pid, and the watchdog could kill another process.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub(crate) fn start(server_pid: u32, folder: &Path) -> Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WATCH, "watchdog", &server_pid.to_string()]).arg(folder);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(shell.spawn().context("starting /bin/sh")?))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The shell must be killed before its pipe is closed, because it treats the end of the pipe
        // as the end of this process. The only possible error is that the shell has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The shell ignores the signals that a terminal sends to the process group; the watched process
/// handles them.
const WATCH: &str = "trap '' INT TERM HUP QUIT; read -r _; kill -KILL \"$1\"; rm -rf -- \"$2\"";
