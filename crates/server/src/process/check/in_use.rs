//! The addresses on which processes of this machine listen.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Tcp,
    Udp,
    Unix,
}

/// The sockets that are bound now, from /proc. What cannot be read there counts as free.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// Each with the inode of its socket.
    addresses: Vec<(Kind, SocketAddr, u64)>,
    paths: HashMap<String, u64>,
}

impl InUse {
    pub(super) fn read() -> Self {
        let mut in_use = Self::default();
        for (kind, table) in
            [(Kind::Tcp, "tcp"), (Kind::Tcp, "tcp6"), (Kind::Udp, "udp"), (Kind::Udp, "udp6")]
        {
            let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
            let rows = text.lines().skip(1).filter_map(|line| row(kind, line));
            in_use.addresses.extend(rows.map(|(address, inode)| (kind, address, inode)));
        }
        let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        in_use.paths = text.lines().skip(1).filter_map(unix_row).collect();
        in_use
    }

    /// Returns the process that keeps others from binding this address.
    pub(super) fn of_address(&self, kind: Kind, wanted: SocketAddr) -> Option<String> {
        let conflicts = |of: &&(Kind, SocketAddr, u64)| {
            let ip = of.1.ip();
            of.0 == kind
                && of.1.port() == wanted.port()
                && ip.is_ipv4() == wanted.is_ipv4()
                && (ip == wanted.ip() || ip.is_unspecified() || wanted.ip().is_unspecified())
        };
        self.addresses.iter().find(conflicts).map(|(_, _, inode)| holder(*inode))
    }

    /// Returns the process that listens at this path.
    pub(super) fn of_path(&self, path: &Path) -> Option<String> {
        self.paths.get(path.to_str()?).map(|inode| holder(*inode))
    }
}

/// Parses a line of /proc/net/tcp and its siblings; `None` if the socket does not listen.
fn row(kind: Kind, line: &str) -> Option<(SocketAddr, u64)> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    if kind == Kind::Tcp && *words.get(3)? != LISTENS {
        return None;
    }
    Some((address(words.get(1)?)?, words.get(9)?.parse().ok()?))
}

/// Parses an address in the kernel's form: words of 32 bits in the order of the machine's bytes.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| {
        let word = u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Parses a line of /proc/net/unix; `None` if the socket does not listen or has no path.
fn unix_row(line: &str) -> Option<(String, u64)> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let accepts = u32::from_str_radix(words.get(3)?, 16).ok()? & ACCEPTS != 0;
    let path = words.get(7..).filter(|path| accepts && !path.is_empty())?;
    Some((path.join(" "), words.get(6)?.parse().ok()?))
}

/// Describes the process with this socket.
fn holder(inode: u64) -> String {
    let link = format!("socket:[{inode}]");
    let has_it = |directory: &fs::DirEntry| {
        let descriptors = fs::read_dir(directory.path().join("fd"));
        descriptors.into_iter().flatten().flatten().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|to| to.as_os_str() == link.as_str())
        })
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter(|of| of.file_name().as_encoded_bytes()[0].is_ascii_digit());
    match found.into_iter().find(has_it) {
        Some(of) => {
            let name = fs::read_to_string(of.path().join("comm")).unwrap_or_default();
            format!("{} (process {})", name.trim_end(), of.file_name().display())
        }
        None => "another process".to_owned(),
    }
}

/// The state of a listening socket in /proc/net/tcp.
const LISTENS: &str = "0A";

/// The flag of a listening socket in /proc/net/unix (__SO_ACCEPTCON).
const ACCEPTS: u32 = 0x10000;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_process_that_uses_an_address_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a socket");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(&path).unwrap();
        let in_use = InUse::read();
        let this = Some(format!("(process {})", std::process::id()));
        let process = |holder: Option<String>| {
            holder.map(|holder| holder[holder.find('(').unwrap()..].to_owned())
        };
        let address = tcp.local_addr().unwrap();
        let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
        for wanted in [address, everywhere] {
            assert_eq!(process(in_use.of_address(Kind::Tcp, wanted)), this, "{wanted}");
        }
        let other = SocketAddr::new([127, 0, 0, 2].into(), address.port());
        assert_eq!(in_use.of_address(Kind::Tcp, other), None);
        let datagrams = udp.local_addr().unwrap();
        assert_eq!(process(in_use.of_address(Kind::Udp, datagrams)), this);
        assert_eq!(process(in_use.of_path(&path)), this);
        drop((tcp, udp, unix));
        let in_use = InUse::read();
        assert_eq!(in_use.of_address(Kind::Tcp, address), None);
        assert_eq!(in_use.of_path(&path), None);
    }

    #[test]
    fn addresses_of_both_families_are_parsed() {
        // The machine's bytes are in the order of x86-64 and AArch64.
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:2BCB"), "127.0.0.1:11211".parse().ok());
            let loopback = "00000000000000000000000001000000:0016";
            assert_eq!(address(loopback), "[::1]:22".parse().ok());
        }
        for bad in ["", ":", "01:02", "0100007F", "0100007F:GGGG", "é00000F:1"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }
}
