//! docs/stats.md.
