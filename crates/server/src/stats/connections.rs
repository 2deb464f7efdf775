//! `stats conns`: who is connected, and what each is at.

use std::os::fd::RawFd;

use larder_protocol::{Frame, render};

use crate::Server;

/// Appends what is known of every socket. `asker` is the descriptor of the connection that asks.
pub(super) fn show(server: &Server, asker: RawFd, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let now = server.cache.now();
    server.roster.show(|descriptor, card| {
        let mut stat = |name: &str, value: &str| {
            render::stat(out, format_args!("{descriptor}:{name}"), value, frame);
        };
        if card.is_udp() {
            stat("UDP", "UDP");
        }
        stat("addr", &card.address());
        if let Some(address) = card.listen_address() {
            stat("listen_addr", &address);
        }
        let asks = descriptor == asker;
        stat("state", card.state(asks));
        let secs = if asks { 0 } else { now.saturating_sub(card.active()) };
        stat("secs_since_last_cmd", &secs.to_string());
    });
}
