//! Writes requests as bytes.

use larder_item::{Direction, KeyError, StoreMode, check_key};

use crate::admin::{Admin, Detail};
use crate::binary::header::{HEADER_BYTES, Header, REQUEST_MAGIC};
use crate::binary::opcode::*;
use crate::binary::parse::NO_INITIAL;
use crate::command::{Arithmetic, Command, Delete, Initial, Remains, StatsSection, Store};

/// Options for the response to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// True if the server must not report the miss of a get or the success of another command.
    /// Ignored if the protocol has no quiet opcode for the command.
    pub quiet: bool,
    /// True if the response to a get includes the key.
    pub names_key: bool,
    /// A number that the response repeats.
    pub opaque: u32,
}

/// The reason why a command cannot be sent in the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// The key is invalid.
    Key(KeyError),
    /// The protocol has no opcode for the command, or no field for a part of it.
    Command,
}

impl std::fmt::Display for Unsendable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Command => f.write_str(
                "the binary protocol cannot express the command, expected one without parts that \
                 only the text and meta protocols have",
            ),
        }
    }
}

impl std::error::Error for Unsendable {}

impl From<KeyError> for Unsendable {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// Appends one request. Does not write the value of a [`Command::Store`]; [`store`] writes both.
/// [`Command::EndOfKeys`] is not a separate request and writes nothing.
///
/// The protocol's exptimes are unsigned: a negative one is sent as a time in the distant past.
///
/// # Errors
/// [`Unsendable`]; `out` is unchanged.
pub fn command(out: &mut Vec<u8>, command: &Command<'_>, manner: Manner) -> Result<(), Unsendable> {
    let plain = Packet { manner, ..Packet::default() };
    let packet = match *command {
        Command::EndOfKeys => return Ok(()),
        Command::Store(head) => store_packet(&head, manner)?,
        Command::Get { key, exptime, .. } => {
            check_key(key)?;
            let opcode = match (exptime.is_some(), manner.names_key) {
                (false, false) => GET,
                (false, true) => GETK,
                (true, false) => GAT,
                (true, true) => GATK,
            };
            Packet { opcode, key, ..plain }.with_exptime(exptime)
        }
        Command::Touch { key, exptime } => {
            check_key(key)?;
            Packet { opcode: TOUCH, key, ..plain }.with_exptime(Some(exptime))
        }
        Command::Delete(Delete { key, cas, remains: Remains::Nothing, .. }) => {
            check_key(key)?;
            Packet { opcode: DELETE, key, cas, ..plain }
        }
        Command::Arithmetic(arithmetic) => arithmetic_packet(&arithmetic, manner)?,
        Command::FlushAll { exptime } => Packet { opcode: FLUSH, ..plain }
            .with_exptime(Some(exptime).filter(|exptime| *exptime != 0)),
        Command::Stats(section) => Packet { opcode: STAT, key: stats_key(section)?, ..plain },
        Command::Admin(Admin::Detail(Some(detail))) => {
            let key: &[u8] = match detail {
                Detail::Count(true) => b"detail on",
                Detail::Count(false) => b"detail off",
                Detail::Dump => b"detail dump",
            };
            Packet { opcode: STAT, key, ..plain }
        }
        Command::NoOp => Packet { opcode: NOOP, ..plain },
        Command::Version => Packet { opcode: VERSION, ..plain },
        Command::Config { name } => {
            check_key(name)?;
            Packet { opcode: CONFIG_GET, key: name, ..plain }
        }
        Command::Quit => Packet { opcode: QUIT, ..plain },
        Command::Mechanisms => Packet { opcode: SASL_LIST, ..plain },
        Command::Authenticate { mechanism, credentials, is_step } => {
            check_key(mechanism)?;
            let opcode = if is_step { SASL_STEP } else { SASL_AUTH };
            let value_bytes = credentials.len();
            Packet { opcode, key: mechanism, value_bytes, ..plain }.push(out)?;
            out.extend_from_slice(credentials);
            return Ok(());
        }
        _ => return Err(Unsendable::Command),
    };
    packet.push(out)
}

/// Appends a store and its value. The announced length is that of `value`, regardless of
/// `head.value_bytes`.
///
/// # Errors
/// [`Unsendable`]; `out` is unchanged.
pub fn store(
    out: &mut Vec<u8>,
    head: &Store<'_>,
    value: &[u8],
    manner: Manner,
) -> Result<(), Unsendable> {
    command(out, &Command::Store(Store { value_bytes: value.len(), ..*head }), manner)?;
    out.extend_from_slice(value);
    Ok(())
}

/// A request to write.
#[derive(Clone, Copy, Default)]
struct Packet<'a> {
    manner: Manner,
    opcode: u8,
    /// The extras; the first `extras_bytes` are in use. 20 bytes are the longest extras of any
    /// opcode.
    extras: [u8; 20],
    extras_bytes: usize,
    key: &'a [u8],
    value_bytes: usize,
    cas: Option<u64>,
}

