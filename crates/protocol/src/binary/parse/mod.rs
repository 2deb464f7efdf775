//! Parses bytes into commands.

use larder_item::{Direction, KEY_BYTES_MAX, StoreMode};

use super::form::Form;
use super::header::{HEADER_BYTES, Header, REQUEST_MAGIC};
use super::opcode::*;
use crate::admin::{Admin, Detail};
use crate::command::{Arithmetic, Command, Delete, Initial, StatsSection, Store};
use crate::frame::{Frame, binary};
use crate::parsed::{Bad, Parsed};
use crate::response::{ClientError, Response};

/// The maximum length of a mechanism's name, in bytes.
pub const MECHANISM_BYTES_MAX: usize = 32;

/// The maximum length of the credentials, in bytes.
pub const CREDENTIALS_BYTES_MAX: usize = 4096;

/// Parses the request at the beginning of `input`.
///
/// The header determines whether a request is valid. The parser checks it before it waits for
/// extras and key. It never waits for a value, except for credentials.
///
/// ```
/// use larder_protocol::{Command, Parsed, binary};
///
/// let mut input = vec![0x80, 0x00, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
/// input.resize(24, 0);
/// assert_eq!(binary::parse(&input), Parsed::NeedMore);
/// input.push(b'k');
/// let Parsed::Command { command, consumed, .. } = binary::parse(&input) else { panic!("a get") };
/// assert_eq!(command, Command::Get { key: b"k", with_cas: true, exptime: None });
/// assert_eq!(consumed, 25);
/// ```
pub fn parse(input: &[u8]) -> Parsed<'_> {
    match input.first() {
        None => return Parsed::NeedMore,
        Some(&REQUEST_MAGIC) => {}
        Some(_) => return no_request(input),
    }
    let Some((header, body)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Parsed::NeedMore;
    };
    let header = Header::read(header);
    let value_bytes = match check(&header) {
        Ok(value_bytes) => value_bytes as usize,
        Err(bad) => return Parsed::Bad(bad),
    };
    let (extras_bytes, key_bytes) =
        (usize::from(header.extras_bytes), usize::from(header.key_bytes));
    let Some((extras, rest)) = body.split_at_checked(extras_bytes) else {
        return Parsed::NeedMore;
    };
    let Some((key, rest)) = rest.split_at_checked(key_bytes) else {
        return Parsed::NeedMore;
    };
    let request = Request { header, extras, key, value_bytes };
    let consumed = HEADER_BYTES + extras_bytes + key_bytes;
    if matches!(header.opcode, SASL_AUTH | SASL_STEP) {
        return match rest.get(..value_bytes) {
            Some(credentials) => request.authenticate(credentials, consumed + value_bytes),
            None => Parsed::NeedMore,
        };
    }
    match request.command() {
        Ok(command) => Parsed::Command { command, frame: request.frame(), consumed },
        Err(error) => {
            let (error, frame) = (Some(error), request.frame());
            Parsed::Bad(Bad { error, frame, consumed, swallow: 0, close: false })
        }
    }
}

/// Refuses bytes that do not begin like a request. The beginning of the next request cannot be
/// found, so the connection must be closed.
#[cold]
fn no_request(input: &[u8]) -> Parsed<'_> {
    let (frame, consumed) = (Frame::default(), input.len());
    Parsed::Bad(Bad { error: None, frame, consumed, swallow: 0, close: true })
}

/// Checks a header before the parser waits for the rest. Returns the length of the value.
fn check(header: &Header) -> Result<u32, Bad<'static>> {
    let refuse = |error: ClientError, swallow: u64, close: bool| {
        let (error, frame) = (Some(error.into()), frame(header, &[]));
        Err(Bad { error, frame, consumed: HEADER_BYTES, swallow, close })
    };
    let Some(value_bytes) = header.value_bytes() else {
        return refuse(ClientError::UnknownCommand, 0, true);
    };
    if usize::from(header.key_bytes) > KEY_BYTES_MAX {
        return refuse(ClientError::BadFormat, 0, true);
    }
    let whole_body = u64::from(header.body_bytes);
    match Form::of(header.opcode) {
        None => return refuse(ClientError::UnknownCommand, whole_body, false),
        // memcached does not have this opcode, so it does not close the connection.
        Some(form) if header.opcode == CONFIG_GET && !form.fits(header, value_bytes) => {
            return refuse(ClientError::UnknownCommand, whole_body, false);
        }
        Some(form) if !form.fits(header, value_bytes) => {
            return refuse(ClientError::BadFormat, 0, true);
        }
        Some(_) => {}
    }
    let is_too_long = usize::from(header.key_bytes) > MECHANISM_BYTES_MAX
        || value_bytes as usize > CREDENTIALS_BYTES_MAX;
    if matches!(header.opcode, SASL_AUTH | SASL_STEP) && is_too_long {
        return refuse(ClientError::BadFormat, whole_body, false);
    }
    Ok(value_bytes)
}

/// A request with valid lengths.
struct Request<'a> {
    header: Header,
    extras: &'a [u8],
    key: &'a [u8],
    value_bytes: usize,
}

