//! Base64 for keys that a line cannot contain: the standard alphabet, padded (RFC 4648, section 4).

use ::base64::Engine;
use ::base64::alphabet::STANDARD;
use ::base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// Like memcached, ignores the bits after the last byte when it decodes. Requires the padding.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Appends `bytes` as base64.
pub fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let encoded = ENGINE.encode_slice(bytes, out.get_mut(start..).unwrap_or_default());
    debug_assert_eq!(encoded, Ok(out.len() - start), "each three bytes have four digits");
}

/// Decodes `text` into the beginning of `out` and returns the decoded bytes; `None` if `text` is
/// not valid base64, is empty, or does not fit `out`.
pub fn decode<'o>(text: &[u8], out: &'o mut [u8]) -> Option<&'o [u8]> {
    let decoded = ENGINE.decode_slice(text, out).ok().filter(|_| !text.is_empty())?;
    out.get(..decoded)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, bytes);
        out
    }

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn the_rfc_examples_are_encoded_and_decoded() {
        for (bytes, text) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encoded(bytes.as_bytes()), text.as_bytes());
            assert_eq!(decode(text.as_bytes(), &mut [0; 6]), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn invalid_base64_is_refused() {
        for text in ["", "Z", "Zg", "Zg=", "====", "Z===", "Zm9v=", "Zm 9", "Zm9-", "Zg==Zg=="] {
            assert_eq!(decode(text.as_bytes(), &mut [0; 8]), None, "{text}");
        }
        assert_eq!(decode(b"Zm9vYmFy", &mut [0; 5]), None);
    }

    /// memcached ignores the unused bits of the last digit.
    #[test]
    fn bits_after_the_last_byte_are_ignored() {
        for (text, bytes) in
            [("Zh==", "f"), ("Zv==", "f"), ("Zm9=", "fo"), ("Zm9vYmF/", "fooba\x7f")]
        {
            assert_eq!(decode(text.as_bytes(), &mut [0; 6]), Some(bytes.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_key_decodes_into_exactly_its_room() {
        for length in 1..=250 {
            let bytes = vec![b'\xff'; length];
            let text = encoded(&bytes);
            assert_eq!(decode(&text, &mut vec![0; length]), Some(&bytes[..]), "{length}");
            assert_eq!(decode(&text, &mut vec![0; length - 1]), None, "{length}");
        }
        let mut out = b"before".to_vec();
        encode(&mut out, b"fo");
        encode(&mut out, b"");
        assert_eq!(out, b"beforeZm8=");
    }

    proptest! {
        #[test]
        fn decoding_reverses_encoding(bytes in vec(any::<u8>(), 1..250)) {
            let mut decoded = [0; 250];
            prop_assert_eq!(decode(&encoded(&bytes), &mut decoded), Some(&bytes[..]));
        }
    }
}
