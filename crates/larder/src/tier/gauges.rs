//! The gauges of a disk tier.

use larder_stats::TierGauge;
use larder_tier::format::SEGMENT_BYTES;
use larder_tier::store::Statistics;

use super::ticket::TierStatus;

impl TierStatus {
    /// Returns a gauge.
    pub fn gauge(&self, gauge: TierGauge) -> u64 {
        let tier = self;
        let Statistics { size_bytes, free_bytes, live_bytes, .. } = tier.statistics;
        let used_bytes = size_bytes.saturating_sub(free_bytes);
        match gauge {
            TierGauge::Items => tier.statistics.items,
            TierGauge::SizeBytes => tier.statistics.size_bytes,
            TierGauge::LiveBytes => tier.statistics.live_bytes,
            TierGauge::LiveBytesMax => tier.statistics.live_bytes_max,
            TierGauge::FreeBytes => tier.statistics.free_bytes,
            TierGauge::IndexBytes => tier.statistics.catalog_bytes,
            TierGauge::IndexBytesMax => tier.statistics.catalog_bytes_max,
            TierGauge::DirtyBytes => tier.statistics.dirty_bytes,
            TierGauge::WrittenBytes => tier.statistics.written_bytes,
            TierGauge::ZeroedBytes => tier.statistics.zeroed_bytes,
            TierGauge::Syncs => tier.statistics.syncs,
            TierGauge::SyncUs => tier.statistics.sync_us,
            TierGauge::Reads => tier.statistics.reads,
            TierGauge::SegmentsReclaimed => tier.statistics.reclaimed_segments,
            TierGauge::ItemsCopied => tier.statistics.copied_items,
            TierGauge::SegmentsDamaged => tier.statistics.damaged_segments,
            TierGauge::ItemsLost => tier.statistics.lost_items,
            TierGauge::ReadsRetried => tier.statistics.retried_reads,
            TierGauge::ClockBehindSecs => tier.started.time.skew_secs,
            TierGauge::ItemsUnreadable => tier.unreadable,
            TierGauge::ValuesCompressed => tier.statistics.compressed_items,
            TierGauge::CompressedFromBytes => tier.statistics.compressed_from_bytes,
            TierGauge::CompressedToBytes => tier.statistics.compressed_to_bytes,
            TierGauge::Dictionary => tier.statistics.dictionary,
            TierGauge::ItemsEvicted => tier.statistics.kept_items,
            TierGauge::ItemsDropped => tier.statistics.dropped_items,
            TierGauge::ExtstorePageAllocs => tier.statistics.begun_segments,
            TierGauge::ExtstorePageEvictions => tier.statistics.evicted_segments,
            TierGauge::ExtstorePagesFree => free_bytes / SEGMENT_BYTES as u64,
            TierGauge::ExtstorePagesUsed => used_bytes / SEGMENT_BYTES as u64,
            TierGauge::ExtstoreObjectsEvicted => tier.statistics.evicted_items,
            TierGauge::ExtstoreBytesEvicted => tier.statistics.evicted_bytes,
            TierGauge::ExtstoreBytesRead => tier.statistics.read_bytes,
            TierGauge::ExtstoreBytesFragmented => used_bytes.saturating_sub(live_bytes),
            TierGauge::Failed => u64::from(tier.statistics.has_failed),
        }
    }
}
