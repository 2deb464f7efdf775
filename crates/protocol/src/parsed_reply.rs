//! The result of parsing a server's bytes, for clients of every dialect.

/// The result of reading a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedReply<R> {
    /// A reply in the first `consumed` bytes.
    Reply {
        /// The reply.
        reply: R,
        /// Bytes consumed, at least one.
        consumed: usize,
    },
    /// The bytes are the beginning of a reply of at least `bytes_min` bytes. The caller calls again
    /// when it has received that many bytes. The number comes from the peer, so that the caller
    /// must limit it before it allocates memory.
    NeedMore {
        /// The minimum length of the reply in bytes, more than the length of the input.
        bytes_min: u64,
    },
    /// The bytes are not a reply of the dialect. The rest of the stream cannot be parsed either.
    Bad,
}
