//! A connection with its pending requests. Requests are sent in batches of a fixed number, or one
//! at a time in an open loop.

use std::io;
use std::time::Duration;

use anyhow::Result;
use rustix::event::epoll;
use std::os::fd::OwnedFd;

use crate::wire::ask::Ask;
use crate::wire::channel::Channel;
use crate::wire::pending::PendingRequests;

/// A connection, its pending requests, unsent bytes and the beginning of a reply.
pub(crate) struct Pipeline {
    pub(crate) channel: Channel,
    pub(crate) pending: PendingRequests,
    /// The number of requests of the batch that are not written yet.
    pub(crate) batch_left: u32,
    /// The time at which the batch began; in an open loop, the time at which its request was due.
    /// Latency counts from it.
    pub(crate) batch_ns: u64,
    /// The time of the last received byte, or of the first request after an idle time.
    pub(crate) heard_ns: u64,
    /// The pause before this connection is reopened if it is lost; zero if it has ever received a
    /// response.
    pub(crate) pause: Duration,
    /// True if the open loop lists the connection as free.
    pub(crate) is_listed: bool,
    /// The received beginning of a reply.
    pub(crate) received: Vec<u8>,
    /// Requests that the socket has refused so far. The bytes before `unsent_from` are sent.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// True if epoll reports when the socket accepts bytes.
    waits_to_send: bool,
}

impl Pipeline {
    pub(crate) fn new(channel: Channel, pause: Duration) -> Self {
        Self {
            channel,
            pending: PendingRequests::default(),
            batch_left: 0,
            batch_ns: 0,
            heard_ns: 0,
            pause,
            is_listed: false,
            received: Vec::new(),
            unsent: Vec::new(),
            unsent_from: 0,
            waits_to_send: false,
        }
    }

    /// True if the next request must wait for the socket.
    pub(crate) fn is_blocked(&self) -> bool {
        self.unsent_from < self.unsent.len()
    }

    /// True if a response is pending or a request is not completely sent.
    pub(crate) fn is_asking(&self) -> bool {
        !self.pending.is_empty() || self.is_blocked()
    }

    /// Writes the rest of the batch until the socket is full. Writes a request only after the
    /// previous ones are sent, so that the memory does not depend on the size of a batch.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn pump(
        &mut self,
        ask: &mut Ask,
        out: &mut Vec<u8>,
        now_ns: u64,
    ) -> Result<(), ConnectionEnd> {
        while self.batch_left > 0 && !self.is_blocked() {
            out.clear();
            if self.pending.is_empty() {
                self.heard_ns = now_ns;
            }
            while self.batch_left > 0 && out.len() < SENT_BYTES_MIN {
                self.batch_left -= 1;
                if !ask.push(out, &mut self.pending, self.batch_ns)? {
                    self.batch_left = 0;
                }
            }
            self.send(out)?;
        }
        Ok(())
    }

    fn send(&mut self, out: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < out.len() {
            match self.channel.send(&out[sent..])? {
                0 => {
                    self.unsent.extend_from_slice(&out[sent..]);
                    break;
                }
                taken => sent += taken,
            }
        }
        Ok(())
    }

    /// Sends the bytes that the socket refused before.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            self.channel.send(b"")?;
        }
        while self.is_blocked() {
            match self.channel.send(&self.unsent[self.unsent_from..])? {
                0 => return Ok(()),
                taken => self.unsent_from += taken,
            }
        }
        self.unsent.clear();
        self.unsent_from = 0;
        if self.unsent.capacity() > KEPT_BYTES_MAX {
            self.unsent = Vec::new();
        }
        Ok(())
    }

    /// Registers the socket with epoll for writing while bytes are unsent.
    ///
    /// # Errors
    /// Errors of epoll.
    pub(crate) fn watch(&mut self, epoll: &OwnedFd, number: usize) -> io::Result<()> {
        let waits = self.is_blocked() || self.channel.has_unsent();
        if waits != self.waits_to_send {
            self.waits_to_send = waits;
            let flags = match waits {
                true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                false => epoll::EventFlags::IN,
            };
            epoll::modify(epoll, &self.channel, epoll::EventData::new_u64(number as u64), flags)?;
        }
        Ok(())
    }

    /// Keeps the bytes after the first `used`, which are not parsed yet. Frees a large buffer that
    /// is empty.
    pub(crate) fn keep(&mut self, mut received: Vec<u8>, used: usize) {
        received.drain(..used);
        if received.is_empty() && received.capacity() > KEPT_BYTES_MAX {
            received = Vec::new();
        }
        self.received = received;
    }
}

