//! Extracts the key from a path.

use axum::http::StatusCode;
use larder_item::check_key;
use percent_encoding::percent_decode_str;

use super::{PREFIX, Refusal};

/// Returns the key of a path: the part after the prefix, percent-decoded once. No segment is
/// special, and every byte is allowed.
///
/// # Errors
/// Fails on a `%` without two hexadecimal digits, and on a key that is empty or too long.
pub(super) fn of_path(path: &str) -> Result<Vec<u8>, Refusal> {
    let raw = path.strip_prefix(PREFIX).unwrap_or_default();
    let refused = |words: String| (StatusCode::BAD_REQUEST, words);
    let mut escapes = raw.split('%').skip(1);
    if !escapes.all(|digits| digits.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2) {
        return Err(refused("a % in a key must be followed by two hexadecimal digits".to_owned()));
    }
    let key: Vec<u8> = percent_decode_str(raw).collect();
    check_key(&key).map_err(|error| refused(error.to_string()))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once_and_not_normalized() {
        for (raw, key) in [
            ("a", &b"a"[..]),
            ("a/b", b"a/b"),
            ("a%2Fb%2fc", b"a/b/c"),
            ("%2525", b"%25"),
            ("%63lear", b"clear"),
            ("../settings", b"../settings"),
            ("./a//b/", b"./a//b/"),
            ("%00%ff%0d%0a", b"\0\xff\r\n"),
            ("a+b;c=d&e", b"a+b;c=d&e"),
            ("\u{e4}", "\u{e4}".as_bytes()),
        ] {
            assert_eq!(of_path(&format!("{PREFIX}{raw}")).as_deref(), Ok(key), "{raw}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_with_a_reason() {
        let long = "%41".repeat(251);
        assert_eq!(of_path(&format!("{PREFIX}{}", &long[..750])), Ok(vec![b'A'; 250]));
        for (raw, words) in [
            ("", "the key is empty"),
            (long.as_str(), "251 bytes"),
            ("%", "two hexadecimal digits"),
            ("a%4", "two hexadecimal digits"),
            ("%zz", "two hexadecimal digits"),
            ("%4%41", "two hexadecimal digits"),
            ("%\u{e4}1", "two hexadecimal digits"),
        ] {
            let refused = of_path(&format!("{PREFIX}{raw}"));
            let is_named = matches!(&refused, Err((_, found)) if found.contains(words));
            assert!(is_named, "{raw}: {refused:?}");
        }
    }
}
