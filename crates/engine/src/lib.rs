//! Index, segments, eviction and expiry over a region.
#![forbid(unsafe_code)]