impl Packet<'_> {
    fn with_exptime(self, exptime: Option<i64>) -> Self {
        match exptime {
            Some(exptime) => self.with(&sendable(exptime).to_be_bytes()),
            None => self,
        }
    }

    /// Appends a number to the extras of the packet.
    fn with(mut self, number: &[u8]) -> Self {
        let end = self.extras_bytes + number.len();
        if let Some(place) = self.extras.get_mut(self.extras_bytes..end) {
            place.copy_from_slice(number);
            self.extras_bytes = end;
        }
        self
    }

    fn push(&self, out: &mut Vec<u8>) -> Result<(), Unsendable> {
        let body_bytes = self.extras_bytes + self.key.len() + self.value_bytes;
        let header = Header {
            opcode: if self.manner.quiet { quiet(self.opcode) } else { self.opcode },
            key_bytes: self.key.len().try_into().map_err(|_| Unsendable::Command)?,
            extras_bytes: self.extras_bytes as u8,
            body_bytes: body_bytes.try_into().map_err(|_| Unsendable::Command)?,
            opaque: self.manner.opaque,
            cas: self.cas.unwrap_or(0),
            ..Header::default()
        };
        out.reserve(HEADER_BYTES + body_bytes);
        out.extend_from_slice(&header.bytes(REQUEST_MAGIC));
        out.extend_from_slice(self.extras.get(..self.extras_bytes).unwrap_or_default());
        out.extend_from_slice(self.key);
        Ok(())
    }
}

fn store_packet<'a>(head: &Store<'a>, manner: Manner) -> Result<Packet<'a>, Unsendable> {
    let Store { key, mode, cas, flags, exptime, value_bytes, .. } = *head;
    check_key(key)?;
    if *head != (Store { key, mode, cas, flags, exptime, value_bytes, ..Store::PLAIN }) {
        return Err(Unsendable::Command);
    }
    let plain = Packet { manner, key, value_bytes, cas, ..Packet::default() };
    let fixed =
        |opcode| Packet { opcode, ..plain }.with(&flags.to_be_bytes()).with_exptime(Some(exptime));
    Ok(match mode {
        StoreMode::Set => fixed(SET),
        StoreMode::Add => fixed(ADD),
        StoreMode::Replace => fixed(REPLACE),
        StoreMode::Append => Packet { opcode: APPEND, ..plain },
        StoreMode::Prepend => Packet { opcode: PREPEND, ..plain },
    })
}

fn arithmetic_packet<'a>(
    arithmetic: &Arithmetic<'a>,
    manner: Manner,
) -> Result<Packet<'a>, Unsendable> {
    let Arithmetic { key, direction, delta, cas, initial, exptime, version } = *arithmetic;
    check_key(key)?;
    if exptime.is_some() || version.is_some() {
        return Err(Unsendable::Command);
    }
    let opcode = match direction {
        Direction::Increment => INCREMENT,
        Direction::Decrement => DECREMENT,
    };
    let (number, exptime) = match initial {
        None => (0, NO_INITIAL),
        Some(Initial { number, exptime }) => (number, sendable(exptime).min(NO_INITIAL - 1)),
    };
    let packet = Packet { manner, opcode, key, cas, ..Packet::default() };
    Ok(packet.with(&delta.to_be_bytes()).with(&number.to_be_bytes()).with(&exptime.to_be_bytes()))
}

fn stats_key(section: StatsSection) -> Result<&'static [u8], Unsendable> {
    Ok(match section {
        StatsSection::General => b"",
        StatsSection::Settings => b"settings",
        StatsSection::Items => b"items",
        StatsSection::Slabs => b"slabs",
        StatsSection::Sizes => b"sizes",
        StatsSection::Larder => b"larder",
        StatsSection::Reset => b"reset",
        StatsSection::Connections
        | StatsSection::DeletePrefix
        | StatsSection::HotKeys
        | StatsSection::Origins
        | StatsSection::Users
        | StatsSection::Slow
        | StatsSection::Prefixes
        | StatsSection::CacheDump { .. } => {
            return Err(Unsendable::Command);
        }
    })
}

/// Returns an exptime as an unsigned 32-bit number.
fn sendable(exptime: i64) -> u32 {
    match exptime {
        ..0 => LONG_PAST,
        _ => exptime.try_into().unwrap_or(u32::MAX),
    }
}

/// Returns the quiet opcode of the same command, or the opcode itself if the command has no quiet
/// opcode.
fn quiet(opcode: u8) -> u8 {
    let mut quiet =
        (0..=GATKQ).filter(|candidate| is_quiet(*candidate) && aloud(*candidate) == opcode);
    quiet.next().unwrap_or(opcode)
}

/// The smallest exptime that the server interprets as a Unix time and not as seconds from now. It
/// is in January 1970, so an item with this exptime has expired.
const LONG_PAST: u32 = 30 * 24 * 60 * 60 + 1;
