//! What a client makes of a server's bytes, whichever dialect they are in.

/// The outcome of reading a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<R> {
    /// A reply; its first `consumed` bytes are used up.
    Reply {
        /// What was answered.
        reply: R,
        /// Bytes used up, at least one.
        consumed: usize,
    },
    /// The bytes are the beginning of a reply that has at least `bytes_min` bytes; ask again when there are
    /// that many. The number comes from the peer: bound it before trusting it with memory.
    NeedMore {
        /// Bytes the reply has at least, more than there are now.
        bytes_min: u64,
    },
    /// The bytes are no reply of the dialect: nothing that follows can be trusted either.
    Bad,
}
