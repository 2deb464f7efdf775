//! The bytes that wait to be sent on a link.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

/// Bytes in the order in which they are sent.
#[derive(Debug, Default)]
pub(in crate::near) struct Outgoing {
    parts: VecDeque<Vec<u8>>,
    /// How many bytes of the first part are sent.
    sent: usize,
}

impl Outgoing {
    pub(in crate::near) fn is_empty(&self) -> bool {
        self.parts.iter().all(Vec::is_empty)
    }

    pub(in crate::near) fn clear(&mut self) {
        self.parts.clear();
        self.sent = 0;
    }

    /// Appends what `write` writes.
    pub(in crate::near) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self.parts.back_mut() {
            Some(last) if last.len() < PART_BYTES => write(last),
            Some(_) | None => {
                let mut part = Vec::new();
                write(&mut part);
                self.parts.push_back(part);
            }
        }
    }

    /// Appends bytes. Copies them only if they are few.
    pub(in crate::near) fn push_part(&mut self, part: Vec<u8>) {
        if part.len() < PART_BYTES {
            self.push(|out| out.extend_from_slice(&part));
        } else {
            self.parts.push_back(part);
        }
    }

    /// Sends what the socket accepts, up to a limit. Returns how many bytes it has sent.
    pub(in crate::near) fn send(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        let mut total = 0;
        loop {
            let is_last = self.parts.len() == 1;
            let Some(part) = self.parts.front_mut() else { break };
            let rest = part.get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.sent = 0;
                if is_last && part.capacity() <= PART_BYTES_KEPT {
                    part.clear();
                    break;
                }
                self.parts.pop_front();
                continue;
            }
            if total >= SENT_BYTES_MAX {
                break;
            }
            match socket.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => (self.sent, total) = (self.sent + bytes, total + bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }
}

/// A part with this many bytes is not extended or copied.
const PART_BYTES: usize = 64 * 1024;

/// The largest part whose memory an idle link keeps.
const PART_BYTES_KEPT: usize = 256 * 1024;

/// How much a link sends before other links have their turn.
const SENT_BYTES_MAX: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts a few bytes, then no more until the next call.
    struct Slow(Vec<u8>, usize);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.1 == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let bytes = &bytes[..bytes.len().min(self.1)];
            self.1 -= bytes.len();
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn parts_are_sent_in_order_whatever_the_socket_accepts() {
        for step in [1000, PART_BYTES, PART_BYTES + 1, 3 * SENT_BYTES_MAX] {
            let (mut out, mut expected) = (Outgoing::default(), Vec::new());
            let mut socket = Slow(Vec::new(), 0);
            for number in 0..12u8 {
                let part = vec![number; if number % 3 == 0 { 10 } else { 150_000 }];
                expected.extend_from_slice(&part);
                out.push_part(part);
                out.push(|out| out.push(number));
                expected.push(number);
                socket.1 = step;
                out.send(&mut socket).unwrap();
            }
            while !out.is_empty() {
                socket.1 = step;
                assert!(out.send(&mut socket).unwrap() <= SENT_BYTES_MAX + 150_000);
            }
            assert!(socket.0 == expected, "in steps of {step}");
        }
    }
}
