//! A name server on a loopback address, and larderd in a mount namespace in which the system's
//! resolver asks it.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use larder_testkit::server::is_root;

use crate::binary;

/// How the name server responds to every question.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// The name has these addresses; it may have none.
    Addresses(Vec<IpAddr>),
    /// The name does not exist.
    NoName,
    /// The name server has failed.
    Failure,
    /// No response.
    Silence,
}

pub(super) struct NameServer {
    address: Ipv4Addr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    reply: Mutex<Reply>,
    is_over: AtomicBool,
}

impl State {
    fn reply(&self) -> MutexGuard<'_, Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameServer {
    /// Starts a name server; `None` if the test may not use its port.
    pub(super) fn start(reply: Reply) -> Result<Option<Self>> {
        if !is_root() {
            larder_testkit::skip("only root can start a name server on port 53");
            return Ok(None);
        }
        // Each test has its own process and so its own address.
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 64 | high, middle, low.max(1));
        let socket = match UdpSocket::bind(SocketAddr::from((address, 53))) {
            Ok(socket) => socket,
            Err(error) => {
                larder_testkit::skip(format!("no name server on {address}: {error}"));
                return Ok(None);
            }
        };
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let state = Arc::new(State { reply: Mutex::new(reply), is_over: AtomicBool::new(false) });
        let shared = Arc::clone(&state);
        let thread = Some(thread::spawn(move || serve(&socket, &shared)));
        Ok(Some(Self { address, state, thread }))
    }

    pub(super) fn set(&self, reply: Reply) {
        *self.state.reply() = reply;
    }

    pub(super) fn set_addresses(&self, addresses: &[&str]) -> Result<()> {
        let addresses: Result<_, _> = addresses.iter().map(|address| address.parse()).collect();
        self.set(Reply::Addresses(addresses?));
        Ok(())
    }

    /// Writes a program into the folder that executes larderd with this name server; `None` if this
    /// machine does not allow mount namespaces.
    pub(super) fn larderd(&self, folder: &Path) -> Result<Option<PathBuf>> {
        let (resolver, switch) = (folder.join("resolv.conf"), folder.join("nsswitch.conf"));
        // Without a response the resolver fails after 12 seconds.
        let waits = "options timeout:12 attempts:1";
        fs::write(&resolver, format!("nameserver {}\n{waits}\n", self.address))?;
        fs::write(&switch, "hosts: files dns\n")?;
        let mounts = format!(
            "mount --bind '{}' /etc/resolv.conf && mount --bind '{}' /etc/nsswitch.conf",
            resolver.display(),
            switch.display()
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", &mounts]).stdin(Stdio::null());
        let probe = unshare.output();
        if !probe.as_ref().is_ok_and(|output| output.status.success()) {
            larder_testkit::skip(format!("no mount namespace with a resolver: {probe:?}"));
            return Ok(None);
        }
        let program = folder.join("larderd");
        let inner = folder.join("inner");
        let larderd = binary();
        fs::write(&inner, format!("{mounts} && exec '{}' \"$@\"\n", larderd.display()))?;
        let outer = format!("#!/bin/sh\nexec unshare --mount sh '{}' \"$@\"\n", inner.display());
        fs::write(&program, outer)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        Ok(Some(program))
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.state.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, state: &State) {
    let mut question = [0; 512];
    while !state.is_over.load(Relaxed) {
        let (bytes, client) = match socket.recv_from(&mut question) {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => return,
        };
        let reply = state.reply().clone();
        if let Some(response) = response(&question[..bytes], &reply) {
            // A client that has ended needs no response.
            let _ = socket.send_to(&response, client);
        }
    }
}

/// Returns the response to a question (RFC 1035); `None` if there is none.
fn response(question: &[u8], reply: &Reply) -> Option<Vec<u8>> {
    let (header, rest) = question.split_at_checked(12)?;
    // The name ends in an empty label. Type and class follow.
    let name_bytes = rest.iter().position(|byte| *byte == 0)? + 1;
    let asked = rest.get(..name_bytes + 4)?;
    let is_for_ipv6 = asked.get(name_bytes..name_bytes + 2)? == [0, 28];
    let (code, addresses) = match reply {
        Reply::Addresses(addresses) => (0, addresses.as_slice()),
        Reply::NoName => (3, &[][..]),
        Reply::Failure => (2, &[][..]),
        Reply::Silence => return None,
    };
    let addresses: Vec<_> =
        addresses.iter().filter(|address| address.is_ipv6() == is_for_ipv6).collect();
    let mut response = header.get(..2)?.to_vec();
    response.extend([0x81, 0x80 | code, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
    response.extend(asked);
    for address in addresses {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        // The name of the question, its type, its class, and a time to live of a second.
        response.extend([0xc0, 12]);
        response.extend(asked.get(name_bytes..)?);
        response.extend([0, 0, 0, 1, 0, bytes.len() as u8]);
        response.extend(bytes);
    }
    Some(response)
}
