//! Escapes a `#` in the target of a request.
//!
//! The target is the path and query in the first line of a request. It must not contain a `#` (RFC
//! 9112 §3.2): a client should send `%23`. hyper treats it as the start of a fragment and drops the
//! rest, so that `DELETE /…/user#1` would delete `user`. Go's net/http, and therefore BigCache's
//! server, treats it as a part of the path. With this module larderd does the same.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of requests that replaces each `#` in a target with `%23`.
#[derive(Debug)]
pub(super) struct Targets<S> {
    stream: S,
    framing: Framing,
    /// The rest of an escaped byte that did not fit into a buffer.
    left: Vec<u8>,
}

impl<S> Targets<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, framing: Framing::default(), left: Vec::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Targets<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let Self { stream, framing, left } = &mut *self;
        if left.is_empty() {
            let mut bytes = [MaybeUninit::uninit(); READ_BYTES_MAX];
            let room = framing.readable(buffer.remaining()).min(READ_BYTES_MAX);
            let mut read = ReadBuf::uninit(&mut bytes[..room]);
            ready!(Pin::new(stream).poll_read(context, &mut read))?;
            framing.escape(read.filled(), |part| {
                let (fits, rest) = part.split_at(part.len().min(buffer.remaining()));
                buffer.put_slice(fits);
                left.extend_from_slice(rest);
            });
        } else {
            let rest = left.split_off(left.len().min(buffer.remaining()));
            buffer.put_slice(left);
            *left = rest;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Targets<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The position of a stream within its requests. Implements as much of RFC 9112 as is necessary to
/// tell a request line from a body. If hyper refuses the input, it ends the connection, regardless
/// of the state here.
#[derive(Debug, Default)]
struct Framing {
    part: Part,
    /// The beginning of the line, in lower case.
    line: Vec<u8>,
    /// The length of the body according to the headers so far.
    content_bytes: u64,
    is_chunked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    RequestLine,
    Header,
    /// This many bytes follow.
    Body(u64),
    /// The line with the length of a chunk.
    ChunkSize,
    /// This many bytes follow, then the end of a line.
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// The lines after the last chunk.
    Trailer,
}

impl Framing {
    /// Returns how many bytes may be read into a buffer with this much space.
    fn readable(&self, room: usize) -> usize {
        match self.part {
            Part::Body(bytes) | Part::Chunk(bytes) => {
                room.min(usize::try_from(bytes).unwrap_or(room))
            }
            // One byte may become three.
            _ => (room / 3).max(1),
        }
    }

    /// Passes the bytes to `give`, with the targets escaped.
    fn escape(&mut self, mut bytes: &[u8], mut give: impl FnMut(&[u8])) {
        while let Some(byte) = bytes.first() {
            let taken = match self.part {
                Part::Body(left) | Part::Chunk(left) => {
                    bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))
                }
                _ => 1,
            };
            let (part, rest) = bytes.split_at(taken);
            give(if self.part == Part::RequestLine && *byte == b'#' { b"%23" } else { part });
            self.pass(part);
            bytes = rest;
        }
    }

    fn pass(&mut self, part: &[u8]) {
        let bytes = part.len() as u64;
        self.part = match (self.part, part) {
            (Part::Body(left), _) if left > bytes => Part::Body(left - bytes),
            (Part::Body(_), _) => Part::RequestLine,
            (Part::Chunk(left), _) if left > bytes => Part::Chunk(left - bytes),
            (Part::Chunk(_), _) => Part::ChunkEnd,
            (_, [b'\n']) => self.end_line(),
            (same, _) => {
                if self.line.len() < LINE_BYTES_MAX && part != b"\r" {
                    self.line.extend(part.iter().map(u8::to_ascii_lowercase));
                }
                same
            }
        };
    }

    fn end_line(&mut self) -> Part {
        let line = std::mem::take(&mut self.line);
        let next = match self.part {
            Part::RequestLine if line.is_empty() => Part::RequestLine,
            Part::RequestLine => Part::Header,
            Part::Header if !line.is_empty() => {
                self.note_header(&line);
                Part::Header
            }
            Part::Header if self.is_chunked => Part::ChunkSize,
            Part::Header if self.content_bytes > 0 => Part::Body(self.content_bytes),
            Part::ChunkSize => match chunk_bytes(&line) {
                0 => Part::Trailer,
                bytes => Part::Chunk(bytes),
            },
            Part::ChunkEnd => Part::ChunkSize,
            Part::Trailer if !line.is_empty() => Part::Trailer,
            Part::Header | Part::Trailer | Part::Body(_) | Part::Chunk(_) => Part::RequestLine,
        };
        if !matches!(next, Part::Header) {
            (self.content_bytes, self.is_chunked) = (0, false);
        }
        // Keeps the line's memory.
        self.line = line;
        self.line.clear();
        next
    }

    fn note_header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name {
            b"content-length" => {
                let value = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.content_bytes = value.unwrap_or(0);
            }
            b"transfer-encoding" => self.is_chunked = value.ends_with(b"chunked"),
            _ => {}
        }
    }
}

