//! The version that peers are told.

/// What `version` answers: not Larder's own version but that of the memcached whose wire this crate
/// speaks.
///
/// Clients and routers read the number to learn which commands they may use: some refuse anything
/// below 1.6.27, some copy the text into 24 bytes, some want three numbers of at most 255.
pub const WIRE_VERSION: &str = "1.6.45";

const _: () = assert!(WIRE_VERSION.len() < 24);
