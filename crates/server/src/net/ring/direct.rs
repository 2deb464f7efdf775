//! Direct receive: the kernel receives a part of a value into its final place.

use std::cell::UnsafeCell;
use std::fmt;
use std::{mem, ptr};

use larder::DirectBuffer;
use nix::libc;

/// The buffer of a direct receive: a part of a value in its final place, and the bytes that follow
/// the value.
pub(crate) struct DirectReceive {
    direct_buffer: DirectBuffer,
    value_bytes: usize,
    /// The bytes that follow the value; written by the kernel.
    behind: UnsafeCell<[u8; BEHIND_BYTES]>,
    has_behind: bool,
    /// Filled in when the receive is submitted.
    header: libc::msghdr,
    parts: [libc::iovec; 2],
}

// SAFETY: the pointers are not tied to a thread. Only the owner of the whole struct can borrow
// `behind`.
unsafe impl Send for DirectReceive {}

impl DirectReceive {
    /// Receives the first `value_bytes` of the direct buffer. If the value ends there, also
    /// receives the bytes that follow it.
    pub(crate) fn new(
        direct_buffer: DirectBuffer,
        value_bytes: usize,
        has_behind: bool,
    ) -> Box<Self> {
        let nowhere = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Box::new(Self {
            direct_buffer,
            value_bytes,
            behind: UnsafeCell::new([0; BEHIND_BYTES]),
            has_behind,
            // SAFETY: a header of zeros is valid: it has no address, no parts and no control data.
            header: unsafe { mem::zeroed() },
            parts: [nowhere; 2],
        })
    }

    /// Splits `bytes` received bytes: returns the direct buffer, how many of the bytes are in it,
    /// and the bytes that arrived after the value.
    pub(crate) fn into_parts(self: Box<Self>, bytes: usize) -> (DirectBuffer, usize, Vec<u8>) {
        let value_bytes = bytes.min(self.value_bytes);
        let Self { direct_buffer, behind, .. } = *self;
        let behind = behind.into_inner();
        let behind = behind.get(..bytes - value_bytes).unwrap_or_default();
        (direct_buffer, value_bytes, behind.to_vec())
    }

    /// Returns the message header for the kernel. Everything it points to stays in place while the
    /// box exists.
    pub(super) fn header(&mut self) -> *mut libc::msghdr {
        if let Some((at, room_bytes)) = self.direct_buffer.room() {
            let iov_len = self.value_bytes.min(room_bytes);
            self.parts[0] = libc::iovec { iov_base: at.as_ptr().cast(), iov_len };
        }
        let iov_len = if self.has_behind { BEHIND_BYTES } else { 0 };
        self.parts[1] = libc::iovec { iov_base: self.behind.get().cast(), iov_len };
        (self.header.msg_iov, self.header.msg_iovlen) = (self.parts.as_mut_ptr(), 2);
        &raw mut self.header
    }
}

impl fmt::Debug for DirectReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectReceive")
            .field("direct_buffer", &self.direct_buffer)
            .finish_non_exhaustive()
    }
}

/// Space for the bytes after a value: the line end, and the beginning of the next command.
const BEHIND_BYTES: usize = 64;
