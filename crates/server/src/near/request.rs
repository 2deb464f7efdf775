//! The bytes that a near cache sends to its origin for a command of a client.

use larder_protocol::{Command, Frame, binary};

use super::job::Concerned;
use super::links::reply::ReplyForm;

/// A command as the origin receives it.
#[derive(Clone, Debug)]
pub(crate) struct PassRequest {
    /// In several parts if the command has a large value.
    pub(super) parts: Vec<Vec<u8>>,
    pub(super) form: ReplyForm,
    pub(super) concerned: Concerned,
    /// True if the answer may be large.
    reads_much: bool,
}

/// A command that is longer is sent on a connection of its own.
pub(super) const LARGE_BYTES: usize = 64 * 1024;

impl PassRequest {
    /// Creates the request for a read, or for one key of a list. If the client `only_reads`, it
    /// leaves the recache token to clients that may change the item: the origin, which sees only
    /// the near cache, does not know which client asks.
    pub(crate) fn read(command: &Command<'_>, frame: &Frame<'_>, only_reads: bool) -> Option<Self> {
        let key = command.key()?;
        let mut bytes = Vec::new();
        match frame {
            Frame::Text { .. } => {
                match *command {
                    Command::Get { with_cas, exptime: None, .. } => {
                        bytes.extend_from_slice(if with_cas { b"gets " } else { b"get " });
                    }
                    Command::Get { with_cas, exptime: Some(exptime), .. } => {
                        bytes.extend_from_slice(if with_cas { b"gats " } else { b"gat " });
                        bytes.extend_from_slice(format!("{exptime} ").as_bytes());
                    }
                    Command::LeaseGet { .. } => bytes.extend_from_slice(b"lease-get "),
                    Command::Inspect { .. } => bytes.extend_from_slice(b"metaget "),
                    _ => return None,
                }
                bytes.extend_from_slice(key);
                bytes.extend_from_slice(b"\r\n");
            }
            Frame::Meta(frame) => {
                let name: &[u8] = match command {
                    Command::Fetch(_) => b"mg ",
                    _ => return None,
                };
                bytes.extend_from_slice(name);
                bytes.extend_from_slice(frame.key);
                bytes.push(b' ');
                bytes.extend_from_slice(frame.flags.trim_ascii());
                let claims = matches!(command, Command::Fetch(fetch) if fetch.claims);
                bytes.extend_from_slice(if only_reads && claims { b" _\r\n" } else { b"\r\n" });
            }
            Frame::Binary(frame) => {
                bytes.extend_from_slice(&header(frame.opcode, key.len(), frame.opaque));
                bytes.extend_from_slice(key);
            }
        }
        Some(Self::of(vec![bytes], frame, Concerned::Key(key.into()), true))
    }

    /// Creates the request for a command in the bytes of the client: its line, or its header with
    /// extras and key, and its value.
    pub(crate) fn raw(bytes: Vec<u8>, frame: &Frame<'_>, concerned: Concerned) -> Self {
        Self::of(vec![bytes], frame, concerned, false)
    }

    /// Same as [`Self::raw`], for bytes in several parts.
    pub(crate) fn in_parts(parts: Vec<Vec<u8>>, frame: &Frame<'_>, concerned: Concerned) -> Self {
        Self::of(parts, frame, concerned, false)
    }

    fn of(mut parts: Vec<Vec<u8>>, frame: &Frame<'_>, concerned: Concerned, is_read: bool) -> Self {
        let form = match frame {
            Frame::Text { quiet: true } => ReplyForm::Quiet,
            Frame::Text { .. } if is_read => ReplyForm::List,
            Frame::Text { .. } => ReplyForm::One,
            Frame::Meta(frame) if frame.quiet => ReplyForm::Quiet,
            Frame::Meta(_) => ReplyForm::One,
            Frame::Binary(frame) if binary::opcode::is_quiet(frame.opcode) => {
                ReplyForm::BinaryQuiet
            }
            Frame::Binary(_) => ReplyForm::Binary,
        };
        // The origin may not answer a quiet command. It answers the one that follows, after it has
        // executed the quiet one.
        match (form, parts.last_mut()) {
            (ReplyForm::Quiet, Some(part)) => part.extend_from_slice(b"mn\r\n"),
            (ReplyForm::BinaryQuiet, Some(part)) => {
                part.extend_from_slice(&header(binary::opcode::NOOP, 0, 0));
            }
            _ => {}
        }
        Self { parts, form, concerned, reads_much: false }
    }

    /// Creates the removal of an item whose store is refused, because its value is too large.
    pub(crate) fn removal(key: &[u8]) -> Self {
        let mut bytes = b"md ".to_vec();
        larder_protocol::base64::encode(&mut bytes, key);
        bytes.extend_from_slice(b" b\r\n");
        let concerned = Concerned::Key(key.into());
        Self { parts: vec![bytes], form: ReplyForm::One, concerned, reads_much: false }
    }

    /// True if the command could hold up others on the same connection.
    pub(super) fn is_large(&self) -> bool {
        self.reads_much || self.bytes() > LARGE_BYTES
    }

    /// Returns the keys that the command may change.
    pub(crate) fn concerned(&self) -> &Concerned {
        &self.concerned
    }

    /// Expects a large answer.
    pub(crate) fn reading_much(self) -> Self {
        Self { reads_much: true, ..self }
    }

    /// True if the command is in the binary protocol.
    pub(super) fn is_binary(&self) -> bool {
        matches!(self.form, ReplyForm::Binary | ReplyForm::BinaryQuiet)
    }

    /// Returns the length of the request in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }
}

/// True if the key can stand in a line of the text protocol.
pub(crate) fn is_plain(key: &[u8]) -> bool {
    key.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// Returns the header of a request of the binary protocol that has only a key.
fn header(opcode: u8, key_bytes: usize, opaque: u32) -> [u8; binary::HEADER_BYTES] {
    let header = binary::Header {
        opcode,
        key_bytes: key_bytes as u16,
        extras_bytes: 0,
        status: 0,
        body_bytes: key_bytes as u32,
        opaque,
        cas: 0,
    };
    header.bytes(binary::REQUEST_MAGIC)
}
