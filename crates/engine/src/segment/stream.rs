//! Append streams: they determine which records share segments.
//!
//! A stream is a pool and a TTL class. The pools separate items that were read from new items. The
//! TTL classes group items that expire together, so that complete segments become reclaimable at
//! the same time.

use larder_item::{Deadline, Second};
use larder_region::layout::TTL_CLASSES;

use crate::segment::Segments;

/// The two queues of S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP
/// 2023).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// New items. Most are never read again and leave the pool quickly.
    Small = 0,
    /// Items that were read in the small pool, or stored again soon after they left it.
    Main = 1,
}

/// A pool and a TTL class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) pool: Pool,
    /// Less than [`TTL_CLASSES`]; always 0 in a region with one class.
    pub(crate) ttl_class: u32,
}

/// The upper bounds of the TTL classes. The last class holds items that never expire.
const TTL_CLASS_SECS: [Second; TTL_CLASSES - 2] = [15 * 60, 4 * 3600];

impl Stream {
    /// Returns the number that represents the stream in a segment's header.
    pub(crate) fn number(self) -> u32 {
        self.pool as u32 | self.ttl_class << 1
    }

    pub(crate) fn of_number(number: u32) -> Self {
        let pool = if number & 1 == 0 { Pool::Small } else { Pool::Main };
        Self { pool, ttl_class: (number >> 1) % TTL_CLASSES as u32 }
    }

    /// Returns the stream of another pool with the same TTL class.
    pub(crate) fn in_pool(self, pool: Pool) -> Self {
        Self { pool, ..self }
    }
}

impl Segments {
    /// Returns the stream in a pool for an item with this deadline.
    pub(crate) fn stream_of(&self, pool: Pool, deadline: Deadline, now: Second) -> Stream {
        if self.region().layout().ttl_classes == 1 {
            return Stream { pool, ttl_class: 0 };
        }
        let ttl_class = match deadline {
            Deadline::NEVER => TTL_CLASSES - 1,
            Deadline(second) => {
                let ttl = second.saturating_sub(now);
                TTL_CLASS_SECS.iter().take_while(|limit| ttl >= **limit).count()
            }
        };
        Stream { pool, ttl_class: ttl_class as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_restored_from_its_number() {
        for pool in [Pool::Small, Pool::Main] {
            for ttl_class in 0..TTL_CLASSES as u32 {
                let stream = Stream { pool, ttl_class };
                assert_eq!(Stream::of_number(stream.number()), stream);
            }
        }
    }
}
