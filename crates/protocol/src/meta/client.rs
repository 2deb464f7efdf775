//! Meta requests to bytes.

use crate::Fetch;
use crate::text::LINE_END;
use crate::text::client::UnsendableKey;
use crate::text::client::request::check_sendable;
use crate::text::render::push_number;

/// Appends a meta get.
///
/// # Errors
/// [`UnsendableKey`]; nothing has been appended.
pub fn fetch(out: &mut Vec<u8>, fetch: &Fetch<'_>) -> Result<(), UnsendableKey> {
    check_sendable(fetch.key)?;
    out.extend_from_slice(b"mg ");
    out.extend_from_slice(fetch.key);
    let letters = [(fetch.with_value, b" v"), (!fetch.noted, b" u")];
    letters.iter().filter(|(asked, _)| *asked).for_each(|(_, flag)| out.extend_from_slice(*flag));
    let tokens = [(b'N', fetch.vivify), (b'T', fetch.exptime), (b'R', fetch.recache)];
    for (letter, exptime) in tokens {
        if let Some(exptime) = exptime {
            out.extend_from_slice(&[b' ', letter]);
            push_number(out, exptime);
        }
    }
    for (letter, cas) in [(b'C', fetch.known_cas), (b'E', fetch.version)] {
        if let Some(cas) = cas {
            out.extend_from_slice(&[b' ', letter]);
            push_number(out, cas);
        }
    }
    out.extend_from_slice(LINE_END);
    Ok(())
}