/// Returns the length of a chunk according to the line before it.
fn chunk_bytes(line: &[u8]) -> u64 {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let digits = std::str::from_utf8(digits).ok();
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

const READ_BYTES_MAX: usize = 8 << 10;

/// The part of a line that is examined. Longer lines do not matter here.
const LINE_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const REQUESTS: &str = "\r\nGET /a#b?c#d HTTP/1.1\r\nX-Y: #\r\n\r\n\
        PUT /# HTTP/1.1\r\nContent-Length: 23\r\n\r\nGET /# HTTP/1.1\r\n\r\n####\
        PUT /x#y HTTP/1.1\r\ntransfer-ENCODING:  chunked\r\n\r\n\
        5;x=#\r\n#\r\n\r\n\r\nA\r\nGET /#\r\n##\r\n0\r\nTrailer: #\r\n\r\n\
        DELETE http://h/# HTTP/1.1\nContent-Length: 0\n\nGET /#";

    const ESCAPED: &str = "\r\nGET /a%23b?c%23d HTTP/1.1\r\nX-Y: #\r\n\r\n\
        PUT /%23 HTTP/1.1\r\nContent-Length: 23\r\n\r\nGET /# HTTP/1.1\r\n\r\n####\
        PUT /x%23y HTTP/1.1\r\ntransfer-ENCODING:  chunked\r\n\r\n\
        5;x=#\r\n#\r\n\r\n\r\nA\r\nGET /#\r\n##\r\n0\r\nTrailer: #\r\n\r\n\
        DELETE http://h/%23 HTTP/1.1\nContent-Length: 0\n\nGET /%23";

    #[test]
    fn targets_alone_are_escaped_in_pieces_of_any_length() {
        for piece in 1..REQUESTS.len() {
            let (mut framing, mut given) = (Framing::default(), Vec::new());
            for bytes in REQUESTS.as_bytes().chunks(piece) {
                framing.escape(bytes, |part| given.extend_from_slice(part));
            }
            assert_eq!(String::from_utf8(given).unwrap(), ESCAPED, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_buffer_of_any_length_gets_every_byte() {
        let mut context = Context::from_waker(Waker::noop());
        for room in 1..9 {
            let (mut targets, mut given) = (Targets::new(REQUESTS.as_bytes()), Vec::new());
            loop {
                let mut bytes = vec![0; room];
                let mut buffer = ReadBuf::new(&mut bytes);
                let read = Pin::new(&mut targets).poll_read(&mut context, &mut buffer);
                assert!(matches!(read, Poll::Ready(Ok(()))), "{read:?}");
                if buffer.filled().is_empty() {
                    break;
                }
                given.extend_from_slice(buffer.filled());
            }
            assert_eq!(String::from_utf8(given).unwrap(), ESCAPED, "with {room} bytes of room");
        }
    }
}
