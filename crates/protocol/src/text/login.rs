//! The text protocol before a peer has logged in. It accepts only a `set` with any key, whose value
//! is a user and a password.

use memchr::memchr;

use crate::command::Command;
use crate::frame::Frame;
use crate::lines::line::{LINE_END, SHORT_LINE_BYTES_MAX};
use crate::lines::words::Words;
use crate::number;
use crate::parsed::{Bad, Parsed};
use crate::response::ClientError;

/// Parses the login at the beginning of `input`.
pub(crate) fn parse(input: &[u8]) -> Parsed<'_> {
    let searched = input.get(..=SHORT_LINE_BYTES_MAX).unwrap_or(input);
    let Some((line, rest)) = memchr(b'\n', searched).and_then(|at| input.split_at_checked(at + 1))
    else {
        return if input.len() > SHORT_LINE_BYTES_MAX {
            refuse(None, input.len(), 0)
        } else {
            Parsed::NeedMore
        };
    };
    if line.len() <= TOO_SHORT_BYTES {
        return refuse(None, line.len(), 0);
    }
    let Some(bytes) = line.strip_suffix(LINE_END).and_then(credentials_bytes) else {
        return refuse(Some(ClientError::Unauthenticated), line.len(), 0);
    };
    let block_bytes = bytes as usize + LINE_END.len();
    if bytes > CREDENTIALS_BYTES_MAX {
        let error = Some(ClientError::CredentialsTooLong);
        let swallow = if block_bytes > REFUSED_BYTES_MAX { 0 } else { block_bytes as u64 };
        return refuse(error, line.len(), swallow);
    }
    let Some(block) = rest.get(..block_bytes) else {
        return Parsed::NeedMore;
    };
    let consumed = line.len() + block_bytes;
    let Some(credentials) = block.strip_suffix(LINE_END) else {
        return refuse(Some(ClientError::BadCredentialsEnd), consumed, 0);
    };
    if Words::new(credentials).nth(1).is_none() {
        return refuse(Some(ClientError::BadCredentials), consumed, 0);
    }
    let command = Command::Authenticate { mechanism: b"", credentials, is_step: false };
    Parsed::Command { command, frame: Frame::default(), consumed }
}

/// Returns the length that `set <key> <flags> <exptime> <bytes>` announces.
fn credentials_bytes(line: &[u8]) -> Option<u32> {
    let mut words = Words::new(line);
    (words.next()? == b"set").then_some(())?;
    words.nth(3).and_then(number::unsigned_32)
}

/// Refuses a login. Closes the connection if `error` is `None`.
fn refuse(error: Option<ClientError>, consumed: usize, swallow: u64) -> Parsed<'static> {
    Parsed::Bad(Bad {
        error: error.map(Into::into),
        frame: Frame::default(),
        consumed,
        swallow,
        close: error.is_none(),
    })
}

/// The maximum length of user and password together, in bytes.
const CREDENTIALS_BYTES_MAX: u32 = 16 * 1024;

/// The longest value of a refused login that is skipped, so that the client can try again. A line
/// that announces a longer value is probably not a login at all. Then the bytes after the line are
/// parsed as the next login.
const REFUSED_BYTES_MAX: usize = 1024 * 1024;

/// A line of at most this length, including its newline, cannot be a login.
const TOO_SHORT_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: &[u8]) -> (Option<ClientError>, usize, u64, bool) {
        let Parsed::Bad(Bad { error, consumed, swallow, close, .. }) = parse(input) else {
            panic!("{}: {:?}", input.escape_ascii(), parse(input));
        };
        let error = error.map(|error| match error {
            crate::Response::ClientError(error) => error,
            other => panic!("{other:?}"),
        });
        (error, consumed, swallow, close)
    }

    #[test]
    fn a_set_with_user_and_password_is_a_login_once_it_is_complete() {
        let input = b"set any 0 0 8 noreply\r\nuser pwd\r\nget k\r\n";
        let Parsed::Command { command, consumed, .. } = parse(input) else { panic!("a login") };
        let credentials = b"user pwd";
        assert_eq!(command, Command::Authenticate { mechanism: b"", credentials, is_step: false });
        assert_eq!(consumed, 33);
        for cut in 0..consumed {
            assert_eq!(parse(&input[..cut]), Parsed::NeedMore, "{cut}");
        }
    }

    #[test]
    fn commands_other_than_a_login_are_refused() {
        for line in [&b"get key\r\n"[..], b"version\r\n", b"set k 0 0 x\r\n", b"set k 0 0\r\n"] {
            let unauthenticated = (Some(ClientError::Unauthenticated), line.len(), 0, false);
            assert_eq!(error(line), unauthenticated, "{}", line.escape_ascii());
        }
        assert_eq!(error(b"set k 0 0 7\nfoo bar\r\n").0, Some(ClientError::Unauthenticated));
    }

    #[test]
    fn lines_that_cannot_become_a_login_end_the_connection() {
        for short in [&b"get\r\n"[..], b"quit\r\n", b"mn\r\n", b"\n"] {
            assert_eq!(error(short), (None, short.len(), 0, true), "{}", short.escape_ascii());
        }
        let endless = [b'x'; SHORT_LINE_BYTES_MAX + 1];
        assert_eq!(error(&endless), (None, endless.len(), 0, true));
        assert_eq!(parse(&endless[1..]), Parsed::NeedMore);
    }

    #[test]
    fn an_invalid_login_consumes_its_whole_value() {
        let end = Some(ClientError::BadCredentialsEnd);
        assert_eq!(error(b"set k 0 0 7\r\nfoo barxx"), (end, 22, 0, false));
        let form = Some(ClientError::BadCredentials);
        assert_eq!(error(b"set k 0 0 4\r\nfoo \r\n"), (form, 19, 0, false));
        let long = Some(ClientError::CredentialsTooLong);
        assert_eq!(error(b"set k 0 0 16385\r\n"), (long, 17, 16387, false));
        assert_eq!(parse(b"set k 0 0 16384\r\n"), Parsed::NeedMore);
        assert_eq!(error(b"set k 0 0 4294967295\r\n"), (long, 22, 0, false));
    }
}
