//! The lines on standard output that a server prints once it serves.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};

use larder_options::Options;

use crate::admin::Http;
use crate::net::datagrams::Datagrams;
use crate::net::sockets::{Address, Socket};
use crate::net::terms::ListenerTerms;
use crate::words::CountedNoun;

/// Prints the addresses on which the server listens, and how to try it.
pub(super) fn listening(
    options: &Options,
    sockets: &[Socket],
    datagrams: &[Datagrams],
    http: &Http,
) {
    let mut words = String::new();
    for socket in sockets {
        let mebibytes = options.memory_bytes >> 20;
        let workers = CountedNoun(options.worker_count as u64, "worker").to_string();
        let known = [format!("{mebibytes} MiB"), workers];
        let known = known.into_iter().chain(socket.terms.named_words().into_iter().map(Into::into));
        let known = known.collect::<Vec<_>>().join(", ");
        words += &format!("larderd: listening on {} ({known})\n", socket.address);
    }
    for socket in datagrams {
        let readonly = if socket.terms.is_readonly { ", readonly" } else { "" };
        words += &format!("larderd: listening on {} (UDP{readonly})\n", socket.address);
    }
    for (address, access) in http.addresses() {
        words += &format!("larderd: listening on {address} (admin, {access})\n");
    }
    let can_try = |terms: &ListenerTerms| {
        !terms.is_encrypted() && !terms.is_readonly && !options.needs_login()
    };
    let plain = sockets.iter().find_map(|socket| match &socket.address {
        Address::Tcp(address) if can_try(&socket.terms) => Some(address),
        _ => None,
    });
    if let Some(address) = plain {
        let host = if address.ip().is_unspecified() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            address.ip()
        };
        words += &try_line(&host.to_string(), address.port());
    }
    // Fails only if standard output is closed.
    let _ = io::stdout().write_all(words.as_bytes());
}

/// Returns a command line for bash that needs no other program.
fn try_line(host: &str, port: u16) -> String {
    let talk = r"printf 'set hello 0 0 5\r\nworld\r\nget hello\r\nquit\r\n' >&3; cat <&3";
    format!("try: (exec 3<>/dev/tcp/{host}/{port}; {talk})\n")
}
