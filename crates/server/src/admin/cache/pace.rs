//! The minimum rate of a transfer, so that a slow peer does not hold memory for a long time.

use std::time::Duration;

use tokio::time::Instant;

/// How many bytes of a body have moved, and when the transfer began.
#[derive(Debug)]
pub(super) struct Pace {
    began: Instant,
    bytes: u64,
}

impl Pace {
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), bytes: 0 }
    }

    pub(super) fn note(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Returns the deadline for the next bytes.
    pub(super) fn deadline(&self) -> Instant {
        self.began + GRACE + Duration::from_millis(self.bytes.saturating_mul(1000) / BYTES_PER_SEC)
    }
}

/// How long a peer may be slow …
const GRACE: Duration = Duration::from_secs(10);

/// … before it must reach this rate on average.
const BYTES_PER_SEC: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_16_kib_give_another_second() {
        let mut pace = Pace::begin();
        assert_eq!(pace.deadline() - pace.began, GRACE);
        pace.note(16 * 1024);
        assert_eq!(pace.deadline() - pace.began, GRACE + Duration::from_secs(1));
        pace.note(1 << 30);
        assert_eq!(pace.deadline() - pace.began, GRACE + Duration::from_secs(1 + (1 << 16)));
    }
}
