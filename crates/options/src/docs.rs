//! docs/options.md, written from the rows.
