//! Parses meta lines into commands.

use larder_item::{Direction, KEY_BYTES_MAX, StoreMode};

use super::flags::Letters;
use crate::base64;
use crate::command::{Arithmetic, Command, Delete, Fetch, Initial, Remains, Store};
use crate::frame::Frame;
use crate::lines::key::short;
use crate::lines::line::{LINE_END, value_bytes};
use crate::lines::words::Words;
use crate::parsed::{Bad, Parsed};
use crate::response::ClientError;
use crate::{meta, number};

/// `mg <key> <flags>*`
#[inline]
pub(crate) fn get<'a>(mut words: Words<'a>, consumed: usize) -> Parsed<'a> {
    let (key, asked) = match words.next().ok_or(ClientError::BadFormat).and_then(|key| {
        let key = short(key).ok_or(ClientError::BadFormat)?;
        Ok((key, LineFlags::read(key, &words, Letters::KNOWN)?))
    }) {
        Ok(asked) => asked,
        Err(error) => return refuse(error, consumed, 0),
    };
    let fetch = Fetch {
        key,
        with_value: asked.letters.has(b'v'),
        noted: !asked.letters.has(b'u'),
        exptime: asked.exptime,
        vivify: asked.vivify,
        recache: asked.recache,
        touch_first: asked.touch_first,
        known_cas: asked.cas,
        version: asked.version,
        claims: !asked.letters.has(b'_'),
    };
    asked.command(Command::Fetch(fetch), key, words.rest(), consumed)
}

/// `ms <key> <bytes> <flags>*`
///
/// Once the length is known, the server skips the value of a refused command.
pub(crate) fn set<'a>(mut words: Words<'a>, consumed: usize) -> Parsed<'a> {
    let (Some(key), Some(bytes)) = (words.next(), words.next().and_then(value_bytes)) else {
        return refuse(ClientError::BadFormat, consumed, 0);
    };
    let read = || {
        let key = short(key).ok_or(ClientError::BadFormat)?;
        let asked = LineFlags::read(key, &words, Letters::OF_ALL)?;
        Ok((asked, asked.store_mode()?))
    };
    let (asked, mode) = match read() {
        Ok(asked) => asked,
        Err(error) => return refuse(error, consumed, (bytes + LINE_END.len()) as u64),
    };
    let store = Store {
        key,
        mode,
        cas: asked.cas.filter(|_| mode != StoreMode::Add),
        flags: asked.client_flags.unwrap_or(0),
        exptime: asked.exptime.unwrap_or(0),
        value_bytes: bytes,
        version: asked.version,
        invalidate: asked.letters.has(b'I'),
        vivify: asked.vivify,
        lease: None,
    };
    asked.store(store, words.rest(), consumed)
}

/// `md <key> <flags>*`
pub(crate) fn delete<'a>(mut words: Words<'a>, consumed: usize) -> Parsed<'a> {
    let Some(key) = words.next().and_then(short) else {
        return refuse(ClientError::BadFormat, consumed, 0);
    };
    let asked = match LineFlags::read(key, &words, Letters::OF_ALL) {
        Ok(asked) => asked,
        Err(error) => return refuse(vague(error), consumed, 0),
    };
    let remains = match (asked.letters.has(b'x'), asked.letters.has(b'I')) {
        (true, stale) => Remains::Empty { stale },
        (false, true) => Remains::Stale,
        (false, false) => Remains::Nothing,
    };
    let LineFlags { cas, exptime, version, .. } = asked;
    let delete = Delete { key, cas, remains, exptime, version };
    asked.command(Command::Delete(delete), key, words.rest(), consumed)
}

