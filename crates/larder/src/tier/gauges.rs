//! The gauges of a disk tier.

use larder_stats::Gauge;

use super::awaited::TierStatus;

impl TierStatus {
    /// Returns a gauge of the disk tier; `None` for another one.
    pub fn gauge(&self, gauge: Gauge) -> Option<u64> {
        let tier = self;
        Some(match gauge {
            Gauge::TierItems => tier.statistics.items,
            Gauge::TierSizeBytes => tier.statistics.size_bytes,
            Gauge::TierLiveBytes => tier.statistics.live_bytes,
            Gauge::TierFreeBytes => tier.statistics.free_bytes,
            Gauge::TierIndexBytes => tier.statistics.catalog_bytes,
            Gauge::TierIndexBytesMax => tier.statistics.catalog_bytes_max,
            Gauge::TierDirtyBytes => tier.statistics.dirty_bytes,
            Gauge::TierWrittenBytes => tier.statistics.written_bytes,
            Gauge::TierZeroedBytes => tier.statistics.zeroed_bytes,
            Gauge::TierSyncs => tier.statistics.syncs,
            Gauge::TierReads => tier.statistics.reads,
            Gauge::TierSegmentsReclaimed => tier.statistics.reclaimed_segments,
            Gauge::TierItemsCopied => tier.statistics.copied_items,
            Gauge::TierSegmentsDamaged => tier.statistics.damaged_segments,
            Gauge::TierItemsUnreadable => tier.unreadable,
            Gauge::TierItemsEvicted => tier.statistics.kept_items,
            Gauge::TierItemsDropped => tier.statistics.dropped_items,
            Gauge::TierFailed => u64::from(tier.statistics.has_failed),
            _ => return None,
        })
    }
}
