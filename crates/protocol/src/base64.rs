//! Base64 for keys that a line cannot hold: the standard alphabet, padded (RFC 4648, section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

/// Appends `bytes` as base64.
pub fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| chunk.get(index).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = bits >> (18 - 6 * index) & 63;
            let is_bytes = index <= chunk.len() as u32;
            out.push(if is_bytes {
                ALPHABET.get(digit as usize).copied().unwrap_or(PAD)
            } else {
                PAD
            });
        }
    }
}

/// Decodes `text` to the beginning of `out` and returns the bytes; `None` if `text` is not valid
/// base64, is empty, or does not fit `out`.
pub fn decode<'o>(text: &[u8], out: &'o mut [u8]) -> Option<&'o [u8]> {
    let digits = match text {
        [digits @ .., PAD, PAD] | [digits @ .., PAD] => digits,
        digits => digits,
    };
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let bytes = text.len() / 4 * 3 - (text.len() - digits.len());
    if bytes > out.len() {
        return None;
    }
    for (chunk, room) in digits.chunks(4).zip(out.chunks_mut(3)) {
        let mut bits = 0;
        for index in 0..4 {
            bits = bits << 6 | chunk.get(index).map_or(Some(0), |digit| value(*digit))?;
        }
        for (byte, place) in bits.to_be_bytes().into_iter().skip(1).zip(room) {
            *place = byte;
        }
    }
    out.get(..bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
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

    proptest! {
        #[test]
        fn decoding_reverses_encoding(bytes in vec(any::<u8>(), 1..250)) {
            let mut decoded = [0; 250];
            prop_assert_eq!(decode(&encoded(&bytes), &mut decoded), Some(&bytes[..]));
        }
    }
}
