//! `-o answers_as=1.6.18`: responds to malformed lines like memcached 1.6.18, where it differs from
//! 1.6.45, which Larder follows. The test suite of 1.6.18 uses it; no client depends on it.

use larder_protocol::{Bad, ClientError, Frame, Response};

/// Returns the error that 1.6.18 sends. `line` is the refused line.
pub(super) fn refusal<'a>(bad: &Bad<'a>, line: &[u8]) -> Bad<'a> {
    let unknown = Some(Response::from(ClientError::UnknownCommand));
    match bad.frame {
        Frame::Text { .. } if line.len() < SHORT_BYTES => Bad { error: unknown, ..*bad },
        // 1.6.18 then reads the value that follows as a command.
        Frame::Text { .. } if lacks_token(line) => Bad { error: unknown, swallow: 0, ..*bad },
        _ => *bad,
    }
}

/// True for a `cas` line that lacks the last token.
fn lacks_token(line: &[u8]) -> bool {
    let words = line.trim_ascii().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    line.starts_with(b"cas ") && words.count() == 5
}

/// 1.6.45 refuses shorter lines as malformed before it parses their tokens.
const SHORT_BYTES: usize = 4;