/// `ma <key> <flags>*`
pub(crate) fn arithmetic<'a>(mut words: Words<'a>, consumed: usize) -> Parsed<'a> {
    let Some(key) = words.next().and_then(short) else {
        return refuse(ClientError::BadFormat, consumed, 0);
    };
    let read = || {
        let asked = LineFlags::read(key, &words, Letters::OF_ALL).map_err(vague)?;
        let direction = match asked.mode {
            None | Some(b'I' | b'+') => Direction::Increment,
            Some(b'D' | b'-') => Direction::Decrement,
            Some(_) => return Err(ClientError::BadArithmeticMode),
        };
        Ok((asked, direction))
    };
    let (asked, direction) = match read() {
        Ok(asked) => asked,
        Err(error) => return refuse(error, consumed, 0),
    };
    let number = asked.initial.unwrap_or(0);
    let arithmetic = Arithmetic {
        key,
        direction,
        delta: asked.delta.unwrap_or(1),
        cas: asked.cas,
        initial: asked.vivify.map(|exptime| Initial { number, exptime }),
        exptime: asked.exptime,
        version: asked.version,
    };
    asked.command(Command::Arithmetic(arithmetic), key, words.rest(), consumed)
}

/// `me <key> [b]`
pub(crate) fn inspect<'a>(mut words: Words<'a>, consumed: usize) -> Parsed<'a> {
    let Some(key) = words.next().and_then(short) else {
        return refuse(ClientError::BadFormat, consumed, 0);
    };
    let mut asked = LineFlags::default();
    if words.next() == Some(b"b") {
        if !is_base64(key) {
            return refuse(ClientError::BadFormat, consumed, 0);
        }
        asked.letters.add(b'b');
    }
    asked.command(Command::Inspect { key }, key, b"", consumed)
}

/// The flags of a line.
#[derive(Clone, Copy, Default)]
struct LineFlags {
    /// The letters of all flags of the line.
    letters: Letters,
    /// `T`: the item's new exptime.
    exptime: Option<i64>,
    /// `N`: on a miss, the exptime of the item to create.
    vivify: Option<i64>,
    /// `R`: see [`Fetch::recache`].
    recache: Option<i64>,
    /// True if `T` was before `R`: see [`Fetch::touch_first`].
    touch_first: bool,
    /// `C`: the cas token to compare with.
    cas: Option<u64>,
    /// `E`: the item's new cas token.
    version: Option<u64>,
    /// `F`: the flags to store with the item.
    client_flags: Option<u32>,
    /// `M`: the letter of the mode.
    mode: Option<u8>,
    /// `J`: the number of a counter that the command creates.
    initial: Option<u64>,
    /// `D`: the number to add or to subtract.
    delta: Option<u64>,
}

impl LineFlags {
    /// Parses the flags after a key. Reports the first invalid flag. If all flags exist, reports
    /// the first invalid token.
    #[inline]
    fn read(key: &[u8], words: &Words<'_>, known: Letters) -> Result<Self, ClientError> {
        let mut asked = Self::default();
        let mut words = words.clone();
        let mut bad_token = None;
        for flag in words.by_ref() {
            let (letter, token) = asked.take(flag, known)?;
            if letter.is_ascii_uppercase() {
                bad_token = asked.take_token(letter, token).err().or(bad_token);
            }
        }
        if words.taken_count() > WORDS_MAX {
            return Err(ClientError::TooManyFlags);
        }
        if asked.letters.has(b'b') && !is_base64(key) {
            return Err(ClientError::BadBase64);
        }
        bad_token.map_or(Ok(asked), Err)
    }

