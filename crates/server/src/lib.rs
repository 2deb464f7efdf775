//! larderd: the cache as a daemon.
#![forbid(unsafe_code)]
