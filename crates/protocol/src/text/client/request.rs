//! Writes requests as bytes.

use larder_item::{Direction, StoreMode};

use crate::command::{Arithmetic, Command, Copied, Delete, KillTarget, StatsSection, Store, Warm};
use crate::lines::key::{UnsendableKey, check_sendable};
use crate::lines::line::LINE_END;
use crate::number::push_number;
use crate::{local, meta};

/// Appends the line of one request. A [`Command::Get`] requests one key; [`get`] requests several.
/// Does not write the value of a [`Command::Store`]; [`store`] writes both. Writes nothing for
/// [`Command::EndOfKeys`], which is not a separate request, and for [`Command::Mechanisms`] and
/// [`Command::Authenticate`], which the text protocol does not have.
///
/// `quiet` adds `noreply`, except to requests that always have a response: get, stats, version,
/// quit, shutdown, administrative commands.
///
/// # Errors
/// [`UnsendableKey`]; `out` is unchanged.
pub fn command(out: &mut Vec<u8>, command: &Command<'_>, quiet: bool) -> Result<(), UnsendableKey> {
    match *command {
        Command::Get { key, with_cas, exptime } => return get(out, &[key], with_cas, exptime),
        Command::Store(head) => return store_head(out, &head, quiet),
        Command::EndOfKeys | Command::Mechanisms | Command::Authenticate { .. } => return Ok(()),
        Command::Delete(Delete { key, .. }) => push_keyed(out, b"delete", key)?,
        Command::Arithmetic(Arithmetic { key, direction, delta, .. }) => {
            check_sendable(key)?;
            let name: &[u8] = match direction {
                Direction::Increment => b"incr",
                Direction::Decrement => b"decr",
            };
            push_words(out, &[name, key, b""]);
            push_number(out, delta);
        }
        Command::Touch { key, exptime } => {
            check_sendable(key)?;
            push_words(out, &[b"touch", key, b""]);
            push_number(out, exptime);
        }
        Command::FlushAll { exptime: 0 } => push_words(out, &[b"flush_all"]),
        Command::FlushAll { exptime } => push_numbered(out, b"flush_all", exptime),
        Command::Verbosity { level } => push_numbered(out, b"verbosity", level),
        Command::MemoryLimit { mebibytes } => push_numbered(out, b"cache_memlimit", mebibytes),
        Command::Shutdown { graceful: false } => push_words(out, &[b"shutdown"]),
        Command::Shutdown { graceful: true } => push_words(out, &[b"shutdown", b"graceful"]),
        Command::Stats(section) => {
            push_words(out, stats_words(section));
            if let StatsSection::CacheDump { class, items_max } = section {
                for number in [class, items_max] {
                    out.push(b' ');
                    push_number(out, number);
                }
            }
        }
        Command::NoOp => push_words(out, &[b"mn"]),
        Command::LeaseGet { key } => push_keyed(out, b"lease-get", key)?,
        Command::Inspect { key } => push_keyed(out, b"me", key)?,
        Command::Fetch(fetch) => return meta::client::fetch(out, &fetch),
        Command::Version => push_words(out, &[b"version"]),
        Command::Config { name } => push_words(out, &[b"config", b"get", name]),
        Command::DeletePrefix { prefix, base64 } => delete_prefix(out, prefix, base64),
        Command::RefreshCertificates => push_words(out, &[b"refresh_certs"]),
        Command::Quit => push_words(out, &[b"quit"]),
        Command::Region => push_words(out, &[local::REQUEST]),
        Command::NoteReads { keys } => push_words(out, &[local::HINT, keys]),
        Command::Follow { .. } | Command::Follower { .. } | Command::Copy(_) => near(out, command)?,
        Command::Warm(Warm::Begin { max_silence_ms }) => {
            push_numbered(out, b"larder_warm", max_silence_ms.unwrap_or_default());
        }
        Command::Warm(Warm::End) => push_words(out, &[b"larder_warm", b"end"]),
        Command::Name { name } => push_words(out, &[b"larder_name", name]),
        Command::Kill(KillTarget::User(name)) => push_words(out, &[b"larder_kill", b"user", name]),
        Command::Kill(KillTarget::Connection(number)) => {
            push_numbered(out, b"larder_kill", number);
        }
        Command::Admin(admin) => push_words(out, &[super::admin::line(&admin).as_bytes()]),
    }
    push_line_end(out, quiet && !is_always_answered(command));
    Ok(())
}

/// True if the command has a response even with `noreply`.
fn is_always_answered(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Stats(_)
            | Command::NoOp
            | Command::LeaseGet { .. }
            | Command::Inspect { .. }
            | Command::Version
            | Command::Config { .. }
            | Command::Quit
            | Command::DeletePrefix { .. }
            | Command::RefreshCertificates
            | Command::Shutdown { .. }
            | Command::Region
            | Command::NoteReads { .. }
            | Command::Follow { .. }
            | Command::Follower { .. }
            | Command::Copy(_)
            | Command::Warm(_)
            | Command::Name { .. }
            | Command::Kill(_)
            | Command::Admin(_)
    )
}

