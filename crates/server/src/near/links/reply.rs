//! Finds the end of the origin's answer to a passed command.

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::near) enum ReplyForm {
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

/// The part of an answer that the input contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::near) struct Reply {
    /// The length of the part for the client, in bytes. It comes first.
    pub(in crate::near) shown_bytes: usize,
    /// The length of the whole part, in bytes.
    pub(in crate::near) bytes: usize,
    /// True if the answer ends with this part.
    pub(in crate::near) is_complete: bool,
}

/// The origin does not speak the protocol. Nothing after this can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::near) struct Garbled;

/// Reads an answer that arrives in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::near) struct ReplyReader {
    /// How much is left of the current item, with the end of its line, in bytes.
    left_bytes: usize,
}

/// One step of a reader.
struct Unit {
    bytes: usize,
    end: Option<End>,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With a line, or an item, for the client.
    Shown,
    /// With a line that the client does not receive.
    Hidden,
}

impl ReplyReader {
    /// Reads as much of an answer as `input` contains.
    pub(in crate::near) fn read(
        &mut self,
        form: ReplyForm,
        input: &[u8],
    ) -> Result<Reply, Garbled> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let unit = match self.left_bytes {
                _ if rest.is_empty() => None,
                0 => self.begin_unit(form, rest)?,
                left_bytes => Some(self.go_on(form, left_bytes, rest)?),
            };
            let Some(Unit { bytes, end }) = unit else {
                return Ok(Reply { shown_bytes: at, bytes: at, is_complete: false });
            };
            let shown_bytes = if end == Some(End::Hidden) { at } else { at + bytes };
            at += bytes;
            if end.is_some() {
                return Ok(Reply { shown_bytes, bytes: at, is_complete: true });
            }
        }
    }

    /// Reads a line or the header of a message; `None` if it is incomplete.
    fn begin_unit(&mut self, form: ReplyForm, input: &[u8]) -> Result<Option<Unit>, Garbled> {
        let is_binary = matches!(form, ReplyForm::Binary | ReplyForm::BinaryQuiet);
        let head = if is_binary { message(input)? } else { item(input)? };
        let Some(Head { bytes, rest_bytes }) = head else { return Ok(None) };
        let line = input.get(..bytes).unwrap_or_default();
        let is_hidden = match form {
            ReplyForm::One | ReplyForm::Binary => false,
            // The client has asked for a list, whose end the session writes.
            ReplyForm::List => line == b"END\r\n",
            ReplyForm::Quiet => line == b"MN\r\n",
            ReplyForm::BinaryQuiet => line.get(1) == Some(&NOOP),
        };
        let is_item = [&b"VALUE "[..], b"LVALUE ", b"META "].iter().any(|it| line.starts_with(it));
        let ends_list = form == ReplyForm::List && !is_item;
        if ends_list && !is_hidden && !is_error(line) {
            return Err(Garbled);
        }
        self.left_bytes = rest_bytes;
        let is_last = matches!(form, ReplyForm::One | ReplyForm::Binary) || ends_list;
        let end = match is_hidden {
            true => Some(End::Hidden),
            false => (is_last && rest_bytes == 0).then_some(End::Shown),
        };
        Ok(Some(Unit { bytes, end }))
    }

    /// Reads on in the rest of an item.
    fn go_on(&mut self, form: ReplyForm, left: usize, input: &[u8]) -> Result<Unit, Garbled> {
        let bytes = left.min(input.len());
        let part = input.get(..bytes).unwrap_or_default();
        self.left_bytes = left - bytes;
        let is_binary = matches!(form, ReplyForm::Binary | ReplyForm::BinaryQuiet);
        if !is_binary {
            // The part of the line end that is in the input.
            let first = LINE_END.len().saturating_sub(left);
            let end = LINE_END.get(first..LINE_END.len() - self.left_bytes.min(LINE_END.len()));
            if !part.ends_with(end.unwrap_or_default()) {
                return Err(Garbled);
            }
        }
        let ends = self.left_bytes == 0 && matches!(form, ReplyForm::One | ReplyForm::Binary);
        Ok(Unit { bytes, end: ends.then_some(End::Shown) })
    }
}

/// The line or the header with which a part of an answer begins.
#[derive(Clone, Copy, Debug)]
struct Head {
    bytes: usize,
    /// The length of the value with its line end, or of the body of a message.
    rest_bytes: usize,
}

/// Reads a line; `None` if it is incomplete.
fn item(input: &[u8]) -> Result<Option<Head>, Garbled> {
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
        _ => return Ok(Some(Head { bytes: end + 1, rest_bytes: 0 })),
    };
    let value_bytes = number(length.ok_or(Garbled)?).ok_or(Garbled)?;
    Ok(Some(Head { bytes: end + 1, rest_bytes: value_bytes + LINE_END.len() }))
}

/// True if a line is an error.
pub(crate) fn is_error(line: &[u8]) -> bool {
    [&b"SERVER_ERROR"[..], b"CLIENT_ERROR", b"ERROR"].iter().any(|error| line.starts_with(error))
}

/// Reads the header of a message; `None` if it is incomplete.
fn message(input: &[u8]) -> Result<Option<Head>, Garbled> {
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    if header[0] != RESPONSE {
        return Err(Garbled);
    }
    let body_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if body_bytes > VALUE_BYTES_MAX {
        return Err(Garbled);
    }
    Ok(Some(Head { bytes: HEADER_BYTES, rest_bytes: body_bytes }))
}

