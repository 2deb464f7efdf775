//! One direction of a connection: reads from one socket and writes to the other. Never interprets
//! the bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;

use socket2::Socket;

/// The state of a direction. It holds bytes only while their receiver does not accept them.
#[derive(Debug, Default)]
pub(super) struct Flow {
    held: Vec<u8>,
    sent: usize,
    /// True if the sender has closed its side.
    pub(super) is_ended: bool,
    /// True if the receiver knows that.
    pub(super) is_shut: bool,
    /// True if the receiver accepts no more bytes. What the sender still sends is dropped.
    pub(super) is_broken: bool,
}

impl Flow {
    /// True if the receiver has not accepted all bytes.
    pub(super) fn is_held(&self) -> bool {
        self.sent < self.held.len()
    }

    /// True if more bytes can be read.
    pub(super) fn wants_bytes(&self) -> bool {
        !self.is_held() && !self.is_ended
    }

    /// Moves the bytes that are ready, and calls `copy` with them.
    ///
    /// # Errors
    /// The sender's connection has failed.
    pub(super) fn pump(
        &mut self,
        mut from: &Socket,
        to: &Socket,
        buffer: &mut [u8],
        mut copy: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        for _ in 0..READS_PER_EVENT {
            self.send_held(to);
            if self.is_held() {
                return Ok(());
            }
            if self.is_ended {
                self.shut(to);
                return Ok(());
            }
            match from.read(buffer) {
                Ok(0) => self.is_ended = true,
                Ok(bytes) => {
                    let received = &buffer[..bytes];
                    // The copy comes first: once the receiver has the bytes, copies of its
                    // reactions may arrive, also through other threads.
                    copy(received);
                    let sent = self.send(to, received);
                    if !self.is_broken && sent < bytes {
                        self.held.clear();
                        self.held.extend_from_slice(&received[sent..]);
                        self.sent = 0;
                    }
                    if bytes < buffer.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn shut(&mut self, to: &Socket) {
        if !self.is_shut {
            self.is_shut = true;
            // The receiver may have closed the connection already.
            let _ = to.shutdown(Shutdown::Write);
        }
    }

    fn send_held(&mut self, to: &Socket) {
        if self.is_held() {
            let held = std::mem::take(&mut self.held);
            self.sent += self.send(to, &held[self.sent..]);
            if self.sent < held.len() && !self.is_broken {
                self.held = held;
            } else {
                self.sent = 0;
            }
        }
    }

    /// Writes as many bytes as the receiver accepts. Returns their number.
    fn send(&mut self, mut to: &Socket, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() && !self.is_broken {
            match to.write(&bytes[sent..]) {
                Ok(accepted) => sent += accepted,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_broken = true,
            }
        }
        sent
    }
}

/// The number of reads of one direction before another connection has its turn.
const READS_PER_EVENT: u32 = 8;
