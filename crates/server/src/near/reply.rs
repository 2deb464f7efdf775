//! Finds the end of the origin's answer to a passed command.

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyForm {
    /// One line, with a value if the line announces one.
    One,
    /// Items, then `END` or an error.
    List,
    /// Whatever comes before `MN`.
    Quiet,
    /// One message of the binary protocol.
    Binary,
    /// Whatever messages come before the answer to a no-op.
    BinaryQuiet,
}

/// An answer in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The length of the part that the client receives, in bytes.
    pub(super) shown_bytes: usize,
    /// The length of the whole answer, in bytes.
    pub(super) bytes: usize,
}

/// The origin does not speak the protocol. Nothing after this can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Garbled;

/// Returns the answer at the beginning of `input`; `None` if it is incomplete.
pub(super) fn find(form: ReplyForm, input: &[u8]) -> Result<Option<Reply>, Garbled> {
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let unit = match form {
            ReplyForm::Binary | ReplyForm::BinaryQuiet => message(rest)?,
            ReplyForm::One | ReplyForm::List | ReplyForm::Quiet => item(rest)?,
        };
        let Some(bytes) = unit else { return Ok(None) };
        let Some(unit) = rest.get(..bytes) else { return Ok(None) };
        let end = at + bytes;
        let is_item = [&b"VALUE "[..], b"LVALUE ", b"META "].iter().any(|it| unit.starts_with(it));
        match form {
            ReplyForm::One | ReplyForm::Binary => {
                return Ok(Some(Reply { shown_bytes: end, bytes: end }));
            }
            // The client has asked for a list, whose end the session writes.
            ReplyForm::List if unit == b"END\r\n" => {
                return Ok(Some(Reply { shown_bytes: at, bytes: end }));
            }
            ReplyForm::List if !is_item && !is_error(unit) => return Err(Garbled),
            ReplyForm::List if !is_item => {
                return Ok(Some(Reply { shown_bytes: end, bytes: end }));
            }
            ReplyForm::Quiet if unit == b"MN\r\n" => {
                return Ok(Some(Reply { shown_bytes: at, bytes: end }));
            }
            ReplyForm::BinaryQuiet if unit.get(1) == Some(&NOOP) => {
                return Ok(Some(Reply { shown_bytes: at, bytes: end }));
            }
            ReplyForm::List | ReplyForm::Quiet | ReplyForm::BinaryQuiet => at = end,
        }
    }
}

/// Returns the length of a line and of the value that it announces; `None` if the line is
/// incomplete.
fn item(input: &[u8]) -> Result<Option<usize>, Garbled> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return if input.len() > LINE_BYTES_MAX { Err(Garbled) } else { Ok(None) };
    };
    let line = input.get(..end).unwrap_or_default().trim_ascii_end();
    let mut words = line.split(|byte| *byte == b' ');
    let length = match words.next() {
        Some(b"VA") => words.next(),
        Some(b"VALUE") => words.nth(2),
        Some(b"LVALUE") => words.nth(3),
        _ if line.iter().any(u8::is_ascii_control) => return Err(Garbled),
        _ => return Ok(Some(end + 1)),
    };
    let value_bytes = number(length.ok_or(Garbled)?).ok_or(Garbled)?;
    let total = end + 1 + value_bytes + LINE_END.len();
    match input.get(total - LINE_END.len()..total) {
        Some(LINE_END) | None => Ok(Some(total)),
        Some(_) => Err(Garbled),
    }
}

/// True if a line is an error.
pub(crate) fn is_error(line: &[u8]) -> bool {
    [&b"SERVER_ERROR"[..], b"CLIENT_ERROR", b"ERROR"].iter().any(|error| line.starts_with(error))
}

fn message(input: &[u8]) -> Result<Option<usize>, Garbled> {
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    if header[0] != RESPONSE {
        return Err(Garbled);
    }
    let body_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if body_bytes > VALUE_BYTES_MAX { Err(Garbled) } else { Ok(Some(HEADER_BYTES + body_bytes)) }
}

