//! A part of a value that the kernel receives to where it stays.

use std::cell::UnsafeCell;
use std::fmt;
use std::{mem, ptr};

use larder::DirectBuffer;
use nix::libc;

/// A part of a value that is received to where it stays, and what comes behind the value.
pub(crate) struct Arrival {
    direct_buffer: DirectBuffer,
    value_bytes: usize,
    /// The kernel writes to it.
    behind: UnsafeCell<[u8; BEHIND_BYTES]>,
    has_behind: bool,
    /// Made when the kernel is told.
    header: libc::msghdr,
    parts: [libc::iovec; 2],
}

// SAFETY: what it points to belongs to no thread. `behind` is lent only to who has all of it.
unsafe impl Send for Arrival {}

impl Arrival {
    /// For the first `value_bytes` of the landing's room; with room for what comes behind where the value ends there.
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
            // SAFETY: a header of zeros is one without address, parts and control data.
            header: unsafe { mem::zeroed() },
            parts: [nowhere; 2],
        })
    }

    /// The room, how many of the `bytes` received are in it, and those that came behind.
    pub(crate) fn into_parts(self: Box<Self>, bytes: usize) -> (DirectBuffer, usize, Vec<u8>) {
        let value_bytes = bytes.min(self.value_bytes);
        let Self { direct_buffer, behind, .. } = *self;
        let behind = behind.into_inner();
        let behind = behind.get(..bytes - value_bytes).unwrap_or_default();
        (direct_buffer, value_bytes, behind.to_vec())
    }

    /// What the kernel is to be told. All of it stays where it is while the box does.
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

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("direct_buffer", &self.direct_buffer)
            .finish_non_exhaustive()
    }
}

/// Room for what comes behind a value: the line end, and the beginning of what is sent with it.
const BEHIND_BYTES: usize = 64;