/// Appends a command of a near cache, without its line end.
fn near(out: &mut Vec<u8>, command: &Command<'_>) -> Result<(), UnsendableKey> {
    match *command {
        Command::Follow { max_stale_ms } => {
            push_numbered(out, b"larder_follow", max_stale_ms.unwrap_or_default());
        }
        Command::Follower { token } => {
            let token = format!("{:032x}", token.unwrap_or_default());
            push_words(out, &[b"larder_follower", token.as_bytes()]);
        }
        Command::Copy(Copied { key, base64, value_bytes_max }) => {
            check_sendable(key)?;
            push_words(out, &[b"larder_fetch", key]);
            if base64 {
                out.extend_from_slice(b" b");
            }
            if value_bytes_max != usize::MAX {
                out.extend_from_slice(b" m");
                push_number(out, value_bytes_max);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Appends a request for several keys: `get` or `gets`, or with an `exptime` `gat` or `gats`.
/// Writes nothing if `keys` is empty.
///
/// # Errors
/// [`UnsendableKey`]; `out` is unchanged.
pub fn get(
    out: &mut Vec<u8>,
    keys: &[&[u8]],
    with_cas: bool,
    exptime: Option<i64>,
) -> Result<(), UnsendableKey> {
    keys.iter().try_for_each(|key| check_sendable(key))?;
    if keys.is_empty() {
        return Ok(());
    }
    let name: &[u8] = match (exptime.is_some(), with_cas) {
        (false, false) => b"get",
        (false, true) => b"gets",
        (true, false) => b"gat",
        (true, true) => b"gats",
    };
    out.extend_from_slice(name);
    if let Some(exptime) = exptime {
        out.push(b' ');
        push_number(out, exptime);
    }
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    push_line_end(out, false);
    Ok(())
}

/// Appends a store and its value. The announced length is that of `value`, regardless of
/// `head.value_bytes`.
///
/// # Errors
/// [`UnsendableKey`]; `out` is unchanged.
pub fn store(
    out: &mut Vec<u8>,
    head: &Store<'_>,
    value: &[u8],
    quiet: bool,
) -> Result<(), UnsendableKey> {
    store_head(out, &Store { value_bytes: value.len(), ..*head }, quiet)?;
    out.extend_from_slice(value);
    out.extend_from_slice(LINE_END);
    Ok(())
}

/// Appends the line of a store. With a cas token it is a `cas`, which has no mode.
fn store_head(out: &mut Vec<u8>, head: &Store<'_>, quiet: bool) -> Result<(), UnsendableKey> {
    check_sendable(head.key)?;
    let name: &[u8] = match (head.cas, head.mode) {
        (Some(_), _) => b"cas",
        (None, StoreMode::Set) => b"set",
        (None, StoreMode::Add) => b"add",
        (None, StoreMode::Replace) => b"replace",
        (None, StoreMode::Append) => b"append",
        (None, StoreMode::Prepend) => b"prepend",
    };
    push_words(out, &[name, head.key, b""]);
    push_number(out, head.flags);
    out.push(b' ');
    push_number(out, head.exptime);
    out.push(b' ');
    push_number(out, head.value_bytes);
    if let Some(cas) = head.cas {
        out.push(b' ');
        push_number(out, cas);
    }
    push_line_end(out, quiet);
    Ok(())
}

fn push_numbered(out: &mut Vec<u8>, name: &[u8], number: impl itoa::Integer) {
    push_words(out, &[name, b""]);
    push_number(out, number);
}

fn delete_prefix(out: &mut Vec<u8>, prefix: &[u8], base64: bool) {
    push_words(out, &[b"delete_prefix", prefix]);
    if base64 {
        out.extend_from_slice(b" b");
    }
}

fn stats_words(section: StatsSection) -> &'static [&'static [u8]] {
    match section {
        StatsSection::General => &[b"stats"],
        StatsSection::Settings => &[b"stats", b"settings"],
        StatsSection::Items => &[b"stats", b"items"],
        StatsSection::Slabs => &[b"stats", b"slabs"],
        StatsSection::Sizes => &[b"stats", b"sizes"],
        StatsSection::Connections => &[b"stats", b"conns"],
        StatsSection::Larder => &[b"stats", b"larder"],
        StatsSection::DeletePrefix => &[b"stats", b"delete_prefix"],
        StatsSection::HotKeys => &[b"stats", b"hotkeys"],
        StatsSection::Origins => &[b"stats", b"origins"],
        StatsSection::Users => &[b"stats", b"users"],
        StatsSection::Slow => &[b"stats", b"slow"],
        StatsSection::Prefixes => &[b"stats", b"prefixes"],
        StatsSection::CacheDump { .. } => &[b"stats", b"cachedump"],
        StatsSection::Reset => &[b"stats", b"reset"],
    }
}

fn push_keyed(out: &mut Vec<u8>, name: &[u8], key: &[u8]) -> Result<(), UnsendableKey> {
    check_sendable(key)?;
    push_words(out, &[name, key]);
    Ok(())
}

/// Appends words separated by spaces. If the last word is empty, the caller appends a number after
/// the space.
fn push_words(out: &mut Vec<u8>, words: &[&[u8]]) {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}

fn push_line_end(out: &mut Vec<u8>, quiet: bool) {
    if quiet {
        out.extend_from_slice(b" noreply");
    }
    out.extend_from_slice(LINE_END);
}
