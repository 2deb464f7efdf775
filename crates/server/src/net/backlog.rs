//! Bytes that wait: input that is no whole command yet, records of TLS that a socket did not take.

/// Bytes that come in at the end and are used up from the beginning. Empty, it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    used_bytes: usize,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What waits.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.used_bytes..]
    }

    /// The memory it owns, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The vector, for whoever appends to it; there is room for `room_bytes`.
    pub(crate) fn with_room(&mut self, room_bytes: usize) -> &mut Vec<u8> {
        self.drop_used();
        self.bytes.reserve(room_bytes);
        &mut self.bytes
    }

    /// Takes away the first `bytes` of what waits.
    pub(crate) fn use_up(&mut self, bytes: usize) {
        self.used_bytes += bytes;
        if self.used_bytes == self.bytes.len() {
            *self = Self::default();
        } else if self.used_bytes > self.bytes.len() / 2 {
            // Moving less than was used up: each byte is moved once on average.
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
