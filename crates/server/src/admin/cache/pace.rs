//! The rate at which a value has to move: a peer that is slower does not hold memory for long.

use std::time::Duration;

use tokio::time::Instant;

/// How much of a body has moved since when.
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

    /// Returns when the next bytes have to move at the latest.
    pub(super) fn deadline(&self) -> Instant {
        self.began + GRACE + Duration::from_millis(self.bytes.saturating_mul(1000) / BYTES_PER_SEC)
    }
}

/// How long a peer may be slow …
const GRACE: Duration = Duration::from_secs(10);

/// … before it has to reach this rate, on average.
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
