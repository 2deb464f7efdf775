//! Conversion of TTLs to exptimes.

use std::time::{SystemTime, UNIX_EPOCH};

use larder::Epoch;

/// Returns the exptime of an item that lives for `ttl_secs` from now. A TTL up to 30 days is sent
/// as it is, and a longer one as a Unix time.
pub(crate) fn exptime_of(ttl_secs: u32) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    exptime_at(ttl_secs, i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

fn exptime_at(ttl_secs: u32, now_unix_secs: i64) -> i64 {
    let ttl_secs = i64::from(ttl_secs);
    if ttl_secs <= Epoch::RELATIVE_SECS_MAX {
        ttl_secs
    } else {
        now_unix_secs.saturating_add(ttl_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_of_more_than_thirty_days_is_sent_as_a_unix_time() {
        assert_eq!(exptime_at(2_592_000, 1_700_000_000), 2_592_000);
        assert_eq!(exptime_at(2_592_001, 1_700_000_000), 1_702_592_001);
    }
}
