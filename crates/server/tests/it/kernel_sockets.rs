//! The kernel's memory for connections: nothing after they are closed, and little of a response
//! that is not read. An io_uring operation in progress holds its socket even after the descriptor
//! is closed, so counting descriptors is not enough.

use std::env;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::server::is_root;
use larder_testkit::{Address, Stream};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

use crate::peers::{Route, Site};

/// The kernel counts sockets by network namespace, so the test runs again in a separate one.
#[test]
fn the_kernel_frees_every_socket_of_a_closed_connection() -> Result<()> {
    const MARK: &str = "LARDER_TEST_OWN_NETWORK";
    if env::var_os(MARK).is_some() {
        return in_its_own_network();
    }
    if !is_root() {
        larder_testkit::skip("only root can have its own network");
        return Ok(());
    }
    let mut again = Command::new("unshare");
    again.args(["--net", "--"]).arg(env::current_exe()?).env(MARK, "1").stdin(Stdio::null());
    let test = "kernel_sockets::the_kernel_frees_every_socket_of_a_closed_connection";
    again.args(["--exact", test, "--nocapture"]);
    let output = again.output().context("cannot run unshare")?;
    let (words, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if errors.contains("unshare failed") {
        larder_testkit::skip(format!("this machine does not allow a new network: {errors}"));
        return Ok(());
    }
    ensure!(output.status.success(), "{words}{errors}");
    ensure!(words.contains("all sockets are free"), "{words}{errors}");
    Ok(())
}

fn in_its_own_network() -> Result<()> {
    raise_loopback()?;
    for io in ["epoll", "uring"] {
        for route in [Route::Tcp, Route::Unix, Route::Tls] {
            come_and_go(route, io).with_context(|| format!("{route:?} with {io}"))?;
        }
    }
    println!("all sockets are free");
    Ok(())
}

/// Peers disconnect in all ways. Afterwards the kernel must have no more sockets than before.
fn come_and_go(route: Route, io: &str) -> Result<()> {
    let Some(site) = Site::start(route, io, &["-t", "2"])? else { return Ok(()) };
    let before = sockets_used()?;
    for death in route.deaths() {
        let mut peers = (0..PEERS).map(|_| site.connect()).collect::<Result<Vec<_>>>()?;
        for peer in &mut peers {
            peer.send(b"version\r\n")?;
            peer.read_exact(&mut [0; b"VERSION 1.6.45\r\n".len()])?;
        }
        ensure!(sockets_used()? >= before + 2 * PEERS, "not every peer has two sockets");
        for peer in peers {
            peer.die(*death)?;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while sockets_used()? > before {
            let used = sockets_used()?;
            ensure!(Instant::now() < deadline, "{death:?}: {used} sockets are used, not {before}");
            sleep(Duration::from_millis(10));
        }
    }
    site.scene.end()
}

/// Peers that do not read must not use up the kernel's memory for connections, which all programs
/// of a machine share.
#[test]
fn the_kernel_keeps_little_of_what_a_peer_does_not_read() -> Result<()> {
    for io in ["epoll", "uring"] {
        let Some(site) = Site::start(Route::Tcp, io, &[])? else { continue };
        let Address::Tcp(address) = site.address() else { bail!("no TCP address") };
        let mut setup = Stream::connect(&site.address())?;
        let value = [&b"set k 0 0 1000000\r\n"[..], &[b'v'; 1_000_000], b"\r\n"].concat();
        setup.ask(&value, b"STORED\r\n")?;
        drop(setup);
        let mut peers = (0..PEERS).map(|_| site.connect()).collect::<Result<Vec<_>>>()?;
        let request = [&b"get"[..], &b" k".repeat(50), b"\r\n"].concat();
        for peer in &mut peers {
            peer.send(&request)?;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut before = 0;
        let kept = loop {
            sleep(Duration::from_millis(200));
            let kept = unsent_bytes(address.port())?;
            // Every peer's response waits, and the amount no longer grows.
            if kept == before && kept >= PEERS << 10 {
                break kept / PEERS;
            }
            ensure!(Instant::now() < deadline, "{io}: no response waits: {kept} bytes");
            before = kept;
        };
        ensure!(kept < 512 << 10, "{io}: the kernel keeps {kept} bytes for each peer");
        drop(peers);
        site.scene.end()?;
    }
    Ok(())
}

/// Returns how much output the kernel keeps for the connections of a port.
fn unsent_bytes(port: u16) -> Result<usize> {
    let table = fs::read_to_string("/proc/self/net/tcp")?;
    let local = format!(":{port:04X}");
    let mut bytes = 0;
    for line in table.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, from, _, "01", queues, ..] = words[..] else { continue };
        if from.ends_with(&local) {
            let (unsent, _) = queues.split_once(':').context("no queues")?;
            bytes += usize::from_str_radix(unsent, 16)?;
        }
    }
    Ok(bytes)
}

/// Returns the number of sockets of this network namespace that the kernel has not freed.
fn sockets_used() -> Result<usize> {
    let counts = fs::read_to_string("/proc/self/net/sockstat")?;
    let used = counts.lines().find_map(|line| line.strip_prefix("sockets: used "));
    Ok(used.context("the kernel does not count sockets")?.trim().parse()?)
}

/// Brings up the loopback interface, which is down in a new namespace, with a netlink message that
/// the kernel acknowledges.
fn raise_loopback() -> Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST: u16 = 1;
    const NLM_F_ACK: u16 = 4;
    const NLMSG_ERROR: u16 = 2;
    const LOOPBACK: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut message = 32_u32.to_ne_bytes().to_vec();
    message.extend([RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK].map(u16::to_ne_bytes).concat());
    // Sequence and sender, then family and kind of any interface.
    message.extend([0; 8 + 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend([IFF_UP, IFF_UP].map(u32::to_ne_bytes).concat());
    let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&kernel, &message, SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (bytes, _) = recv(&kernel, &mut answer, RecvFlags::empty())?;
    match &answer[..bytes] {
        [_, _, _, _, k0, k1, _, _, _, _, _, _, _, _, _, _, e0, e1, e2, e3, ..]
            if u16::from_ne_bytes([*k0, *k1]) == NLMSG_ERROR =>
        {
            let error = i32::from_ne_bytes([*e0, *e1, *e2, *e3]);
            ensure!(error == 0, "loopback cannot be brought up: error {error}");
            Ok(())
        }
        other => bail!("an unknown answer of the kernel: {other:?}"),
    }
}

/// Connections of each scene.
const PEERS: usize = 50;
