//! The connection to the candidate that belongs to one connection of a client.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use socket2::Socket;

use super::keys::{KeyHash, Keys, Moment, Translation};
use crate::shadow::feed::ConnectionId;

/// A connection to the candidate, with the bytes that it has not accepted yet.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Socket,
    out: Vec<u8>,
    /// The number of bytes of `out` that are sent.
    sent: usize,
    /// Tokens in `out` that are to be translated, in their order.
    holes: VecDeque<Hole>,
    /// True if the candidate has accepted or sent a byte.
    pub(crate) is_established: bool,
    /// True if no more bytes are sent.
    is_shut: bool,
}

/// A cas token in the outgoing bytes.
#[derive(Debug)]
pub(crate) struct Hole {
    /// Its place in [`Link::out`].
    place: Range<usize>,
    is_binary: bool,
    key: KeyHash,
    token: u64,
    /// The request.
    seen: Moment,
    since: Instant,
}

/// A token in the bytes of a request.
#[derive(Clone, Debug)]
pub(crate) struct TokenPlace {
    /// Its place in the request.
    pub(crate) place: Range<usize>,
    /// True if it is a number of eight bytes.
    pub(crate) is_binary: bool,
    /// The key of the request.
    pub(crate) key: KeyHash,
    /// The token.
    pub(crate) token: u64,
    /// The request.
    pub(crate) seen: Moment,
}

impl Link {
    /// Registers a socket, which may still be connecting.
    ///
    /// # Errors
    /// The kernel refuses another registration.
    pub(crate) fn new(
        socket: Socket,
        poller: &impl std::os::fd::AsFd,
        connection: ConnectionId,
    ) -> io::Result<Self> {
        let interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(poller, &socket, epoll::EventData::new_u64(connection), interest)?;
        Ok(Self {
            socket,
            out: Vec::new(),
            sent: 0,
            holes: VecDeque::new(),
            is_established: false,
            is_shut: false,
        })
    }

    /// Appends bytes of requests.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a request with a cas token.
    pub(crate) fn push_with_token(&mut self, bytes: &[u8], found: TokenPlace) {
        let at = self.out.len();
        let TokenPlace { place, is_binary, key, token, seen } = found;
        let place = at + place.start..at + place.end;
        let since = Instant::now();
        self.holes.push_back(Hole { place, is_binary, key, token, seen, since });
        self.push(bytes);
    }

    /// True if all bytes are sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.sent == self.out.len()
    }

    /// Returns the number of bytes that are not sent.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Returns the memory of the bytes that are not sent, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.out.capacity()
    }

    /// Sends as many bytes as the candidate accepts, and returns their number. Calls `resolved`
    /// with each request whose token is replaced, or has no translation; then the flag is false.
    ///
    /// # Errors
    /// The connection is not possible or has ended.
    pub(crate) fn flush(
        &mut self,
        keys: &Keys,
        mut resolved: impl FnMut(Moment, bool),
    ) -> io::Result<usize> {
        let mut latest = None;
        while let Some(hole) = self.holes.front() {
            let key = Some(hole.key);
            match keys.translate(hole.key, hole.token) {
                Translation::Pending if hole.since.elapsed() < TOKEN_PATIENCE => break,
                Translation::Token(token) => {
                    resolved(hole.seen, true);
                    self.fill(token);
                }
                // The response to the request before may contain the token. The caller notes that
                // only after this call.
                Translation::Unknown if latest == key => break,
                Translation::Pending | Translation::Unknown => {
                    resolved(hole.seen, false);
                    self.holes.pop_front();
                }
            }
            latest = key;
        }
        let end = self.holes.front().map_or(self.out.len(), |hole| hole.place.start);
        let begin = self.sent;
        while self.sent < end {
            match self.socket.write(&self.out[self.sent..end]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    self.sent += bytes;
                    self.is_established = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_wait(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let sent = self.sent - begin;
        self.forget_sent();
        Ok(sent)
    }

    /// Replaces the first token.
    fn fill(&mut self, token: u64) {
        let Some(hole) = self.holes.pop_front() else { return };
        let bytes = match hole.is_binary {
            true => token.to_be_bytes().to_vec(),
            false => token.to_string().into_bytes(),
        };
        let (before, after) = (hole.place.len(), bytes.len());
        self.out.splice(hole.place, bytes);
        for later in &mut self.holes {
            later.place.start = later.place.start + after - before;
            later.place.end = later.place.end + after - before;
        }
    }

    fn forget_sent(&mut self) {
        if self.sent == self.out.len() {
            self.out.clear();
            self.out.shrink_to(KEPT_BYTES);
        } else if self.sent > KEPT_BYTES && self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            for hole in &mut self.holes {
                hole.place.start -= self.sent;
                hole.place.end -= self.sent;
            }
        } else {
            return;
        }
        self.sent = 0;
    }

    /// Receives bytes. Returns `None` if there are none now, and 0 at the end of the connection.
    ///
    /// # Errors
    /// The connection is not possible or has ended.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.socket.read(buffer) {
                Ok(bytes) => {
                    self.is_established |= bytes > 0;
                    return Ok(Some(bytes));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_wait(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Declares that no more requests follow.
    pub(crate) fn shut(&mut self) {
        if !self.is_shut {
            self.is_shut = true;
            // The candidate may have closed the connection already.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }
}

/// True if the socket is not ready, or not connected yet.
fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}

/// The memory that a link keeps for its next requests.
const KEPT_BYTES: usize = 64 << 10;

/// How long a request waits for the candidate's token.
const TOKEN_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_token_is_replaced_when_it_is_known_and_later_bytes_wait_for_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut link = Link::new(Socket::from(ours), &poller, 1).unwrap();
        let mut keys = Keys::new(10);
        keys.begin_tokens(7);
        link.push(b"gets k\r\n");
        let cas = b"cas k 0 0 1 55\r\nx\r\n";
        let place =
            |key, seen| TokenPlace { place: 12..14, is_binary: false, key, token: 55, seen };
        link.push_with_token(cas, place(7, 1));
        link.push_with_token(cas, place(8, 2));
        let mut received = [0; 200];
        let mut receive = |link: &mut Link, keys: &Keys| {
            let mut unknown = Vec::new();
            let resolved = |seen, is_known: bool| unknown.extend((!is_known).then_some(seen));
            link.flush(keys, resolved).unwrap();
            let bytes = theirs.read(&mut received).unwrap_or(0);
            (String::from_utf8(received[..bytes].to_vec()).unwrap(), unknown)
        };
        // The bytes before the token can be sent.
        assert_eq!(receive(&mut link, &keys), ("gets k\r\ncas k 0 0 1 ".to_owned(), vec![]));
        assert_eq!(receive(&mut link, &keys), (String::new(), vec![]));
        keys.end_tokens(7, Some((55, 1234)));
        let expected = "1234\r\nx\r\ncas k 0 0 1 55\r\nx\r\n";
        assert_eq!(receive(&mut link, &keys), (expected.to_owned(), vec![2]));
        assert!(link.is_flushed());
    }
}
