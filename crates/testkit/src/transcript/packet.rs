//! Packets of the binary protocol, as the text of one transcript line.

use std::fmt;

use anyhow::{Context, Result, bail};
use larder_protocol::binary::header::{REQUEST_MAGIC, RESPONSE_MAGIC};
use larder_protocol::binary::{HEADER_BYTES, Header};

use super::template::{Numbers, Template};

/// A request to send, or a response to receive.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// The text of the line.
    text: String,
    opcode: u8,
    status: u16,
    opaque: u32,
    cas: Template,
    extras: Vec<u8>,
    key: Template,
    value: Template,
    /// Header fields that are wrong on purpose, to test how a server handles damaged packets.
    lies: Lies,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lies {
    magic: Option<u8>,
    extras_bytes: Option<u8>,
    key_bytes: Option<u16>,
    body_bytes: Option<u32>,
}

impl Packet {
    /// Parses `<opcode> [<field>=<text>]…`.
    ///
    /// # Errors
    /// Names the field that cannot be parsed.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let name = words.next().unwrap_or_default();
        let opcode = opcode(name).with_context(|| format!("`{name}` is not an opcode"))?;
        let mut packet = Self { text: text.into(), opcode, ..Self::default() };
        for word in words {
            let (field, text) = word.split_once('=').with_context(|| format!("`{word}`"))?;
            packet.set(field, text).with_context(|| format!("`{word}`"))?;
        }
        Ok(packet)
    }

    fn set(&mut self, field: &str, text: &str) -> Result<()> {
        match field {
            "status" => self.status = number(text)?.try_into()?,
            "opaque" => self.opaque = number(text)?.try_into()?,
            "cas" => self.cas = bytes(text)?,
            "flags" | "exptime" => {
                self.extras.extend_from_slice(&u32::try_from(number(text)?)?.to_be_bytes());
            }
            "delta" | "initial" => self.extras.extend_from_slice(&number(text)?.to_be_bytes()),
            "extras" => self.extras.extend(bytes(text)?.fill_in(&Numbers::default())?),
            "key" => self.key = bytes(text)?,
            "value" => self.value = bytes(text)?,
            "number" => self.value = Template::of_bytes(&number(text)?.to_be_bytes()),
            "magic" => self.lies.magic = Some(number(text)?.try_into()?),
            "extras_bytes" => self.lies.extras_bytes = Some(number(text)?.try_into()?),
            "key_bytes" => self.lies.key_bytes = Some(number(text)?.try_into()?),
            "body_bytes" => self.lies.body_bytes = Some(number(text)?.try_into()?),
            _ => bail!("unknown field"),
        }
        Ok(())
    }

    /// Returns the bytes of a request.
    ///
    /// # Errors
    /// A number has not been received yet, or is a pattern.
    pub fn fill_in(&self, numbers: &Numbers) -> Result<Vec<u8>> {
        let (key, value) = (self.key.fill_in(numbers)?, self.value.fill_in(numbers)?);
        let cas = String::from_utf8(self.cas.fill_in(numbers)?)?;
        let body_bytes = self.extras.len() + key.len() + value.len();
        let lies = self.lies;
        let header = Header {
            opcode: self.opcode,
            key_bytes: lies.key_bytes.map_or_else(|| key.len().try_into(), Ok)?,
            extras_bytes: lies.extras_bytes.map_or_else(|| self.extras.len().try_into(), Ok)?,
            status: self.status,
            body_bytes: lies.body_bytes.map_or_else(|| body_bytes.try_into(), Ok)?,
            opaque: self.opaque,
            cas: if cas.is_empty() { 0 } else { cas.parse()? },
        };
        let magic = lies.magic.unwrap_or(REQUEST_MAGIC);
        Ok([&header.bytes(magic), &self.extras[..], &key, &value].concat())
    }

    /// Returns true if a response matches. Assigns the received values to numbers that are named
    /// for the first time.
    pub fn matches(&self, header: &Header, body: &[u8], numbers: &mut Numbers) -> bool {
        let Some((extras, key, value)) = parts(header, body) else {
            return false;
        };
        let is_cas = match header.cas {
            0 => self.cas == Template::default(),
            cas => self.cas.matches(cas.to_string().as_bytes(), numbers),
        };
        is_cas
            && (header.opcode, header.status) == (self.opcode, self.status)
            && header.opaque == self.opaque
            && extras == self.extras
            && self.key.matches(key, numbers)
            && self.value.matches(value, numbers)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the header and the length of the response at the beginning of the bytes. Returns `None`
/// if the header is incomplete, or the bytes are not a response.
pub(super) fn answer_bytes(received: &[u8]) -> Option<(Header, usize)> {
    let header = received.first_chunk::<HEADER_BYTES>()?;
    (header[0] == RESPONSE_MAGIC).then_some(())?;
    let header = Header::read(header);
    Some((header, HEADER_BYTES + header.body_bytes as usize))
}

/// Describes a response.
pub(super) fn shown(header: &Header, body: &[u8]) -> String {
    let Header { opcode, status, opaque, cas, .. } = header;
    let (extras, key, value) = parts(header, body).unwrap_or((&[], &[], body));
    format!(
        "{opcode:#04x} status={status:#x} opaque={opaque:#x} cas={cas} extras={} key={} value={}",
        extras.escape_ascii(),
        key.escape_ascii(),
        value[..value.len().min(200)].escape_ascii()
    )
}

fn parts<'a>(header: &Header, body: &'a [u8]) -> Option<(&'a [u8], &'a [u8], &'a [u8])> {
    let (extras, rest) = body.split_at_checked(usize::from(header.extras_bytes))?;
    let (key, value) = rest.split_at_checked(usize::from(header.key_bytes))?;
    Some((extras, key, value))
}