impl<'a> Request<'a> {
    fn frame(&self) -> Frame<'a> {
        frame(&self.header, self.key)
    }

    fn authenticate(&self, credentials: &'a [u8], consumed: usize) -> Parsed<'a> {
        let is_step = self.header.opcode == SASL_STEP;
        let command = Command::Authenticate { mechanism: self.key, credentials, is_step };
        Parsed::Command { command, frame: self.frame(), consumed }
    }

    /// Returns the command, or an error if the key names an unknown section.
    fn command(&self) -> Result<Command<'a>, Response> {
        let key = self.key;
        Ok(match aloud(self.header.opcode) {
            GET | GETK => Command::Get { key, with_cas: true, exptime: None },
            GAT | GATK => Command::Get { key, with_cas: true, exptime: Some(exptime(self.extras)) },
            TOUCH => Command::Touch { key, exptime: exptime(self.extras) },
            SET => self.store(StoreMode::Set),
            ADD => self.store(StoreMode::Add),
            REPLACE => self.store(StoreMode::Replace),
            APPEND => self.extend(StoreMode::Append),
            PREPEND => self.extend(StoreMode::Prepend),
            DELETE => Command::Delete(Delete { cas: self.cas(), ..Delete::of(key) }),
            INCREMENT => self.arithmetic(Direction::Increment),
            DECREMENT => self.arithmetic(Direction::Decrement),
            FLUSH => Command::FlushAll { exptime: exptime(self.extras) },
            STAT => statistics(key).ok_or(Response::NotFound)?,
            NOOP => Command::NoOp,
            VERSION => Command::Version,
            CONFIG_GET => Command::Config { name: key },
            QUIT => Command::Quit,
            SASL_LIST => Command::Mechanisms,
            _ => return Err(ClientError::UnknownCommand.into()),
        })
    }

    fn cas(&self) -> Option<u64> {
        Some(self.header.cas).filter(|cas| *cas != 0)
    }

    /// A cas token overrides the mode: the item must exist and have the token.
    fn store(&self, mode: StoreMode) -> Command<'a> {
        let cas = self.cas();
        let mode = if cas.is_some() { StoreMode::Set } else { mode };
        let (flags, rest) = number_32(self.extras);
        let (key, value_bytes, exptime) = (self.key, self.value_bytes, exptime(rest));
        Command::Store(Store { key, mode, cas, flags, exptime, value_bytes, ..Store::PLAIN })
    }

    fn extend(&self, mode: StoreMode) -> Command<'a> {
        let (key, cas, value_bytes) = (self.key, self.cas(), self.value_bytes);
        Command::Store(Store { key, mode, cas, value_bytes, ..Store::PLAIN })
    }

    fn arithmetic(&self, direction: Direction) -> Command<'a> {
        let (delta, rest) = number_64(self.extras);
        let (number, rest) = number_64(rest);
        let initial = match number_32(rest).0 {
            NO_INITIAL => None,
            exptime => Some(Initial { number, exptime: i64::from(exptime) }),
        };
        let cas = self.cas();
        Command::Arithmetic(Arithmetic {
            cas,
            initial,
            ..Arithmetic::of(self.key, direction, delta)
        })
    }
}

fn frame<'a>(header: &Header, key: &'a [u8]) -> Frame<'a> {
    Frame::Binary(binary::Frame { opcode: header.opcode, opaque: header.opaque, key })
}

/// Returns the command for the key of a `stat`: a section, or a setting of `stats detail`. Like in
/// memcached, some names need to match only the beginning of the key.
fn statistics(key: &[u8]) -> Option<Command<'_>> {
    let Some(rest) = key.strip_prefix(b"detail") else {
        return section(key).map(Command::Stats);
    };
    let detail = match rest {
        _ if rest.starts_with(b" dump") => Detail::Dump,
        _ if rest.starts_with(b" on") => Detail::Count(true),
        _ if rest.starts_with(b" off") => Detail::Count(false),
        _ => return None,
    };
    Some(Command::Admin(Admin::Detail(Some(detail))))
}

fn section(key: &[u8]) -> Option<StatsSection> {
    Some(match key {
        b"" => StatsSection::General,
        b"items" => StatsSection::Items,
        b"slabs" => StatsSection::Slabs,
        b"sizes" => StatsSection::Sizes,
        b"larder" => StatsSection::Larder,
        _ if key.starts_with(b"reset") => StatsSection::Reset,
        _ if key.starts_with(b"settings") => StatsSection::Settings,
        _ => return None,
    })
}

/// Returns the exptime, which is unsigned in this protocol, or 0 if the request does not contain
/// one.
fn exptime(extras: &[u8]) -> i64 {
    i64::from(number_32(extras).0)
}

/// Splits the first number off the extras; 0 if they are too short. The caller has checked the form
/// of the request, so this happens only for requests in which the number does not matter.
fn number_32(extras: &[u8]) -> (u32, &[u8]) {
    extras
        .split_first_chunk()
        .map_or((0, extras), |(bytes, rest)| (u32::from_be_bytes(*bytes), rest))
}

fn number_64(extras: &[u8]) -> (u64, &[u8]) {
    extras
        .split_first_chunk()
        .map_or((0, extras), |(bytes, rest)| (u64::from_be_bytes(*bytes), rest))
}

/// The exptime with which a client forbids the server to create a missing counter.
pub(super) const NO_INITIAL: u32 = u32::MAX;

#[cfg(test)]
mod tests;
