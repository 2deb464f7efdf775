//! TLS on a connection: decrypts received bytes and encrypts sent bytes.
//!
//! A connection that waits for a request keeps only its keys here. An incomplete record is kept
//! until the rest arrives. Records that the socket did not accept are also kept. Both count against
//! the budget.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use larder_stats::{Counter, Counters};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, HandshakeKind, ServerConfig};

use crate::buffers::backlog::Backlog;

/// The TLS state of one connection.
pub(crate) struct Tls {
    state: UnbufferedServerConnection,
    /// Records that have not arrived completely.
    incoming: Vec<u8>,
    /// Records that the socket did not accept.
    outgoing: Backlog,
    /// True during the handshake.
    is_handshaking: bool,
    /// True if the peer has announced that it will send nothing more.
    is_over: bool,
    /// True if an error has ended the connection.
    is_broken: bool,
    /// True if resumed sessions are counted, because clients may resume them.
    counts_sessions: bool,
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveResult {
    /// Number of bytes for the session. TLS can receive records without any.
    pub(crate) bytes: usize,
    /// True if nothing more will arrive.
    pub(crate) is_end: bool,
    /// True if more may already be available.
    pub(crate) may_be_more: bool,
}

impl ReceiveResult {
    /// Returns the result of a receive without TLS into a buffer of `room_bytes` bytes.
    #[inline]
    pub(crate) fn plain(bytes: usize, room_bytes: usize) -> Self {
        Self { bytes, is_end: bytes == 0, may_be_more: bytes == room_bytes }
    }
}

/// A worker's buffers for records, which its connections use in turn. Without TLS they own no
/// memory.
#[derive(Debug)]
pub(crate) struct Records {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    write_bytes: usize,
}

impl Records {
    /// Creates buffers that encrypt up to `write_bytes` of a response at a time.
    pub(crate) fn new(write_bytes: usize) -> Self {
        let write_bytes = write_bytes.min(WRITE_BYTES_MAX);
        Self { incoming: Vec::new(), outgoing: Vec::new(), write_bytes }
    }
}

impl Tls {
    pub(crate) fn new(config: Arc<ServerConfig>, counts_sessions: bool) -> Result<Self, Error> {
        Ok(Self {
            state: UnbufferedServerConnection::new(config)?,
            incoming: Vec::new(),
            outgoing: Backlog::default(),
            is_handshaking: true,
            is_over: false,
            is_broken: false,
            counts_sessions,
        })
    }

    /// Returns the names in the client's verified certificate. Empty without a certificate, and
    /// during the handshake.
    pub(crate) fn peer_names(&self) -> Vec<String> {
        let certificates = self.state.peer_certificates().filter(|_| !self.is_handshaking);
        certificates.and_then(<[_]>::first).map(peer::names).unwrap_or_default()
    }

    /// Receives up to `bytes_max` bytes of records, and passes on their contents, which are
    /// shorter. Continues the handshake, and sends its messages.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        counters: &Counters,
        records: &mut Records,
        bytes_max: usize,
        mut deliver: impl FnMut(&[u8]),
    ) -> Result<ReceiveResult, Errno> {
        if self.is_broken {
            return Err(Errno::PROTO);
        }
        if self.is_over {
            return Ok(ReceiveResult { bytes: 0, is_end: true, may_be_more: false });
        }
        let held = self.incoming.len();
        if records.incoming.len() < bytes_max {
            records.incoming.resize(bytes_max, 0);
        }
        let buffer = &mut records.incoming[..bytes_max];
        let (front, room) = buffer.split_at_mut(held);
        let room_bytes = room.len();
        let (received, _) = recv(socket, &mut *room, RecvFlags::empty())?;
        if received == 0 {
            return Ok(ReceiveResult { bytes: 0, is_end: true, may_be_more: false });
        }
        front.copy_from_slice(&self.incoming);
        let buffer = &mut buffer[..held + received];

        let mut bytes = 0;
        let processed = self.process(buffer, |plain| {
            bytes += plain.len();
            deliver(plain);
        });
        let was_handshaking = self.is_handshaking;
        match processed {
            Ok(used) if buffer.len() - used <= INCOMING_BYTES_MAX => {
                self.incoming.clear();
                self.incoming.extend_from_slice(&buffer[used..]);
                if self.incoming.is_empty() || self.incoming.capacity() > INCOMING_BYTES_MAX {
                    self.incoming.shrink_to_fit();
                }
            }
            _ => {
                self.is_broken = true;
                counters.bump(if was_handshaking {
                    Counter::SslHandshakeErrors
                } else {
                    Counter::SslProtoErrors
                });
            }
        }
        // The alert tells the peer the reason.
        self.flush(socket)?;
        if self.is_broken {
            return Err(Errno::PROTO);
        }
        if was_handshaking && !self.state.is_handshaking() {
            self.is_handshaking = false;
            counters.bump(Counter::TlsHandshakes);
            if self.counts_sessions && self.state.handshake_kind() != Some(HandshakeKind::Resumed) {
                counters.bump(Counter::SslNewSessions);
            }
        }
        let may_be_more = received == room_bytes || self.is_over;
        Ok(ReceiveResult { bytes, is_end: false, may_be_more })
    }

