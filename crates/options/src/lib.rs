//! The one table of options.
#![forbid(unsafe_code)]