/// Parses the length of a value.
fn number(word: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(word).ok().filter(|text| !text.starts_with('+'))?;
    text.parse().ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX)
}

const LINE_END: &[u8] = b"\r\n";

/// The maximum length of a line without a value: a meta line with a key of 250 bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// The longest value that a near cache passes on.
pub(super) const VALUE_BYTES_MAX: usize = 128 * 1024 * 1024;

const HEADER_BYTES: usize = 24;
const RESPONSE: u8 = 0x81;
const NOOP: u8 = 0x0a;

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts what is found in each beginning of an answer, and in the answer with more after it.
    #[track_caller]
    fn assert_found(form: ReplyForm, answer: &[u8], shown_bytes: usize) {
        for bytes in 0..answer.len() {
            assert_eq!(find(form, &answer[..bytes]), Ok(None), "with {bytes} bytes");
        }
        let reply = Reply { shown_bytes, bytes: answer.len() };
        let more = [answer, b"STORED\r\n"].concat();
        assert_eq!(find(form, answer), Ok(Some(reply)));
        assert_eq!(find(form, &more), Ok(Some(reply)));
    }

    #[test]
    fn one_line_is_an_answer() {
        assert_found(ReplyForm::One, b"STORED\r\n", 8);
        assert_found(ReplyForm::One, b"VA 3 c7\r\na\n\r\r\n", 14);
        assert_found(ReplyForm::One, b"SERVER_ERROR out of memory\r\n", 28);
    }

    #[test]
    fn a_list_ends_with_end_or_an_error() {
        assert_found(ReplyForm::List, b"END\r\n", 0);
        assert_found(ReplyForm::List, b"VALUE k 0 3\r\nEND\r\nEND\r\n", 18);
        assert_found(ReplyForm::List, b"LVALUE k 5 0 0\r\n\r\nEND\r\n", 18);
        assert_found(ReplyForm::List, b"CLIENT_ERROR no\r\n", 17);
    }

    #[test]
    fn a_quiet_command_shows_what_comes_before_the_next_answer() {
        assert_found(ReplyForm::Quiet, b"MN\r\n", 0);
        assert_found(ReplyForm::Quiet, b"NS\r\nMN\r\n", 4);
        assert_found(ReplyForm::Quiet, b"VA 4\r\nMN\r\n\r\nMN\r\n", 12);
    }

    #[test]
    fn a_binary_message_has_its_length() {
        let message = |opcode: u8, body: &[u8]| {
            let mut message = vec![0; HEADER_BYTES];
            (message[0], message[1], message[11]) = (RESPONSE, opcode, body.len() as u8);
            message.extend_from_slice(body);
            message
        };
        let get = message(0, b"flagvalue");
        assert_eq!(find(ReplyForm::Binary, &get[..30]), Ok(None));
        let whole = Reply { shown_bytes: 33, bytes: 33 };
        assert_eq!(find(ReplyForm::Binary, &get), Ok(Some(whole)));
        let quiet = [get, message(NOOP, b"")].concat();
        let reply = Reply { shown_bytes: 33, bytes: 57 };
        assert_eq!(find(ReplyForm::BinaryQuiet, &quiet), Ok(Some(reply)));
    }

    #[test]
    fn garbage_is_refused() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let lines: [&[u8]; 7] = [
            b"VALUE k 0\r\n",
            b"VALUE k 0 x\r\n",
            b"VALUE k 0 +1\r\na\r\n",
            b"VA 99999999999\r\n",
            b"VA 1\r\nabc",
            &long,
            b"\0\r\n",
        ];
        for line in lines {
            assert_eq!(find(ReplyForm::One, line), Err(Garbled), "{:?}", line.escape_ascii());
        }
        assert_eq!(find(ReplyForm::List, b"STORED\r\n"), Err(Garbled));
        assert_eq!(find(ReplyForm::Binary, &[0x80; HEADER_BYTES]), Err(Garbled));
        assert_eq!(find(ReplyForm::Binary, &[0xff; HEADER_BYTES]), Err(Garbled));
    }
}
