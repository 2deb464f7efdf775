//! Keys on the wire, and a test whether a server accepts several requests together.

use larder_protocol::base64;

use crate::connection::{Broken, Connection};

/// True if the server responds to all requests that arrive together. Over TLS memcached may leave
/// some of them unread until more bytes arrive. larderd reads all of them. This recognizes larderd
/// by statistics that memcached does not have.
pub(crate) fn takes_batches(connection: &mut Connection) -> Result<bool, Broken> {
    if !connection.has_tls() {
        return Ok(true);
    }
    connection.send(b"stats larder\r\n")?;
    let mut is_larderd = false;
    while connection.line()?.starts_with(b"STAT ") {
        is_larderd = true;
    }
    Ok(is_larderd)
}

/// Appends a key of a meta command. Writes a key that a line cannot contain in base64, and then
/// returns true: the command needs the flag `b`.
pub(crate) fn push_key(out: &mut Vec<u8>, key: &[u8]) -> bool {
    let is_word = key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    match is_word {
        true => out.extend_from_slice(key),
        false => base64::encode(out, key),
    }
    !is_word
}

/// True if the key needs base64 and is then longer than the maximum length. Only the binary
/// protocol can store such keys.
pub(crate) fn may_be_refused(key: &[u8]) -> bool {
    let mut written = Vec::with_capacity(WRITTEN_BYTES_MAX);
    push_key(&mut written, key) && written.len() > KEY_BYTES_MAX
}

/// Returns a key for a message: bytes outside 0x21 to 0x7e are escaped.
pub(crate) fn escaped(key: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'!'..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
        b'\\' => "\\\\".to_owned(),
        _ => format!("\\x{byte:02x}"),
    };
    key.iter().map(escape).collect()
}

const KEY_BYTES_MAX: usize = 250;
/// The length of a key of 250 bytes in base64.
const WRITTEN_BYTES_MAX: usize = 336;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_line_can_hold_are_written_in_base64() {
        for (key, written, is_binary) in [
            (&b"plain\xc3\xa9"[..], &b"plain\xc3\xa9"[..], false),
            (b"a b", b"YSBi", true),
            (b"\0", b"AA==", true),
            (b"\x7f", b"fw==", true),
        ] {
            let mut out = Vec::new();
            assert_eq!((push_key(&mut out, key), &out[..]), (is_binary, written));
        }
        assert!(!may_be_refused(&[b'k'; 250]));
        assert!(!may_be_refused(&[b' '; 186]));
        assert!(may_be_refused(&[b' '; 188]));
    }

    #[test]
    fn keys_are_shown_without_control_bytes() {
        assert_eq!(escaped(b"a\x1b]0;x\x07 \xff\\n"), r"a\x1b]0;x\x07\x20\xff\\n");
    }
}
