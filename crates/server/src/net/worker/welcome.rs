//! Adds the connections that the listener has accepted.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use larder_protocol::Topics;
use larder_protocol::text::watched;
use larder_stats::Counter;
use rustix::net::{getpeername, getsockname};

use super::Worker;
use crate::log::Level;
use crate::net::connection::io::Io;
use crate::net::connection::{AWAIT_INPUT, Connection};
use crate::net::inbox::{NewConnection, Transport};
use crate::net::sockets;
use crate::observe::conn_table::{ConnStats, Ends};
use crate::tls::Tls;

impl Worker {
    /// Adds the connections that the listener has accepted for this worker.
    pub(super) fn welcome(&mut self) {
        for accepted in self.inbox.take() {
            let log = self.executor.log();
            let tls = match self.tls(&accepted) {
                Ok(tls) => tls,
                Err(error) => {
                    self.executor.counters().add(Counter::ConnectionsCurrent, 1u64.wrapping_neg());
                    log.event(
                        Level::Warn,
                        format_args!("a connection cannot be encrypted: {error}"),
                    );
                    continue;
                }
            };
            let conn_stats = self.conn_stats(&accepted);
            let (server, second) = (self.executor.server(), self.clock.second());
            let connection = Connection::new(
                server,
                accepted,
                Io::new(tls, self.has_ring()),
                conn_stats,
                second,
            );
            log.event(Level::Debug, format_args!("<{} new client connection", connection.id()));
            let (id, peer) = (connection.id(), || connection.peer());
            self.executor.server().watchers.report(Topics::CONNEVENTS, |out| {
                watched::connection_new(out, peer(), u64::from(id.unsigned_abs()));
            });
            let token = self.connections.add(connection);
            self.await_event(token, AWAIT_INPUT);
        }
    }

    /// Creates the TLS layer of a new connection, if it uses TLS.
    fn tls(&self, accepted: &NewConnection) -> Result<Option<Box<Tls>>, rustls::Error> {
        let certificates = self.executor.server().access.certificates.as_ref();
        let (Some(certificates), Some(asked)) = (certificates, accepted.terms.client_certificates)
        else {
            return Ok(None);
        };
        let config = certificates
            .config(asked)
            .ok_or_else(|| rustls::Error::General("there are no authorities".to_owned()))?;
        Ok(Some(Box::new(Tls::new(config, certificates.has_sessions())?)))
    }

    /// Creates the `stats conns` entry of a new connection.
    fn conn_stats(&self, accepted: &NewConnection) -> Arc<ConnStats> {
        let server = self.executor.server();
        let ends = match accepted.transport {
            Transport::Tcp => Ends::Tcp {
                peer: getpeername(&accepted.socket)
                    .ok()
                    .flatten()
                    .and_then(|peer| peer.try_into().ok()),
                local: getsockname(&accepted.socket).ok().and_then(|local| local.try_into().ok()),
            },
            Transport::Unix => Ends::Unix(sockets::local_path(&accepted.socket)),
        };
        let waker = Some(Arc::clone(self.inbox.waker()));
        server.connections.table.add(accepted.socket.as_raw_fd(), ends, waker, self.clock.second())
    }
}
