//! The stored items of one size class, divided into the queues that memcached would use.

use larder::Sampled;
use larder_item::{Deadline, Second};

/// The items stored of one class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    hot: Queue,
    warm: Queue,
    cold: Queue,
    temporary: Queue,
    bytes: u64,
    /// Chunks of the class in use, both for its items and for parts of larger items.
    chunks: u64,
}

/// One of the LRU queues that memcached would have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queue {
    number: u64,
    /// The second in which the least recently used item was last used.
    oldest: Option<Second>,
}

impl Stored {
    /// Counts an item. `bytes` is its size as memcached counts it.
    pub(super) fn add(&mut self, item: &Sampled, bytes: u64, temporary_secs: Option<Second>) {
        self.bytes += bytes;
        let queue = self.queue_of(item, temporary_secs);
        queue.number += 1;
        let seen = item.meta.seen;
        queue.oldest = Some(queue.oldest.map_or(seen, |oldest| oldest.min(seen)));
    }

    /// Counts a chunk of the class that contains an item or a part of a larger item.
    pub(super) fn add_chunk(&mut self) {
        self.chunks += 1;
    }

    fn queue_of(&mut self, item: &Sampled, temporary_secs: Option<Second>) -> &mut Queue {
        let ttl = item.meta.deadline.0.saturating_sub(item.placed);
        let is_mortal = item.meta.deadline != Deadline::NEVER;
        if is_mortal && temporary_secs.is_some_and(|secs| ttl <= secs) {
            &mut self.temporary
        } else if item.is_new {
            &mut self.hot
        } else if item.is_read {
            &mut self.warm
        } else {
            &mut self.cold
        }
    }

    /// Returns the new items.
    pub(crate) fn hot(&self) -> Queue {
        self.hot
    }

    /// Returns the older items that were read.
    pub(crate) fn warm(&self) -> Queue {
        self.warm
    }

    /// Returns the items that are in none of the other queues.
    pub(crate) fn cold(&self) -> Queue {
        self.cold
    }

    /// Returns the items that expire soon.
    pub(crate) fn temporary(&self) -> Queue {
        self.temporary
    }

    /// Returns the memory of the items as memcached counts it, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of chunks in use.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    fn queues(&self) -> [Queue; 4] {
        [self.hot, self.warm, self.cold, self.temporary]
    }

    /// Returns the number of items.
    pub(crate) fn number(&self) -> u64 {
        self.queues().iter().map(|queue| queue.number).sum()
    }

    /// Returns the seconds since the least recently used item was used.
    pub(crate) fn age(&self, now: Second) -> u64 {
        self.queues().iter().map(|queue| queue.age(now)).max().unwrap_or(0)
    }

    /// Scales all counts up from the sample to the whole cache.
    pub(super) fn project(&mut self, projected: impl Fn(u64) -> u64) {
        let Self { hot, warm, cold, temporary, bytes, chunks } = self;
        let queues = [hot, warm, cold, temporary].map(|queue| &mut queue.number);
        for number in queues.into_iter().chain([bytes, chunks]) {
            *number = projected(*number);
        }
    }
}

impl Queue {
    /// Returns the number of items.
    pub(crate) fn number(self) -> u64 {
        self.number
    }

    /// Same as [`Stored::age`].
    pub(crate) fn age(self, now: Second) -> u64 {
        self.oldest.map_or(0, |oldest| u64::from(now.saturating_sub(oldest)))
    }
}
