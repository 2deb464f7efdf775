//! Parses the arguments of commands, one function per form.

use larder_item::{Direction, KEY_BYTES_MAX, StoreMode};

use crate::admin::Refusal;
use crate::cluster::CLUSTER;
use crate::command::{
    Arithmetic, Command, Copied, Delete, KillTarget, NAME_BYTES_MAX, StatsSection, Store, Warm,
};
use crate::frame::Frame;
use crate::lines::key::short;
use crate::lines::line::{LINE_END, value_bytes};
use crate::lines::words::Words;
use crate::parsed::{Bad, Parsed};
use crate::response::ClientError;
use crate::{base64, follow, number};

/// The arguments of a line of `consumed` bytes. `words` yields the words after the name.
pub(super) struct Arguments<'a> {
    pub(super) words: Words<'a>,
    pub(super) consumed: usize,
}

impl<'a> Arguments<'a> {
    /// `<key> <flags> <exptime> <bytes> [<cas>] [noreply]`
    ///
    /// If the length is missing or invalid, the server cannot skip the value: it sends an error,
    /// even with `noreply`, and parses the value as commands. If another argument is invalid, it
    /// skips the value and honours `noreply`.
    pub(super) fn store(mut self, mode: StoreMode, with_cas: bool) -> Parsed<'a> {
        let key = self.words.next();
        self.store_of(key, mode, with_cas, None)
    }

    /// `<key> <token> <flags> <exptime> <bytes>`
    pub(super) fn lease_set(mut self) -> Parsed<'a> {
        let key = self.words.next();
        match self.words.next().and_then(number::unsigned_64) {
            None => self.refuse(ClientError::BadFormat, false),
            token => self.store_of(key, StoreMode::Set, false, token),
        }
    }

    fn store_of(
        mut self,
        key: Option<&'a [u8]>,
        mode: StoreMode,
        with_cas: bool,
        lease: Option<u64>,
    ) -> Parsed<'a> {
        let words = &mut self.words;
        let (Some(key), Some(flags), Some(exptime), Some(bytes)) =
            (key, words.next(), words.next(), words.next())
        else {
            return self.refuse(ClientError::BadFormat, false);
        };
        let Some(value_bytes) = value_bytes(bytes) else {
            return self.refuse(ClientError::BadFormat, false);
        };
        let cas = if with_cas {
            words.next().and_then(number::unsigned_64).map(Some)
        } else {
            Some(None)
        };
        let quiet = self.words.end_in_noreply();
        let (Some(key), Some(flags), Some(exptime), Some(cas)) =
            (short(key), number::flags_wrapping(flags), number::exptime_wrapping(exptime), cas)
        else {
            let error = (!quiet).then_some(ClientError::BadFormat.into());
            let swallow = (value_bytes + LINE_END.len()) as u64;
            let (frame, consumed) = (Frame::default(), self.consumed);
            return Parsed::Bad(Bad { error, frame, consumed, swallow, close: false });
        };
        let head = Store { key, mode, cas, flags, exptime, value_bytes, lease, ..Store::PLAIN };
        command(Command::Store(head), quiet, self.consumed)
    }

    /// `<key> [noreply]`
    ///
    /// In old versions of memcached, a number after the key was a delay in seconds. Delayed
    /// deletions no longer exist. So 0 is accepted, but any other number is refused, because the
    /// item must not be deleted immediately. One word that is not a number is ignored. Two such
    /// words are refused, because the client must mean a different command.
    pub(super) fn delete(mut self) -> Parsed<'a> {
        let Some(key) = self.words.next() else {
            return self.refuse(ClientError::BadFormat, false);
        };
        let has_delay = self.words.next().is_some_and(is_number_but_zero);
        let has_more = self.words.next().is_some_and(|word| word != b"noreply");
        let quiet = self.words.end_in_noreply();
        match short(key) {
            None => self.refuse(ClientError::BadFormat, quiet),
            Some(_) if has_delay || has_more => self.refuse(ClientError::BadDeleteUsage, quiet),
            Some(key) => command(Command::Delete(Delete::of(key)), quiet, self.consumed),
        }
    }

    /// `<key> <delta> [noreply]`
    pub(super) fn arithmetic(mut self, direction: Direction) -> Parsed<'a> {
        let (Some(key), Some(delta)) = (self.words.next(), self.words.next()) else {
            return self.refuse(ClientError::BadFormat, false);
        };
        let quiet = self.words.end_in_noreply();
        let Some(key) = short(key) else {
            return self.refuse(ClientError::BadFormat, quiet);
        };
        match number::unsigned_64(delta) {
            None => self.refuse(ClientError::BadDelta, quiet),
            Some(delta) => {
                let arithmetic = Arithmetic::of(key, direction, delta);
                command(Command::Arithmetic(arithmetic), quiet, self.consumed)
            }
        }
    }

    /// `<key> <exptime> [noreply]`
    pub(super) fn touch(mut self) -> Parsed<'a> {
        let (Some(key), Some(exptime)) = (self.words.next(), self.words.next()) else {
            return self.refuse(ClientError::BadFormat, false);
        };
        let quiet = self.words.end_in_noreply();
        let Some(key) = short(key) else {
            return self.refuse(ClientError::BadFormat, quiet);
        };
        match number::exptime(exptime) {
            None => self.refuse(ClientError::BadExptime, quiet),
            Some(exptime) => command(Command::Touch { key, exptime }, quiet, self.consumed),
        }
    }

    /// `[<exptime>] [noreply]`
    pub(super) fn flush_all(mut self) -> Parsed<'a> {
        let exptime = match self.words.next() {
            None => Some(0),
            Some(b"noreply") if self.words.rest().is_empty() => Some(0),
            Some(delay) => number::exptime(delay),
        };
        let quiet = self.words.end_in_noreply();
        match exptime {
            None => self.refuse(ClientError::BadExptime, quiet),
            Some(exptime) => command(Command::FlushAll { exptime }, quiet, self.consumed),
        }
    }

    /// `<prefix> [b]`. A further word is refused: the client may have sent a prefix that contains a
    /// space, and the part before the space would remove too many items.
    pub(super) fn delete_prefix(mut self) -> Parsed<'a> {
        let (Some(prefix), flag) = (self.words.next(), self.words.next()) else {
            return self.refuse(Refusal::NoPrefix.into(), false);
        };
        match (flag, self.words.next()) {
            (None | Some(b"b"), None) => {
                self.answered(Command::DeletePrefix { prefix, base64: flag.is_some() })
            }
            _ => self.refuse(ClientError::BadFormat, false),
        }
    }

    /// `get cluster`. Any other line is an unknown command, as in memcached.
    pub(super) fn config(self) -> Parsed<'a> {
        let mut words = self.words.clone();
        match (words.next(), words.next(), words.next()) {
            (Some(b"get"), Some(CLUSTER), None) => self.answered(Command::Config { name: CLUSTER }),
            _ => self.unknown(),
        }
    }

    /// `<level> [noreply]`
    pub(super) fn verbosity(mut self) -> Parsed<'a> {
        let level = self.words.next().and_then(number::unsigned_32);
        let quiet = self.words.end_in_noreply();
        match level {
            None => self.refuse(ClientError::BadFormat, quiet),
            Some(level) => command(Command::Verbosity { level }, quiet, self.consumed),
        }
    }

    /// `<mebibytes> [noreply]`
    pub(super) fn memory_limit(mut self) -> Parsed<'a> {
        let mebibytes = self.words.next().and_then(number::unsigned_32);
        let quiet = self.words.end_in_noreply();
        match mebibytes {
            None => self.refuse(ClientError::UnknownCommand, quiet),
            Some(..8) => self.refuse(ClientError::MemoryLimitTooSmall, quiet),
            Some(1_000_000_001..) => self.refuse(ClientError::MemoryLimitInBytes, quiet),
            Some(mebibytes) => {
                let mebibytes = u64::from(mebibytes);
                command(Command::MemoryLimit { mebibytes }, quiet, self.consumed)
            }
        }
    }

    /// `[graceful]`, or any prefix of it. Refuses a line with `noreply`.
    pub(super) fn shutdown(mut self) -> Parsed<'a> {
        let graceful = match (self.words.next(), self.words.next()) {
            (None, _) => Some(false),
            (Some(mode), None) if b"graceful".starts_with(mode) => Some(true),
            _ => None,
        };
        let quiet = self.words.end_in_noreply();
        match graceful {
            None => self.refuse(ClientError::BadShutdownMode, quiet),
            Some(graceful) => command(Command::Shutdown { graceful }, quiet, self.consumed),
        }
    }

    /// `<name>`
    pub(super) fn name_connection(mut self) -> Parsed<'a> {
        let name = self.words.next().unwrap_or_default();
        let is_valid = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.iter().all(u8::is_ascii_graphic)
            && self.words.next().is_none();
        match is_valid {
            true => self.answered(Command::Name { name }),
            false => self.refuse(ClientError::BadFormat, false),
        }
    }

    /// `<number>` or `user <name>`
    pub(super) fn kill(mut self) -> Parsed<'a> {
        let target = match (self.words.next(), self.words.next(), self.words.next()) {
            (Some(b"user"), Some(name), None) => Some(KillTarget::User(name)),
            (Some(number), None, None) => number::unsigned_32(number).map(KillTarget::Connection),
            _ => None,
        };
        match target {
            Some(target) => self.answered(Command::Kill(target)),
            None => self.refuse(ClientError::BadFormat, false),
        }
    }

    /// `<max stale ms>`. A malformed line is also a command: a server without near caches responds
    /// as to an unknown command.
    pub(super) fn follow(mut self) -> Parsed<'a> {
        let max_stale_ms = self.words.next().and_then(number::unsigned_32);
        let max_stale_ms = max_stale_ms.filter(|_| self.words.next().is_none());
        self.answered(Command::Follow { max_stale_ms })
    }

    /// `<token>`
    pub(super) fn follower(mut self) -> Parsed<'a> {
        let token = self.words.next().and_then(follow::token);
        let token = token.filter(|_| self.words.next().is_none());
        self.answered(Command::Follower { token })
    }

    /// `<max silence ms>` or `end`
    pub(super) fn warm(mut self) -> Parsed<'a> {
        let warm = match (self.words.next(), self.words.next()) {
            (Some(b"end"), None) => Warm::End,
            (Some(ms), None) => Warm::Begin { max_silence_ms: number::unsigned_32(ms) },
            _ => Warm::Begin { max_silence_ms: None },
        };
        self.answered(Command::Warm(warm))
    }

    /// `<key> [b] [m<bytes>]`
    pub(super) fn copied(mut self) -> Parsed<'a> {
        let mut copied = Copied { key: &[], base64: false, value_bytes_max: usize::MAX };
        let key = self.words.next().unwrap_or_default();
        while let Some(word) = self.words.next() {
            let bytes_max = word.strip_prefix(b"m").and_then(number::unsigned_64);
            match (word, bytes_max) {
                (b"b", _) => copied.base64 = true,
                (_, Some(bytes)) => {
                    copied.value_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
                }
                _ => return self.answered(Command::Copy(Copied { key: &[], ..copied })),
            }
        }
        let is_key = match copied.base64 {
            true => base64::decode(key, &mut [0; KEY_BYTES_MAX]).is_some(),
            false => short(key).is_some(),
        };
        if is_key {
            copied.key = key;
        }
        self.answered(Command::Copy(copied))
    }

    /// `[<section>]`: `items`, `slabs`, `sizes`, `larder`, `delete_prefix`, `hotkeys`, `origins`,
    /// `users`, `slow` and `prefixes` in full; `reset`, `settings`, `detail`, `cachedump` and
    /// `conns` also by any prefix, tried in this order.
    pub(super) fn stats(mut self) -> Parsed<'a> {
        let section = match self.words.next() {
            None => StatsSection::General,
            Some(b"items") => StatsSection::Items,
            Some(b"slabs") => StatsSection::Slabs,
            Some(b"sizes") => StatsSection::Sizes,
            Some(b"larder") => StatsSection::Larder,
            Some(b"delete_prefix") => StatsSection::DeletePrefix,
            Some(b"hotkeys") => StatsSection::HotKeys,
            Some(b"origins") => StatsSection::Origins,
            Some(b"users") => StatsSection::Users,
            Some(b"slow") => StatsSection::Slow,
            Some(b"prefixes") => StatsSection::Prefixes,
            Some(word) if b"reset".starts_with(word) => StatsSection::Reset,
            Some(word) if b"settings".starts_with(word) => StatsSection::Settings,
            Some(word) if b"detail".starts_with(word) => return self.detail(),
            Some(word) if b"cachedump".starts_with(word) => return self.cache_dump(),
            Some(word) if b"conns".starts_with(word) => StatsSection::Connections,
            Some(_) => return self.refuse(ClientError::UnknownCommand, false),
        };
        self.answered(Command::Stats(section))
    }

    /// `<class> <items>`
    fn cache_dump(mut self) -> Parsed<'a> {
        let (Some(class), Some(items_max)) = (self.words.next(), self.words.next()) else {
            return self.refuse(ClientError::BadDump, false);
        };
        match (number::unsigned_32(class), number::unsigned_32(items_max)) {
            (Some(CLASSES_MAX..), Some(_)) => self.refuse(ClientError::NoSuchClass, false),
            (Some(class), Some(items_max)) => {
                self.answered(Command::Stats(StatsSection::CacheDump { class, items_max }))
            }
            _ => self.refuse(ClientError::BadFormat, false),
        }
    }

    /// Accepts any number of ignored words, for a command that always has a response.
    pub(super) fn answered(self, asked: Command<'a>) -> Parsed<'a> {
        command(asked, false, self.consumed)
    }

    /// Refuses an unknown command. Closes the connection if the line looks like a request of a web
    /// browser.
    pub(super) fn unknown(mut self) -> Parsed<'a> {
        let more = self.words.next().is_some();
        let last = self.words.skip_to_last();
        if more && last.starts_with(b"HTTP/") {
            let consumed = self.consumed;
            let frame = Frame::default();
            return Parsed::Bad(Bad { error: None, frame, consumed, swallow: 0, close: true });
        }
        self.refuse(ClientError::UnknownCommand, last == b"noreply")
    }

    /// Refuses a line without a value. Does not send an error to a `quiet` peer.
    pub(super) fn refuse(&self, error: ClientError, quiet: bool) -> Parsed<'a> {
        Parsed::Bad(Bad {
            error: (!quiet).then_some(error.into()),
            frame: Frame::default(),
            consumed: self.consumed,
            swallow: 0,
            close: false,
        })
    }
}

/// The class numbers of memcached are below this number.
const CLASSES_MAX: u32 = 64;

#[inline]
pub(super) fn command(command: Command<'_>, quiet: bool, consumed: usize) -> Parsed<'_> {
    Parsed::Command { command, frame: Frame::Text { quiet }, consumed }
}

fn is_number_but_zero(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().any(|digit| *digit != b'0')
}
