//! Starts a server for a comparison and ends it afterwards.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::address::Address;
use crate::argument::Quoted;
use crate::compare::watchdog::Watchdog;
use crate::connect::connect;
use crate::measure::pin::pin_this_thread;
use crate::measure::stop::Stop;

/// The name of a server and the command that starts it.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    command: String,
}

/// A folder of this process for sockets, logs and the servers' files. Dropping it removes the
/// folder.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

/// A running server. Dropping it kills the server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Kills the server when this process is killed and runs no destructors.
    watchdog: Option<Watchdog>,
    address: Address,
    log: PathBuf,
}

impl Contestant {
    /// Parses `NAME=COMMAND`.
    ///
    /// # Errors
    /// The text is not `NAME=COMMAND`. The message names the expected form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
        match (command.contains("@SOCK"), command.contains("@PORT")) {
            _ if name.is_empty() => Err("expected a name before =".to_owned()),
            (true, true) => {
                Err("the command has both @SOCK and @PORT, expected one of them".to_owned())
            }
            (false, false) => {
                Err("the command has neither @SOCK (the path of a Unix socket) nor @PORT"
                    .to_owned())
            }
            _ => Ok(Self { name: name.to_owned(), command: command.to_owned() }),
        }
    }

    /// Starts the server on the given processor and waits until it accepts connections.
    ///
    /// # Errors
    /// The server ends, or does not listen within ten seconds. The error quotes the server's
    /// output.
    pub(crate) fn start(
        &self,
        folder: &Folder,
        processor: Option<usize>,
        stop: &Stop,
    ) -> Result<Server> {
        let socket = folder.0.join("socket");
        // The previous server may have left its socket.
        fs::remove_file(&socket).ok();
        let address = match self.command.contains("@SOCK") {
            true => Address::Unix(socket.clone()),
            false => Address::Tcp { host: "127.0.0.1".to_owned(), port: free_port()? },
        };
        let mut command = self.command.replace("@SOCK", &socket.display().to_string());
        if command.contains("@DIR") {
            let files = folder.0.join("files");
            if files.exists() {
                fs::remove_dir_all(&files).context("removing the files of the previous server")?;
            }
            command = command.replace("@DIR", &files.display().to_string());
        }
        if let Address::Tcp { port, .. } = &address {
            command = command.replace("@PORT", &port.to_string());
        }
        let log = folder.0.join("log");
        let child = spawn(&command, &log, processor)?;
        let mut server = Server { child, watchdog: None, address, log };
        server.watchdog = Some(Watchdog::start(server.child.id(), &folder.0)?);
        server.wait_until_it_accepts(stop)?;
        Ok(server)
    }
}

/// Starts a command from a pinned thread, so that the command runs on the processor from its first
/// instruction.
fn spawn(command: &str, log: &Path, processor: Option<usize>) -> Result<Child> {
    let output = File::create(log)?;
    let errors = output.try_clone()?;
    let start = move || {
        if let Some(processor) = processor {
            pin_this_thread(processor)?;
        }
        // With `exec` the process that is measured and killed is the server and not its shell.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("exec {command}")]);
        shell.stdin(Stdio::null()).stdout(output).stderr(errors);
        shell.spawn().context("starting /bin/sh")
    };
    std::thread::scope(|scope| {
        scope.spawn(start).join().expect("the starting thread does not panic")
    })
}

impl Server {
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    fn wait_until_it_accepts(&mut self, stop: &Stop) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = connect(&self.address) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status} before it listened: {}", self.log());
            }
            ensure!(!stop.is_asked(), "stopped");
            ensure!(
                Instant::now() < deadline,
                "the server does not listen on {}: {error:#}: {}",
                self.address,
                self.log()
            );
            std::thread::sleep(START_POLL);
        }
        Ok(())
    }

    /// Returns the processor time of all threads of the server, in nanoseconds.
    ///
    /// # Errors
    /// The server has ended, or the kernel does not report its processor time.
    pub(crate) fn processor_ns(&self) -> Result<u64> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let mut sum_ns = 0;
        for task in fs::read_dir(&tasks).context("the server has ended")? {
            // A thread that the folder lists may end before its file is read.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let spent =
                text.split_ascii_whitespace().next().and_then(|word| word.parse::<u64>().ok());
            sum_ns += spent.unwrap_or(0);
        }
        ensure!(sum_ns > 0, "the kernel does not report the server's processor time (schedstat)");
        Ok(sum_ns)
    }

    /// Returns the last lines of the server's output.
    pub(crate) fn log(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
        format!("the server wrote: {}", Quoted::text(&shown.join("\n")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watchdog.take());
        // The only possible error is that the child has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Folder {
    /// Creates the folder.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("larder-compare-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

const START_TIMEOUT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(20);
const LOG_LINES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contestant_has_a_name_and_one_place_for_its_address() {
        let contestant = Contestant::parse("a=env X=1 server -s @SOCK").unwrap();
        assert_eq!((&*contestant.name, &*contestant.command), ("a", "env X=1 server -s @SOCK"));
        for bad in ["server -s @SOCK", "=server -s @SOCK", "a=server", "a=server @SOCK @PORT"] {
            assert!(Contestant::parse(bad).is_err(), "{bad:?}");
        }
    }

    /// Starts a contestant with this command and ends it again.
    fn started(command: &str) -> Result<String> {
        let contestant = Contestant::parse(&format!("a={command}")).unwrap();
        let folder = Folder(tempfile::tempdir()?.keep());
        let server = contestant.start(&folder, None, &Stop::default())?;
        Ok(server.address().to_string())
    }

    #[test]
    fn a_server_that_ends_is_an_error_with_its_last_lines() {
        let command = "sh -c 'for line in 1 2 3 4 5 6; do echo line $line; done; exit 3' @PORT";
        let words = format!("{:#}", started(command).unwrap_err());
        assert!(words.contains("ended with exit status: 3 before it listened"), "{words}");
        assert!(words.contains(r#"the server wrote: "line 2\nline 3"#), "{words}");
        assert!(!words.contains("line 1"), "only the last lines are shown: {words}");
    }

    #[test]
    fn a_command_that_does_not_exist_is_named_by_the_shell() {
        let words = format!("{:#}", started("/nowhere/server -s @SOCK").unwrap_err());
        assert!(words.contains("/nowhere/server"), "{words}");
    }

    #[test]
    fn the_folder_of_a_server_is_new_at_each_start_and_removed_at_the_end() {
        let folder = Folder(tempfile::tempdir().unwrap().keep());
        let path = folder.0.clone();
        let command = "a=sh -c 'mkdir @DIR || echo there; exit 1' @SOCK";
        let contestant = Contestant::parse(command).unwrap();
        for _ in 0..2 {
            let error = contestant.start(&folder, None, &Stop::default()).unwrap_err();
            assert!(!format!("{error:#}").contains("there"), "{error:#}");
            assert!(path.join("files").is_dir(), "the server made its folder");
        }
        drop(folder);
        assert!(!path.exists());
    }
}