/// Parses the length of a value.
fn number(word: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(word).ok().filter(|text| !text.starts_with('+'))?;
    text.parse().ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX)
}

const LINE_END: &[u8] = b"\r\n";

/// The maximum length of a line without a value: a meta line with a key of 250 bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// The longest value that an origin can have: the limit of `-I`.
pub(in crate::near) const VALUE_BYTES_MAX: usize = 1024 * 1024 * 1024;

const HEADER_BYTES: usize = 24;
const RESPONSE: u8 = 0x81;
const NOOP: u8 = 0x0a;

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts the length of the part for the client, wherever the answer is cut in two, and with
    /// more after it.
    #[track_caller]
    fn assert_found(form: ReplyForm, answer: &[u8], shown_bytes: usize) {
        let more = [answer, b"STORED\r\n"].concat();
        for bytes in 0..answer.len() {
            let mut reader = ReplyReader::default();
            let first = reader.read(form, &answer[..bytes]).unwrap();
            assert!(!first.is_complete, "with {bytes} bytes: {first:?}");
            assert_eq!(first.shown_bytes, first.bytes, "with {bytes} bytes");
            let rest = reader.read(form, &more[first.bytes..]);
            let shown_bytes = shown_bytes - first.shown_bytes;
            let bytes = answer.len() - first.bytes;
            assert_eq!(rest, Ok(Reply { shown_bytes, bytes, is_complete: true }));
        }
    }

    fn read(form: ReplyForm, answer: &[u8]) -> Result<Reply, Garbled> {
        ReplyReader::default().read(form, answer)
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
        assert_found(ReplyForm::Binary, &get, 33);
        assert_found(ReplyForm::BinaryQuiet, &[get, message(NOOP, b"")].concat(), 33);
    }

    #[test]
    fn the_line_end_of_a_value_is_checked_wherever_the_input_is_cut() {
        for wrong in [&b"VA 2\r\nab\rx"[..], b"VA 2\r\nab\n\n", b"VA 0\r\nx\n"] {
            for bytes in 0..wrong.len() {
                let mut reader = ReplyReader::default();
                let first = reader.read(ReplyForm::One, &wrong[..bytes]);
                let rest =
                    first.and_then(|first| reader.read(ReplyForm::One, &wrong[first.bytes..]));
                assert_eq!(rest, Err(Garbled), "cut at {bytes}");
            }
        }
    }

    /// Reads an answer that arrives in parts of these lengths. Returns the bytes for the client and
    /// the length of the answer, or `None` if it is refused or incomplete.
    fn seen(
        form: ReplyForm,
        answer: &[u8],
        mut lengths: impl FnMut() -> usize,
    ) -> Option<(Vec<u8>, usize)> {
        let (mut reader, mut seen) = (ReplyReader::default(), Vec::new());
        let (mut begin, mut end) = (0, 0);
        loop {
            let reply = reader.read(form, &answer[begin..end]).ok()?;
            seen.extend_from_slice(&answer[begin..begin + reply.shown_bytes]);
            begin += reply.bytes;
            if reply.is_complete {
                return Some((seen, begin));
            }
            if end == answer.len() {
                return None;
            }
            end = answer.len().min(end + lengths());
        }
    }

    #[test]
    fn however_an_answer_is_cut_the_client_sees_the_same() {
        let units: [&[u8]; 12] = [
            b"VALUE k 0 3\r\nEND\r\n",
            b"VA 4 c7\r\nMN\r\n\r\n",
            b"END\r\n",
            b"MN\r\n",
            b"NS\r\n",
            b"HD\r\n",
            b"SERVER_ERROR no\r\n",
            b"\r\n",
            b"VA 99999\r\n",
            &[RESPONSE; 30],
            &[RESPONSE, NOOP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[RESPONSE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7],
        ];
        let forms = [
            ReplyForm::One,
            ReplyForm::List,
            ReplyForm::Quiet,
            ReplyForm::Binary,
            ReplyForm::BinaryQuiet,
        ];
        let (mut random, mut complete) = (fastrand::Rng::with_seed(7), 0);
        for _ in 0..20_000 {
            let mut answer = Vec::new();
            for _ in 0..random.usize(1..5) {
                answer.extend_from_slice(units[random.usize(..units.len())]);
            }
            if random.u8(..4) == 0 {
                let at = random.usize(..answer.len());
                answer[at] = random.u8(..);
            }
            for form in forms {
                let whole = seen(form, &answer, || answer.len());
                let in_parts = seen(form, &answer, || random.usize(1..20));
                assert_eq!(in_parts, whole, "{form:?} {:?}", answer.escape_ascii().to_string());
                complete += usize::from(whole.is_some());
            }
        }
        assert!(complete > 10_000, "{complete} answers were complete");
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
            assert_eq!(read(ReplyForm::One, line), Err(Garbled), "{:?}", line.escape_ascii());
        }
        assert_eq!(read(ReplyForm::List, b"STORED\r\n"), Err(Garbled));
        assert_eq!(read(ReplyForm::Binary, &[0x80; HEADER_BYTES]), Err(Garbled));
        assert_eq!(read(ReplyForm::Binary, &[0xff; HEADER_BYTES]), Err(Garbled));
    }
}