    /// Processes records, and returns how many bytes of them were consumed.
    fn process(
        &mut self,
        records: &mut [u8],
        mut deliver: impl FnMut(&[u8]),
    ) -> Result<usize, Error> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.state.process_tls_records(&mut records[used..]);
            used += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        deliver(record.payload);
                        used += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.outgoing)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    return Ok(used);
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.is_over = true;
                    return Ok(used);
                }
                // Early data is disabled.
                Ok(_) => return Err(Error::HandshakeNotComplete),
                Err(error) => {
                    // If there is an alert, it comes next. Without one, the same error would
                    // repeat.
                    if self.state.wants_write()
                        && let UnbufferedStatus {
                            state: Ok(ConnectionState::EncodeTlsData(data)),
                            ..
                        } = self.state.process_tls_records(&mut records[used..])
                    {
                        encode(data, &mut self.outgoing)?;
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Encrypts and sends; returns how many bytes of `plain` were consumed. Keeps records that the
    /// socket does not accept, and encrypts nothing more while there are any.
    pub(crate) fn send<'a>(
        &mut self,
        socket: &OwnedFd,
        records: &mut Records,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize, Errno> {
        if self.is_broken {
            return Err(Errno::PROTO);
        }
        self.flush(socket)?;
        let mut done = 0;
        let write_bytes = records.write_bytes;
        for plain in parts.into_iter().flat_map(|part| part.chunks(write_bytes)) {
            if self.has_unsent() {
                break;
            }
            let bytes = self.encrypt(plain, &mut records.outgoing).map_err(|_| Errno::PROTO)?;
            let encrypted = &records.outgoing[..bytes];
            done += plain.len();
            // TLS's own messages were encrypted earlier, so they must be sent first.
            self.flush(socket)?;
            let sent = if self.has_unsent() { 0 } else { try_send(socket, encrypted)? };
            if sent < bytes {
                self.outgoing.push(&encrypted[sent..]);
            }
        }
        Ok(done)
    }

    /// Writes the records of `plain` to `buffer`, which grows as needed, and returns their length.
    fn encrypt(&mut self, plain: &[u8], buffer: &mut Vec<u8>) -> Result<usize, EncryptError> {
        let mut encrypted = Err(EncryptError::EncryptExhausted);
        self.when_ready(|mut traffic| {
            encrypted = match traffic.encrypt(plain, buffer) {
                Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                    buffer.resize(required_size, 0);
                    traffic.encrypt(plain, buffer)
                }
                encrypted => encrypted,
            }
        });
        encrypted
    }

    /// Calls `act` with the writer, if the handshake is complete and no error has occurred.
    fn when_ready(&mut self, mut act: impl FnMut(WriteTraffic<'_, ServerConnectionData>)) {
        loop {
            let UnbufferedStatus { discard, state } =
                self.state.process_tls_records(&mut self.incoming);
            let goes_on = match state {
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    act(traffic);
                    false
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, &mut self.outgoing).is_ok()
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                _ => false,
            };
            self.incoming.drain(..discard);
            if !goes_on {
                return;
            }
        }
    }

    /// Sends the records that the socket did not accept before.
    fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        if self.has_unsent() {
            let sent = try_send(socket, self.outgoing.waiting())?;
            self.outgoing.use_up(sent);
        }
        Ok(())
    }

    /// True if there are records that the socket has not accepted.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends a close notification, from which the peer can tell that it has received everything.
    pub(crate) fn say_goodbye(&mut self, socket: &OwnedFd) {
        if self.is_handshaking || self.is_broken || self.has_unsent() {
            return;
        }
        let (mut record, mut bytes) = ([0; GOODBYE_BYTES_MAX], 0);
        self.when_ready(|mut traffic| {
            bytes = traffic.queue_close_notify(&mut record).unwrap_or(0);
        });
        // If the send fails, the peer only notices that the connection is closed.
        let _ = try_send(socket, &record[..bytes]);
    }

    /// Returns the memory of incomplete received records, in bytes.
    pub(crate) fn incoming_bytes(&self) -> usize {
        self.incoming.capacity()
    }

    /// Returns the memory of records that the socket did not accept, in bytes.
    pub(crate) fn outgoing_bytes(&self) -> usize {
        self.outgoing.held_bytes()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other fields contain secrets.
        f.debug_struct("Tls").field("is_handshaking", &self.is_handshaking).finish_non_exhaustive()
    }
}

/// Appends a handshake record, or an alert.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, outgoing: &mut Backlog) -> Result<(), Error> {
    let mut record = Vec::new();
    while let Err(error) = data.encode(&mut record) {
        match error {
            EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => {
                record.resize(required_size, 0);
            }
            EncodeError::AlreadyEncoded => return Err(Error::General(error.to_string())),
        }
    }
    outgoing.push(&record);
    Ok(())
}

fn try_send(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        sent => sent,
    }
}

/// More than a record, and more than a sensible certificate chain.
pub(crate) const INCOMING_BYTES_MAX: usize = 32 * 1024;

/// How much of a response is encrypted at a time.
const WRITE_BYTES_MAX: usize = 1024 * 1024;

/// Length of an encrypted alert.
const GOODBYE_BYTES_MAX: usize = 64;

pub(crate) mod certificates;
pub(crate) mod cipher_suites;
pub(crate) mod peer;
#[cfg(test)]
mod tests;
