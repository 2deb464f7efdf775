//! A server that is started for a comparison, and ended after it.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::address::Address;
use crate::compare::watchdog::Watchdog;
use crate::connect::connect;
use crate::measure::pin::pin_this_thread;
use crate::measure::stop::Stop;

/// A name and a command.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    command: String,
}

/// A folder of this process for sockets and logs, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

/// A server that runs, killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// For when this process is killed and drops nothing.
    watchdog: Option<Watchdog>,
    address: Address,
    log: PathBuf,
}

impl Contestant {
    /// Reads `NAME=COMMAND`.
    ///
    /// # Errors
    /// What was expected instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
        match (command.contains("@SOCK"), command.contains("@PORT")) {
            _ if name.is_empty() => Err("a name is missing before =".to_owned()),
            (true, true) => Err("@SOCK and @PORT are both there, expected one of them".to_owned()),
            (false, false) => {
                Err("the command has neither @SOCK (a unix socket's path) nor @PORT".to_owned())
            }
            _ => Ok(Self { name: name.to_owned(), command: command.to_owned() }),
        }
    }

    /// Starts the server on this processor, and waits until it accepts connections.
    ///
    /// # Errors
    /// It ends, or does not listen within ten seconds; the error has what it wrote.
    pub(crate) fn start(
        &self,
        folder: &Folder,
        processor: Option<usize>,
        stop: &Stop,
    ) -> Result<Server> {
        let socket = folder.0.join("socket");
        // The server before may have left its own.
        fs::remove_file(&socket).ok();
        let address = match self.command.contains("@SOCK") {
            true => Address::Unix(socket.clone()),
            false => Address::Tcp { host: "127.0.0.1".to_owned(), port: free_port()? },
        };
        let mut command = self.command.replace("@SOCK", &socket.display().to_string());
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

/// Starts a command by a thread that is on the processor already: what it starts is there from its first
/// instruction on.
fn spawn(command: &str, log: &Path, processor: Option<usize>) -> Result<Child> {
    let output = File::create(log)?;
    let errors = output.try_clone()?;
    let start = move || {
        if let Some(processor) = processor {
            pin_this_thread(processor)?;
        }
        // With exec the process that is measured, and killed, is the server and not its shell.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("exec {command}")]);
        shell.stdin(Stdio::null()).stdout(output).stderr(errors);
        shell.spawn().context("starting /bin/sh")
    };
    std::thread::scope(|scope| {
        scope.spawn(start).join().expect("a thread that starts a process does not panic")
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
                bail!("it ended with {status} instead of listening: {}", self.log());
            }
            ensure!(!stop.is_asked(), "stopped");
            ensure!(
                Instant::now() < deadline,
                "it does not listen on {}: {error:#}: {}",
                self.address,
                self.log()
            );
            std::thread::sleep(START_POLL);
        }
        Ok(())
    }

    /// Processor time of all its threads, in nanoseconds.
    ///
    /// # Errors
    /// It has ended, or the system does not say.
    pub(crate) fn processor_ns(&self) -> Result<u64> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let mut sum_ns = 0;
        for task in fs::read_dir(&tasks).context("the server has ended")? {
            // A thread may end meanwhile.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let spent =
                text.split_ascii_whitespace().next().and_then(|word| word.parse::<u64>().ok());
            sum_ns += spent.unwrap_or(0);
        }
        ensure!(sum_ns > 0, "the system does not say how much processor time the server took");
        Ok(sum_ns)
    }

    /// The end of what it wrote.
    pub(crate) fn log(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
        format!("the server wrote: {:?}", shown.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watchdog.take());
        // A child that has ended already cannot be killed, and that is all that can go wrong.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Folder {
    /// # Errors
    /// There is no room for one.
    pub(crate) fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("larder-compare-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
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
}
