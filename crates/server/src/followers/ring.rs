//! The ring of a slot: the messages that its subscriptions have not read.

/// The message that everything may have changed. The others are the numbers of buckets.
pub(super) const EVERYTHING: u32 = u32::MAX;

/// The number of messages in a ring.
pub(super) const MESSAGES: usize = 4096;

/// The latest messages of a slot. Messages are numbered from 0.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The latest messages; empty before the first one.
    messages: Vec<u32>,
    /// The number of the next message.
    next: u64,
}

/// The messages that a reader has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// This message.
    Message(u32),
    /// More messages than the ring holds.
    TooMany,
    /// None.
    Nothing,
}

impl Ring {
    /// Adds a message in place of the oldest one.
    pub(super) fn push(&mut self, message: u32) {
        if self.messages.is_empty() {
            self.messages = vec![0; MESSAGES];
        }
        self.messages[self.next as usize % MESSAGES] = message;
        self.next += 1;
    }

    /// Returns the number of the next message, which is the position of a reader that has read all.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the message at a reader's position, and advances the position.
    pub(super) fn read(&self, position: &mut u64) -> Unread {
        if *position == self.next {
            return Unread::Nothing;
        }
        if self.next - *position > MESSAGES as u64 {
            *position = self.next;
            return Unread::TooMany;
        }
        let message = self.messages[*position as usize % MESSAGES];
        *position += 1;
        Unread::Message(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_reads_all_messages_or_that_there_were_too_many() {
        let mut ring = Ring::default();
        let (mut fast, mut slow) = (ring.next(), ring.next());
        assert_eq!(ring.read(&mut fast), Unread::Nothing);
        for message in 0..MESSAGES as u32 {
            ring.push(message);
            assert_eq!(ring.read(&mut fast), Unread::Message(message));
        }
        assert_eq!(ring.read(&mut slow), Unread::Message(0), "the ring is full");
        ring.push(7);
        assert_eq!(ring.read(&mut slow), Unread::Message(1));
        ring.push(8);
        ring.push(9);
        assert_eq!(ring.read(&mut slow), Unread::TooMany);
        assert_eq!(ring.read(&mut slow), Unread::Nothing);
        for message in [7, 8, 9] {
            assert_eq!(ring.read(&mut fast), Unread::Message(message));
        }
    }
}
