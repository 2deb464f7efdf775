//! Requests over UDP. A request is one datagram, and its response one or more. The header of each
//! datagram contains the number of the request.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};

use anyhow::{Context, Result, bail};
use socket2::{Domain, Socket, Type};

use crate::address::Address;
use crate::connect::look_up;

/// The current request and the parts of its response.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    request: u16,
    parts: BTreeMap<u16, Vec<u8>>,
    /// The reassembled response, and the number of bytes already taken.
    answer: Vec<u8>,
    taken: usize,
    buffer: Vec<u8>,
}

impl Datagrams {
    /// Returns a socket that sends to this address and receives only from it.
    ///
    /// # Errors
    /// The host has no address.
    pub(crate) fn connect(address: &Address) -> Result<Socket> {
        let Address::Tcp { host, port } = address else { bail!("a Unix socket has no UDP") };
        let mut found = look_up(host, *port).with_context(|| address.to_string())?;
        let found =
            found.next().with_context(|| format!("the host of {address} has no address"))?;
        let socket = Socket::new(Domain::for_address(found), Type::DGRAM, None)?;
        socket.connect(&found.into())?;
        // A response may be a burst of many datagrams. The kernel may give a smaller buffer than
        // requested, which also works.
        socket.set_recv_buffer_size(RECEIVED_BYTES_MAX).ok();
        Ok(socket)
    }

    /// Sends a complete request.
    ///
    /// # Errors
    /// Errors of the socket.
    pub(crate) fn send(&mut self, socket: &mut Socket, request: &[u8]) -> io::Result<usize> {
        if request.is_empty() {
            return Ok(0);
        }
        let number = self.request.wrapping_add(1);
        self.buffer.clear();
        for word in [number, 0, 1, 0] {
            self.buffer.extend_from_slice(&word.to_be_bytes());
        }
        self.buffer.extend_from_slice(request);
        socket.write_all(&self.buffer)?;
        self.request = number;
        self.parts.clear();
        Ok(request.len())
    }

    /// Receives the response to the last request, or a part of it that fills `out`.
    ///
    /// # Errors
    /// Errors of the socket, including [`ErrorKind::WouldBlock`], and a datagram without a valid
    /// header.
    pub(crate) fn receive(&mut self, socket: &mut Socket, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.answer.len() {
            self.answer.clear();
            self.taken = 0;
            self.buffer.resize(DATAGRAM_BYTES_MAX, 0);
            let received = socket.read(&mut self.buffer)?;
            self.take(received)?;
        }
        let rest = &self.answer[self.taken..];
        let bytes = rest.len().min(out.len());
        out[..bytes].copy_from_slice(&rest[..bytes]);
        self.taken += bytes;
        Ok(bytes)
    }

    fn take(&mut self, received: usize) -> io::Result<()> {
        let Some((head, part)) = self.buffer[..received].split_first_chunk::<HEAD_BYTES>() else {
            return Err(io::Error::new(ErrorKind::InvalidData, "a datagram without its header"));
        };
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (number, part_number, part_count) = (word(0), word(2), word(4));
        // A late response to an abandoned request.
        if number != self.request {
            return Ok(());
        }
        self.parts.insert(part_number, part.to_vec());
        let last = self.parts.last_key_value().map_or(0, |(last, _)| *last);
        if self.parts.len() == usize::from(part_count) && last < part_count {
            for part in std::mem::take(&mut self.parts).into_values() {
                self.answer.extend_from_slice(&part);
            }
        }
        Ok(())
    }
}

const HEAD_BYTES: usize = 8;
/// The longest UDP datagram, in bytes.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
const RECEIVED_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(datagrams: &mut Datagrams, [number, part, count]: [u8; 3], text: &[u8]) {
        datagrams.buffer = [&[0, number, 0, part, 0, count, 0, 0], text].concat();
        datagrams.take(HEAD_BYTES + text.len()).unwrap();
    }

    #[test]
    fn parts_are_joined_in_any_order_and_late_answers_dropped() {
        let mut datagrams = Datagrams { request: 7, ..Datagrams::default() };
        take(&mut datagrams, [7, 2, 3], b"c");
        take(&mut datagrams, [6, 1, 3], b"x");
        take(&mut datagrams, [7, 2, 3], b"c");
        take(&mut datagrams, [7, 0, 3], b"a");
        assert_eq!(datagrams.answer, b"");
        take(&mut datagrams, [7, 1, 3], b"b");
        assert_eq!(datagrams.answer, b"abc");
    }

    #[test]
    fn a_datagram_shorter_than_its_header_is_an_error() {
        let mut datagrams = Datagrams { buffer: vec![0; 7], ..Datagrams::default() };
        assert!(datagrams.take(7).is_err());
    }
}
