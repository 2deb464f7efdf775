//! The token bucket of a user's `rate`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A token bucket that holds the requests of one second. All workers share it.
///
/// It is the virtual scheduling form of the bucket (GCRA, ITU-T I.371): one number, the time at
/// which the bucket is full again.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    full_ns: AtomicU64,
}

impl Bucket {
    /// Takes one request out of a bucket that `rate` requests per second fill. Returns false if
    /// the bucket is empty.
    pub(super) fn take(&self, rate: u32, now_ns: u64) -> bool {
        let request_ns = SECOND_NS / u64::from(rate.max(1));
        let taken = self.full_ns.fetch_update(Relaxed, Relaxed, |full_ns| {
            let full_ns = full_ns.max(now_ns) + request_ns;
            (full_ns <= now_ns + SECOND_NS).then_some(full_ns)
        });
        taken.is_ok()
    }
}

const SECOND_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &Bucket, rate: u32, now_ns: u64) -> usize {
        (0..10_000).take_while(|_| bucket.take(rate, now_ns)).count()
    }

    #[test]
    fn a_bucket_holds_the_requests_of_one_second() {
        let (bucket, start) = (Bucket::default(), 5 * SECOND_NS);
        assert_eq!(taken(&bucket, 1000, start), 1000);
        assert_eq!(taken(&bucket, 1000, start + SECOND_NS / 10), 100);
        assert_eq!(taken(&bucket, 1000, start + SECOND_NS * 60), 1000, "not more after a pause");
    }

    #[test]
    fn a_bucket_of_one_admits_one_request_per_second() {
        let bucket = Bucket::default();
        assert_eq!(taken(&bucket, 1, SECOND_NS), 1);
        assert_eq!(taken(&bucket, 1, SECOND_NS + SECOND_NS / 2), 0);
        assert_eq!(taken(&bucket, 1, 2 * SECOND_NS), 1);
    }
}
