//! `-o answers_as=1.6.18`: the responses of memcached 1.6.18 to malformed lines where 1.6.45, which
//! Larder follows, differs. Used by the test suite of 1.6.18; no client depends on it.

use larder_protocol::{Bad, ClientError, Frame, Response};

/// Returns a refusal in the words of 1.6.18. `line` is the refused line.
pub(super) fn refusal<'a>(bad: &Bad<'a>, line: &[u8]) -> Bad<'a> {
    let unknown = Some(Response::from(ClientError::UnknownCommand));
    match bad.frame {
        Frame::Text { .. } if line.len() < SHORT_BYTES => Bad { error: unknown, ..*bad },
        // The value behind it is read as a command.
        Frame::Text { .. } if lacks_token(line) => Bad { error: unknown, swallow: 0, ..*bad },
        _ => *bad,
    }
}

/// True for a `cas` without its last word.
fn lacks_token(line: &[u8]) -> bool {
    let words = line.trim_ascii().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    line.starts_with(b"cas ") && words.count() == 5
}

/// 1.6.45 refuses shorter lines as malformed before it reads their words.
const SHORT_BYTES: usize = 4;