/// Parses a template without a line end.
fn bytes(text: &str) -> Result<Template> {
    Template::parse(&format!("{text}\\"))
}

fn number(text: &str) -> Result<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("`{text}` is not a number"))
}

fn opcode(name: &str) -> Option<u8> {
    let position = NAMES.iter().position(|known| *known == name && !known.is_empty());
    position.map(|at| at as u8).or_else(|| number(name).ok()?.try_into().ok())
}

/// The opcodes from 0, by their names in the protocol's specification.
const NAMES: &[&str] = &[
    "get",
    "set",
    "add",
    "replace",
    "delete",
    "increment",
    "decrement",
    "quit",
    "flush",
    "getq",
    "noop",
    "version",
    "getk",
    "getkq",
    "append",
    "prepend",
    "stat",
    "setq",
    "addq",
    "replaceq",
    "deleteq",
    "incrementq",
    "decrementq",
    "quitq",
    "flushq",
    "appendq",
    "prependq",
    "",
    "touch",
    "gat",
    "gatq",
    "",
    "sasl_list",
    "sasl_auth",
    "sasl_step",
    "gatk",
    "gatkq",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_header_and_its_fields() {
        let packet =
            Packet::parse("set key=k\\x20 flags=7 exptime=0 value=abc opaque=0x10").unwrap();
        let bytes = packet.fill_in(&Numbers::default()).unwrap();
        assert_eq!(bytes[..12], [0x80, 1, 0, 2, 8, 0, 0, 0, 0, 0, 0, 13]);
        assert_eq!(bytes[12..24], [0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..], *b"\0\0\0\x07\0\0\0\0k abc");
        let lie = Packet::parse("0x1b key_bytes=0xffff body_bytes=0 magic=0x81").unwrap();
        let bytes = lie.fill_in(&Numbers::default()).unwrap();
        assert_eq!(bytes[..12], [0x81, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn an_answer_matches_field_by_field_and_names_its_token() {
        let header = Header {
            opcode: 0,
            extras_bytes: 4,
            body_bytes: 7,
            opaque: 1,
            cas: 55,
            ..Header::default()
        };
        let mut numbers = Numbers::default();
        let packet = Packet::parse("get flags=7 value=abc opaque=1 cas=<c>").unwrap();
        assert!(packet.matches(&header, b"\0\0\0\x07abc", &mut numbers));
        assert!(!packet.matches(&Header { cas: 56, ..header }, b"\0\0\0\x07abc", &mut numbers));
        assert!(!packet.matches(&Header { cas: 0, ..header }, b"\0\0\0\x07abc", &mut numbers));
        assert!(!packet.matches(&header, b"\0\0\0\x07abd", &mut numbers));
        assert!(!packet.matches(&Header { status: 1, ..header }, b"\0\0\0\x07abc", &mut numbers));
        let cas = Packet::parse("set cas=<c>").unwrap().fill_in(&numbers).unwrap();
        assert_eq!(cas[16..24], 55_u64.to_be_bytes());
    }

    #[test]
    fn an_error_names_the_invalid_part() {
        for (text, part) in [("sett", "`sett`"), ("set k", "`k`"), ("get keys=1", "`keys=1`")] {
            let error = format!("{:#}", Packet::parse(text).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
