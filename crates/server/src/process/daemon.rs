//! Running in the background (`-d`).
//!
//! The process starts its program again as a new process, waits until that process serves or fails,
//! and exits. The new process leaves the terminal's session. A fork would not need to start the
//! program a second time, but it is unsafe in a process that has threads.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use larder_options::Options;
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::failure::{EXIT_OS, EXIT_USAGE, Failure};
use crate::process::upgrade::{activation, handover};

/// True if this is the background process, or the successor of a process, which is already
/// detached.
pub(crate) fn is_detached() -> bool {
    env::var_os(MARK).is_some() || handover::is_successor()
}

/// Starts the background process. The caller can exit once it serves.
pub(crate) fn start() -> Result<(), Failure> {
    if activation::is_meant() {
        let message = "option -d: sockets from systemd belong to this process and cannot pass to \
                       the background: leave -d out";
        return Err(Failure::new(EXIT_USAGE, message));
    }
    let failure = |error: io::Error| {
        Failure::new(EXIT_OS, format_args!("option -d: cannot start in the background: {error}"))
    };
    let mut words = env::args_os();
    let mut command = Command::new(env::current_exe().map_err(failure)?);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).env(MARK, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failure)?;
    let mut notification = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut notification).map_err(failure)?;
    }
    if notification == READY {
        return Ok(());
    }
    // The background process has written the error to the shared standard error.
    let status = child.wait().map_err(failure)?;
    let exit_code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_OS);
    Err(Failure::new(exit_code, "option -d: the server did not start; its error is above"))
}

/// The background process after it has left its terminal. Its standard input and output are still
/// open.
#[derive(Debug)]
pub(crate) struct DetachedProcess {
    /// Opened early, because the process may later lose the permission to open files for writing.
    null: File,
}

/// Leaves the terminal's session and, unless core files are enabled, its directory.
pub(crate) fn leave_session(options: &Options) -> Result<DetachedProcess, Failure> {
    // Fails only for a session leader, which is already in a separate session.
    let _ = setsid();
    if !options.core_dumps {
        // If this fails, the file system of the current directory stays in use.
        let _ = env::set_current_dir("/");
    }
    let null = File::options().read(true).write(true).open("/dev/null").map_err(cannot_leave)?;
    Ok(DetachedProcess { null })
}

impl DetachedProcess {
    /// Notifies the waiting process that this one serves, and closes standard input and output.
    /// Standard error stays open if `-v` writes to it.
    pub(crate) fn notify_ready(self, options: &Options) -> Result<(), Failure> {
        io::stdout().write_all(READY.as_bytes()).map_err(cannot_leave)?;
        io::stdout().flush().map_err(cannot_leave)?;
        dup2_stdin(&self.null).map_err(|error| cannot_leave(error.into()))?;
        dup2_stdout(&self.null).map_err(|error| cannot_leave(error.into()))?;
        if options.verbosity == 0 {
            dup2_stderr(&self.null).map_err(|error| cannot_leave(error.into()))?;
        }
        Ok(())
    }
}

fn cannot_leave(error: io::Error) -> Failure {
    Failure::new(EXIT_OS, format_args!("option -d: cannot leave the terminal: {error}"))
}

/// The variable that marks the background process.
const MARK: &str = "LARDERD_DETACHED";

/// The message that tells the waiting process that this one serves.
const READY: &str = "ready\n";
