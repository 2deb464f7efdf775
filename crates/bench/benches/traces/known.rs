//! The traces, and the miss ratios of good policies on them.

/// The names of the traces.
pub(crate) const TRACES: [&str; 6] =
    ["adapt_size", "orm-busy-2M", "synth-kv-ttl", "synth-kv-write", "w106-1M", "web07"];

/// Miss ratios of policies that count bytes per item: the size of an item is its key, its value and
/// 24 bytes.
pub(crate) struct Known {
    pub(crate) trace: &'static str,
    /// The factor of all sizes.
    pub(crate) scale: u32,
    /// All memory, in bytes.
    pub(crate) memory_bytes: u64,
    pub(crate) lru: f64,
    /// S3-FIFO that keeps an item that was read once while it was new.
    pub(crate) s3_fifo_1: f64,
    /// S3-FIFO that keeps an item that was read twice.
    pub(crate) s3_fifo_2: f64,
}

impl Known {
    /// Returns the miss ratio of the better S3-FIFO.
    pub(crate) fn s3_fifo(&self) -> f64 {
        self.s3_fifo_1.min(self.s3_fifo_2)
    }
}

pub(crate) const KNOWN: [Known; 11] = [
    known("adapt_size", 1, 8_392_133, [0.7088, 0.6645, 0.6615]),
    known("adapt_size", 1, 27_973_779, [0.6564, 0.6137, 0.6216]),
    known("orm-busy-2M", 16, 8_588_879, [0.1930, 0.1875, 0.1928]),
    known("orm-busy-2M", 16, 28_629_598, [0.1408, 0.1298, 0.1292]),
    known("synth-kv-ttl", 16, 13_753_682, [0.3498, 0.3147, 0.3189]),
    known("synth-kv-ttl", 16, 45_845_609, [0.2747, 0.2654, 0.2685]),
    known("synth-kv-write", 16, 14_006_480, [0.3383, 0.3013, 0.3044]),
    known("synth-kv-write", 16, 46_688_267, [0.2511, 0.2456, 0.2492]),
    known("w106-1M", 16, 5_793_184, [0.2170, 0.1962, 0.1855]),
    known("w106-1M", 16, 19_310_616, [0.1568, 0.1516, 0.1403]),
    known("web07", 16, 10_182_296, [0.4452, 0.4111, 0.4127]),
];

const fn known(trace: &'static str, scale: u32, memory_bytes: u64, ratios: [f64; 3]) -> Known {
    let [lru, s3_fifo_1, s3_fifo_2] = ratios;
    Known { trace, scale, memory_bytes, lru, s3_fifo_1, s3_fifo_2 }
}
