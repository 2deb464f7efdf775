//! `stats conns`: the sockets and their state.

use std::os::fd::RawFd;
use std::sync::Arc;

use larder_protocol::{Frame, OwnedFrame, Response, render};

use crate::observe::conn_table::{ConnStats, Place};
use crate::server::Server;

/// A response to `stats conns` in progress. It is rendered socket by socket as its client receives
/// it, because there may be many thousands. Each entry shows the state at that moment.
#[derive(Debug)]
pub(crate) struct ConnectionList {
    server: Arc<Server>,
    /// The descriptor of the requesting connection.
    asker: RawFd,
    frame: OwnedFrame,
    /// The last socket that was shown.
    last: Option<Place>,
}

impl ConnectionList {
    /// Begins a list.
    pub(crate) fn begin(server: &Arc<Server>, asker: RawFd, frame: &Frame<'_>) -> Self {
        Self { server: Arc::clone(server), asker, frame: frame.keep(), last: None }
    }

    /// Appends the lines of the next socket, or the end of the list. Returns true if more follows.
    pub(crate) fn step(&mut self, out: &mut Vec<u8>) -> bool {
        let frame = self.frame.frame();
        let Some((place, conn_stats)) = self.server.connections.table.next(self.last) else {
            render::response(out, &Response::EndOfStats, &frame);
            return false;
        };
        self.show(place.descriptor, &conn_stats, &frame, out);
        self.last = Some(place);
        true
    }

    fn show(
        &self,
        descriptor: RawFd,
        conn_stats: &ConnStats,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) {
        let mut stat = |name: &str, value: &str| {
            render::stat(out, format_args!("{descriptor}:{name}"), value, frame);
        };
        if conn_stats.is_udp() {
            stat("UDP", "UDP");
        }
        stat("addr", &conn_stats.address());
        if let Some(address) = conn_stats.listen_address() {
            stat("listen_addr", &address);
        }
        let labels = conn_stats.labels();
        for (name, label) in [("user", labels.user), ("name", labels.name)] {
            if !label.is_empty() {
                stat(name, &label);
            }
        }
        let asks = descriptor == self.asker;
        stat("state", conn_stats.state(asks));
        let idle_secs = self.server.cache.now().saturating_sub(conn_stats.active());
        stat("secs_since_last_cmd", &if asks { 0 } else { idle_secs }.to_string());
    }
}
