//! Outputs that the kernel sends for a ring. Their memory must stay in place until it has finished.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::{fmt, mem};

use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use nix::libc;

use crate::buffers::output::Output;
use crate::net::token::Token;

/// An output that is being sent.
#[derive(Debug)]
pub(super) struct SendInProgress {
    pub(super) token: Token,
    pub(super) output: Output,
    /// The addresses of its parts, if there are several.
    message: Option<Box<Message>>,
}

impl SendInProgress {
    /// Prepares an output for a connection.
    pub(super) fn new(token: Token, output: Output) -> Self {
        let message = (!output.is_whole()).then(|| Message::of(&output));
        Self { token, output, message }
    }

    /// Returns the send operation. `self` must be kept unchanged until it completes. It may be
    /// moved: the bytes are in vectors, boxes or the cache, which stay in place.
    pub(super) fn operation(&self, socket: BorrowedFd<'_>) -> squeue::Entry {
        let (socket, flags) = (Fd(socket.as_raw_fd()), libc::MSG_NOSIGNAL);
        match &self.message {
            None => {
                let rest = self.output.rest();
                let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
                opcode::Send::new(socket, rest.as_ptr(), length).flags(flags).build()
            }
            Some(message) => {
                opcode::SendMsg::new(socket, &raw const message.header).flags(flags as u32).build()
            }
        }
    }
}

/// The addresses of an output's parts, in the format of the kernel.
struct Message {
    header: libc::msghdr,
    /// The parts that the header points to.
    _parts: Vec<libc::iovec>,
}

// SAFETY: the memory it points to is not tied to a thread. Only the kernel uses it, and only for
// reading.
unsafe impl Send for Message {}

impl Message {
    /// Lists the unsent parts of an output.
    fn of(output: &Output) -> Box<Self> {
        let part = |part: &[u8]| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        };
        let mut parts: Vec<libc::iovec> = output.parts().map(part).collect();
        // SAFETY: a zeroed header is valid: it has no address, no parts and no control data.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        Box::new(Self { header, _parts: parts })
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("parts", &self.header.msg_iovlen).finish_non_exhaustive()
    }
}
