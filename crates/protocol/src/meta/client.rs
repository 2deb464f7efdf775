//! Meta requests to bytes.

use crate::Fetch;
use crate::text::client::UnsendableKey;
use crate::text::client::request::check_sendable;

/// Appends a meta get.
///
/// # Errors
/// [`UnsendableKey`]; nothing has been appended.
pub fn fetch(out: &mut Vec<u8>, fetch: &Fetch<'_>) -> Result<(), UnsendableKey> {
    check_sendable(fetch.key)?;
    out.extend_from_slice(b"mg ");
    out.extend_from_slice(fetch.key);
    out.extend_from_slice(b"\r\n");
    Ok(())
}
