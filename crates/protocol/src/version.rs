//! The version that clients see.

/// The response to `version`: not Larder's own version but the version of the memcached whose wire
/// protocol this crate implements.
///
/// Clients and routers use the number to find out which commands they may use. Some refuse versions
/// below 1.6.27, some copy the text into 24 bytes, and some expect three numbers of at most 255.
pub const WIRE_VERSION: &str = "1.6.45";

const _: () = assert!(WIRE_VERSION.len() < 24);