/// The reason why a connection is unusable.
#[derive(Debug)]
pub(crate) struct ConnectionEnd {
    /// A short text by which errors are counted.
    pub(crate) kind: &'static str,
    /// The full reason, without the server's address.
    pub(crate) reason: String,
    /// True if the connection is lost and may be reopened.
    pub(crate) is_loss: bool,
}

impl From<io::Error> for ConnectionEnd {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error.kind() {
            UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted => Self::closed(),
            _ => Self { kind: "connection failed", reason: error.to_string(), is_loss: true },
        }
    }
}

impl From<anyhow::Error> for ConnectionEnd {
    fn from(error: anyhow::Error) -> Self {
        Self { kind: "request cannot be made", reason: format!("{error:#}"), is_loss: false }
    }
}

impl ConnectionEnd {
    pub(crate) fn closed() -> Self {
        let reason = "the server closed the connection before it answered".to_owned();
        Self { kind: "connection closed", reason, is_loss: true }
    }
}

/// Requests are collected until they have this many bytes, or the batch is complete, and then sent
/// together.
const SENT_BYTES_MIN: usize = 64 << 10;
/// An empty buffer with more memory than this, in bytes, is freed.
const KEPT_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::sync::mpsc;
    use std::thread::sleep;

    use rustix::event::Timespec;
    use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags};

    use super::*;
    use crate::connect::dialer::Dialer;
    use crate::fixtures::{load, serve};
    use crate::options::Dialect;
    use crate::request::draw::Pool;
    use crate::wire::ask::Source;

    /// Returns a pipeline to a server that reads nothing until a message is sent on the sender. The
    /// receiver then yields the number of bytes up to the end of the connection.
    fn paused() -> (Pipeline, mpsc::Sender<()>, mpsc::Receiver<usize>) {
        let (go, gone) = mpsc::channel();
        let (count, counted) = mpsc::channel();
        let gone = std::sync::Arc::new(std::sync::Mutex::new(gone));
        let server = serve(move |_, mut stream| {
            gone.lock().unwrap().recv().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            count.send(all.len()).unwrap();
        });
        let stream = Dialer::new(server, None, None).open().unwrap();
        let channel = Channel::of_stream(stream).unwrap();
        (Pipeline::new(channel, Duration::ZERO), go, counted)
    }

    fn sets(keys: &str, value_bytes: &str) -> Ask {
        let pool = Pool::new(&load(&[keys, value_bytes])).unwrap();
        Ask::new(Dialect::Text, 1, Source::EveryKey(0), &pool)
    }

    #[test]
    fn a_batch_is_written_at_once_and_noted_as_pending() {
        let (mut pipeline, go, counted) = paused();
        let mut ask = sets("--keys=100", "--value-bytes=10");
        assert!(!pipeline.is_asking());
        pipeline.batch_left = 5;
        pipeline.pump(&mut ask, &mut Vec::new(), 77).unwrap();
        assert_eq!((pipeline.pending.len(), pipeline.batch_left), (5, 0));
        assert_eq!(pipeline.heard_ns, 77, "the wait for an answer begins now");
        pipeline.batch_left = 1;
        pipeline.pump(&mut ask, &mut Vec::new(), 99).unwrap();
        assert_eq!(pipeline.heard_ns, 77, "and goes on while answers are pending");
        assert!(pipeline.is_asking() && !pipeline.is_blocked());
        go.send(()).unwrap();
        drop(pipeline);
        let set = "set bench:00000000000000 0 0 10\r\n0123456789\r\n";
        assert_eq!(counted.recv().unwrap(), 6 * set.len());
    }

    #[test]
    fn a_source_without_more_requests_ends_the_batch() {
        let (mut pipeline, ..) = paused();
        pipeline.batch_left = 64;
        pipeline.pump(&mut sets("--keys=3", "--value-bytes=1"), &mut Vec::new(), 0).unwrap();
        assert_eq!((pipeline.pending.len(), pipeline.batch_left), (3, 0));
    }

    /// Requests are written only while the socket accepts them, and every byte is finally sent.
    #[test]
    fn a_full_socket_holds_up_the_batch_and_loses_nothing() {
        let (mut pipeline, go, counted) = paused();
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        epoll::add(&epoll, &pipeline.channel, EventData::new_u64(3), EventFlags::IN).unwrap();
        let (mut ask, mut out) = (sets("--keys=64", "--value-bytes=1000000"), Vec::new());
        pipeline.batch_left = 64;
        pipeline.pump(&mut ask, &mut out, 0).unwrap();
        assert!(pipeline.is_blocked(), "64 MB do not fit into a socket");
        let left = pipeline.batch_left;
        assert!(left > 0, "requests are not written ahead of the socket");
        pipeline.pump(&mut ask, &mut out, 0).unwrap();
        assert_eq!(pipeline.batch_left, left, "nor while it is full");
        pipeline.watch(&epoll, 3).unwrap();
        go.send(()).unwrap();
        while pipeline.is_blocked() || pipeline.batch_left > 0 {
            let mut events: Vec<Event> = Vec::with_capacity(1);
            let second = Timespec { tv_sec: 5, tv_nsec: 0 };
            let room = rustix::buffer::spare_capacity(&mut events);
            epoll::wait(&epoll, room, Some(&second)).unwrap();
            let flags: Vec<_> = events.iter().map(|event| event.flags).collect();
            assert_eq!(flags, [EventFlags::OUT], "epoll reports that the socket has room again");
            pipeline.flush().unwrap();
            pipeline.pump(&mut ask, &mut out, 0).unwrap();
            pipeline.watch(&epoll, 3).unwrap();
        }
        assert_eq!((pipeline.pending.len(), pipeline.unsent.len()), (64, 0));
        drop(pipeline);
        let set = "set bench:00000000000000 0 0 1000000\r\n\r\n".len() + 1_000_000;
        assert_eq!(counted.recv().unwrap(), 64 * set);
    }

    #[test]
    fn a_connection_that_has_ended_is_an_error_of_the_next_send() {
        let server = serve(|_, stream| drop(stream));
        let stream = Dialer::new(server, None, None).open().unwrap();
        let mut pipeline = Pipeline::new(Channel::of_stream(stream).unwrap(), Duration::ZERO);
        let mut ask = sets("--keys=100000", "--value-bytes=1");
        let mut ended = None;
        // The first bytes may leave before the other end answers with a reset.
        for _ in 0..1000 {
            pipeline.batch_left = 1;
            ended = pipeline.pump(&mut ask, &mut Vec::new(), 0).err();
            if ended.is_some() {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        let ended = ended.unwrap();
        assert_eq!((ended.kind, ended.is_loss), ("connection closed", true), "{ended:?}");
    }

    #[test]
    fn the_rest_of_a_receive_is_kept_and_large_memory_is_freed() {
        let (mut pipeline, ..) = paused();
        pipeline.keep(b"answerrest".to_vec(), 6);
        assert_eq!(pipeline.received, b"rest");
        pipeline.keep(vec![0; KEPT_BYTES_MAX + 1], KEPT_BYTES_MAX + 1);
        assert_eq!(pipeline.received.capacity(), 0);
        pipeline.keep(Vec::with_capacity(10), 0);
        assert_eq!(pipeline.received.capacity(), 10, "small memory is used again");
    }

    #[test]
    fn an_end_is_a_loss_unless_the_request_itself_is_wrong() {
        for kind in [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe] {
            let ended = ConnectionEnd::from(io::Error::from(kind));
            assert_eq!((ended.kind, ended.is_loss), ("connection closed", true));
        }
        let ended = ConnectionEnd::from(io::Error::other("a bad record"));
        assert_eq!((ended.kind, ended.is_loss), ("connection failed", true));
        assert_eq!(ended.reason, "a bad record");
        let ended = ConnectionEnd::from(anyhow::anyhow!("inner").context("outer"));
        assert_eq!((ended.kind, ended.is_loss), ("request cannot be made", false));
        assert_eq!(ended.reason, "outer: inner");
    }
}
