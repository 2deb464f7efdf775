//! The commands, with what an origin tells near caches about each, and what a near cache drops.

use larder_item::StoreMode;
use larder_protocol::{Command, Dialects, Parsed, Parser};

/// What an origin tells about a command that succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing: it changes no item.
    Nothing,
    /// That the item of its key has changed.
    Key,
    /// That each item with its prefix has changed, when it is removed.
    EachItem,
    /// That every item may have changed, when the flush takes effect.
    Everything,
}

/// Which copies a near cache drops before its client receives the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// None: the near cache executes the command, or a copy answers it.
    Nothing,
    /// That of the command's key: the origin executes the command.
    Key,
    /// All of them.
    Everything,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) told: Told,
    pub(crate) dropped: Dropped,
}

/// Returns the row of a command. A new command does not compile without one.
fn row(command: &Command<'_>) -> Row {
    let local = |name| (name, Told::Nothing, Dropped::Nothing);
    let changes = |name| (name, Told::Key, Dropped::Key);
    let shows = |name| (name, Told::Nothing, Dropped::Key);
    let (name, told, dropped) = match command {
        // Its copy answers.
        Command::Get { exptime: None, .. } => local("get"),
        Command::Get { exptime: Some(_), .. } => changes("gat"),
        Command::EndOfKeys => local("end of keys"),
        Command::Fetch(fetch) => {
            let is_change = fetch.exptime.is_some() || fetch.vivify.is_some();
            match is_change || fetch.recache.is_some() {
                true => changes("fetch"),
                false if fetch.known_cas.is_some() || fetch.version.is_some() => shows("fetch"),
                false => local("fetch"),
            }
        }
        // The answer may be newer than a copy.
        Command::LeaseGet { .. } => shows("lease-get"),
        Command::Inspect { .. } => shows("inspect"),
        Command::Store(_) => changes("store"),
        Command::Delete(_) => changes("delete"),
        Command::Arithmetic(_) => changes("arithmetic"),
        Command::Touch { .. } => changes("touch"),
        Command::FlushAll { .. } => ("flush_all", Told::Everything, Dropped::Everything),
        Command::DeletePrefix { .. } => ("delete_prefix", Told::EachItem, Dropped::Everything),
        Command::NoOp => local("noop"),
        Command::Config { .. } => local("config"),
        Command::Version => local("version"),
        Command::Verbosity { .. } => local("verbosity"),
        Command::Stats(_) => local("stats"),
        Command::Mechanisms => local("mechanisms"),
        Command::Authenticate { .. } => local("authenticate"),
        Command::Quit => local("quit"),
        Command::RefreshCertificates => local("refresh_certs"),
        Command::Shutdown { .. } => local("shutdown"),
        Command::MemoryLimit { .. } => local("cache_memlimit"),
        Command::Region => local("larder_region"),
        Command::NoteReads { .. } => local("larder_read"),
        Command::Follow { .. } => local("larder_follow"),
        Command::Follower { .. } => local("larder_follower"),
        Command::Copy(_) => local("larder_fetch"),
        Command::Warm(_) => local("larder_warm"),
        Command::Name { .. } => local("larder_name"),
        Command::Kill(_) => local("larder_kill"),
        // Moving the clock may make a flush due, which tells. Otherwise items only expire.
        Command::Admin(_) => local("admin"),
    };
    Row { name, told, dropped }
}

/// Parses the command of a request.
fn command_of<T>(request: &[u8], then: impl FnOnce(&Command<'_>) -> T) -> Option<T> {
    let mut parser = Parser::new(Dialects::Any);
    match parser.next(request) {
        Parsed::Command { ref command, .. } => Some(then(command)),
        _ => None,
    }
}

/// Returns the row of a request's command; `None` if it has none.
pub(crate) fn row_of(request: &[u8]) -> Option<Row> {
    command_of(request, row)
}

/// True for a store that needs the token of a lease.
pub(crate) fn needs_lease(request: &[u8]) -> bool {
    command_of(request, |command| matches!(command, Command::Store(store) if store.lease.is_some()))
        == Some(true)
}

/// Returns the name of the protocol of a request.
pub(crate) fn dialect(request: &[u8]) -> &'static str {
    match request {
        [0x80, ..] => "binary",
        [b'm', b'a' | b'd' | b'e' | b'g' | b's', b' ', ..] => "meta",
        _ => "text",
    }
}

/// Returns requests that bring about an item which the request can change.
pub(crate) fn before(request: &[u8]) -> String {
    let wants_absent = command_of(request, |command| {
        matches!(command, Command::Store(store) if store.mode == StoreMode::Add)
            || matches!(command, Command::Fetch(fetch) if fetch.vivify.is_some())
    });
    match wants_absent {
        Some(true) => "md k:8 q\r\nmn\r\n".to_owned(),
        // The examples have 8 for every number, including the cas token.
        _ => "ms k:8 1 E8 q\r\n8\r\nmn\r\n".to_owned(),
    }
}
