//! TLS on an admin listener, with the certificates of the cache's sockets (`-Z`).

use std::sync::Arc;
use std::time::Duration;

use larder_options::ClientCertificates;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tls::certificates::Certificates;
use crate::tls::peer;

/// How the connections of a listener are encrypted.
#[derive(Clone, Debug)]
pub(in crate::admin) struct Secured {
    pub(in crate::admin) certificates: Arc<Certificates>,
    /// The client certificates that the listener asks for.
    pub(in crate::admin) asked: ClientCertificates,
}

impl Secured {
    /// Performs the handshake with the certificates that are currently in effect. Returns `None` if
    /// the peer has no valid certificate, does not speak TLS, or takes too long.
    pub(in crate::admin) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            let mut first = [0];
            stream.peek(&mut first).await.ok().filter(|bytes| *bytes > 0)?;
            if first != [HANDSHAKE] {
                // Fails only if the peer is gone.
                let _ = stream.try_write(PLAIN_HTTP);
                return None;
            }
            let config = self.certificates.config(self.asked)?;
            // If the handshake failed, the reason was sent to the peer as an alert.
            TlsAcceptor::from(config).accept(stream).await.ok()
        };
        timeout(HANDSHAKE_TIME_MAX, handshake).await.ok()?
    }
}

/// Returns the names in the client's verified certificate; none without a certificate.
pub(in crate::admin) fn names(stream: &TlsStream<TcpStream>) -> Arc<[String]> {
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    certificates.first().map(peer::names).unwrap_or_default().into()
}

/// The type of the first record of a TLS connection.
const HANDSHAKE: u8 = 22;

/// The response to a peer that speaks HTTP without TLS.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Content-Length: 47\r\nConnection: close\r\n\r\nthis address speaks TLS only: ask for https://\n";

const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_has_the_length_that_it_announces() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{text}");
    }
}
