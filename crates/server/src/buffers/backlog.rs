//! Backlogs, which are queues of bytes: a connection's unconsumed input, for example an incomplete
//! command, and its TLS records that the socket did not accept.

/// A byte queue. It owns no memory while it is empty.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    /// How many bytes at the beginning of `bytes` have been used up.
    used_bytes: usize,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the waiting bytes.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.used_bytes..]
    }

    /// Returns the memory that the backlog owns, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the vector to append to, with capacity for at least `room_bytes` more.
    pub(crate) fn with_room(&mut self, room_bytes: usize) -> &mut Vec<u8> {
        self.drop_used();
        self.bytes.reserve(room_bytes);
        &mut self.bytes
    }

    /// Removes the first `bytes` of the waiting bytes.
    pub(crate) fn use_up(&mut self, bytes: usize) {
        self.used_bytes += bytes;
        if self.used_bytes == self.bytes.len() {
            *self = Self::default();
        } else if self.used_bytes > self.bytes.len() / 2 {
            // The move is shorter than the bytes that were used up, so each byte is moved once on
            // average.
            self.drop_used();
            self.bytes.shrink_to(2 * self.bytes.len());
        }
    }

    fn drop_used(&mut self) {
        self.bytes.drain(..self.used_bytes);
        self.used_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came() {
        let mut backlog = Backlog::default();
        backlog.push(b"abcdef");
        backlog.use_up(1);
        assert_eq!(backlog.waiting(), b"bcdef");
        backlog.use_up(3);
        backlog.push(b"gh");
        assert_eq!(backlog.waiting(), b"efgh");
        backlog.with_room(10).extend_from_slice(b"i");
        assert_eq!(backlog.waiting(), b"efghi");
    }

    #[test]
    fn memory_is_given_back_as_it_empties() {
        let mut backlog = Backlog::default();
        backlog.push(&[0; 100_000]);
        backlog.use_up(99_000);
        assert!(backlog.held_bytes() < 10_000);
        backlog.use_up(1000);
        assert!(backlog.is_empty());
        assert_eq!(backlog.held_bytes(), 0);
    }
}