    /// Splits a flag into letter and token and records the letter.
    #[inline]
    fn take<'f>(&mut self, flag: &'f [u8], known: Letters) -> Result<(u8, &'f [u8]), ClientError> {
        let (&letter, token) = flag.split_first().ok_or(ClientError::BadFormat)?;
        if !matches!(letter, b'A'..=b'z' | b'0'..=b'9') {
            return Err(ClientError::BadFormat);
        }
        if self.letters.has(letter) {
            return Err(ClientError::DuplicateFlag);
        }
        if !known.has(letter) {
            return Err(ClientError::BadFlag);
        }
        self.letters.add(letter);
        Ok((letter, token))
    }

    fn take_token(&mut self, letter: u8, token: &[u8]) -> Result<(), ClientError> {
        let bad = ClientError::BadToken;
        let exptime = || number::signed_32(token).map(i64::from).ok_or(bad);
        let wide = |error| number::unsigned_64(token).ok_or(error);
        match letter {
            b'T' => {
                self.exptime = Some(exptime()?);
                // `N` is the exptime of an item that the command creates. A later `T` replaces it.
                self.vivify = self.vivify.and(self.exptime);
            }
            b'N' => self.vivify = Some(exptime()?),
            b'R' => {
                self.recache = Some(exptime()?);
                self.touch_first = self.exptime.is_some();
            }
            b'C' => self.cas = Some(wide(bad)?),
            b'E' => self.version = Some(wide(bad)?),
            b'J' => self.initial = Some(wide(bad)?),
            b'D' => self.delta = Some(wide(bad)?),
            b'F' => {
                let flags = number::unsigned_32(token).ok_or(ClientError::BadFormat)?;
                self.client_flags = Some(flags);
            }
            // A missing mode is refused like an unknown mode.
            b'M' => self.mode = Some(token.first().copied().unwrap_or(b' ')),
            b'O' if token.len() > OPAQUE_BYTES_MAX => return Err(ClientError::OpaqueTooLong),
            _ => {}
        }
        Ok(())
    }

    fn store_mode(&self) -> Result<StoreMode, ClientError> {
        match self.mode {
            None | Some(b'S') => Ok(StoreMode::Set),
            Some(b'E') => Ok(StoreMode::Add),
            Some(b'R') => Ok(StoreMode::Replace),
            Some(b'A') => Ok(StoreMode::Append),
            Some(b'P') => Ok(StoreMode::Prepend),
            Some(_) => Err(ClientError::BadStoreMode),
        }
    }

    #[inline]
    fn command<'a>(
        &self,
        command: Command<'a>,
        key: &'a [u8],
        flags: &'a [u8],
        consumed: usize,
    ) -> Parsed<'a> {
        let (base64, quiet) = (self.letters.has(b'b'), self.letters.has(b'q'));
        let frame = Frame::Meta(meta::Frame { key, base64, flags, value_bytes: None, quiet });
        Parsed::Command { command, frame, consumed }
    }

    fn store<'a>(&self, store: Store<'a>, flags: &'a [u8], consumed: usize) -> Parsed<'a> {
        let (base64, quiet) = (self.letters.has(b'b'), self.letters.has(b'q'));
        let Store { key, value_bytes, .. } = store;
        let value_bytes = Some(value_bytes);
        let frame = Frame::Meta(meta::Frame { key, base64, flags, value_bytes, quiet });
        Parsed::Command { command: Command::Store(store), frame, consumed }
    }
}

#[cold]
fn refuse<'a>(error: ClientError, consumed: usize, swallow: u64) -> Parsed<'a> {
    let (error, frame) = (Some(error.into()), Frame::default());
    Parsed::Bad(Bad { error, frame, consumed, swallow, close: false })
}

/// Returns the error for invalid flags of `md` and `ma`. memcached does not distinguish most of
/// them in these commands.
fn vague(error: ClientError) -> ClientError {
    match error {
        ClientError::TooManyFlags | ClientError::OpaqueTooLong => error,
        _ => ClientError::BadOrDuplicateFlag,
    }
}

#[cold]
fn is_base64(key: &[u8]) -> bool {
    base64::decode(key, &mut [0; KEY_BYTES_MAX]).is_some()
}

/// The maximum number of words in a line, including name and key.
const WORDS_MAX: u8 = 20;

/// The maximum length of an opaque in bytes.
const OPAQUE_BYTES_MAX: usize = 31;

#[cfg(test)]
mod tests;
