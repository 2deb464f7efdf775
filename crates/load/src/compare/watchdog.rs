//! A process that ends a server when this one is gone, however it went.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Waits for the end of a pipe to this process, which the system closes whatever ends it. Gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Watches over a child of this process, which must not be waited for while this lives: its number would be
    /// another's. The folder is removed with it.
    ///
    /// # Errors
    /// There is no shell, or no process can be started.
    pub(crate) fn start(server_pid: u32, folder: &Path) -> Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WATCH, "watchdog", &server_pid.to_string()]).arg(folder);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(shell.spawn().context("starting /bin/sh")?))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Before the pipe is closed. One that has ended cannot be killed, and that is all that can go wrong.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What a terminal sends to everybody is left to the one that is watched for.
const WATCH: &str = "trap '' INT TERM HUP QUIT; read -r _; kill -KILL \"$1\"; rm -rf -- \"$2\"";
