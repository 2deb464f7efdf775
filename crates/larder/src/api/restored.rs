//! Limits on the lives of items from before the start of a process, for servers.

use super::cache::Cache;

impl Cache {
    /// Returns a cas token that is at least as high as those of all items, except tokens above 2⁵³
    /// that clients have requested. The tokens that the cache assigns from now on are higher.
    ///
    /// Cost: a load for each thread slot.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// cache.set("old", "1", None)?;
    /// let end = cache.end_tokens();
    /// cache.set("new", "2", None)?;
    /// let cas = |key: &[u8]| cache.peek(key).map_or(0, |meta| meta.cas);
    /// assert!(cas(b"old") <= end && cas(b"new") > end);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end_tokens(&self) -> u64 {
        self.shared().engine.end_versions()
    }

    /// Makes the items on the disk whose cas token is at most `cas_max` expire at `until_unix_secs`
    /// at the latest. Has no effect without a disk tier.
    pub fn limit_lives_on_disk(&self, cas_max: u64, until_unix_secs: u64) {
        if let Some(tier) = self.shared().tier.own() {
            tier.store().limit_lives(cas_max, until_unix_secs);
        }
    }
}
