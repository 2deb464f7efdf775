//! The rights that commands need.

use crate::admin::{Admin, Detail};
use crate::command::{Command, Fetch, StatsSection};

/// A right of a user. A higher right includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Read items and statistics: changes no item.
    Read,
    /// Also change and remove items.
    Write,
    /// Also change the server.
    Admin,
}

impl Right {
    /// Returns the name of the right.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Parses a right; `None` if the name is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Admin].into_iter().find(|right| right.name() == text)
    }
}

/// The items that a command may read or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// None, and it shows no keys.
    Nothing,
    /// The item with this key.
    Key(&'a [u8]),
    /// The items whose keys begin with this prefix.
    Prefix {
        /// The prefix, as on the wire.
        text: &'a [u8],
        /// True if the prefix is in base64.
        base64: bool,
    },
    /// All items: the command names no key, or it lists keys.
    AllItems,
}

/// The permission that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission<'a> {
    /// The lowest sufficient right; `None` if a peer needs no right.
    pub right: Option<Right>,
    /// The items that it concerns.
    pub scope: Scope<'a>,
}

impl<'a> Permission<'a> {
    const NONE: Self = Self { right: None, scope: Scope::Nothing };

    const fn of(right: Right, scope: Scope<'a>) -> Self {
        Self { right: Some(right), scope }
    }
}

/// The reason why a command is not permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The user lacks this right.
    Right(Right),
    /// The listener accepts only commands that change nothing.
    ReadOnlyListener,
    /// The key or the prefix does not begin with one of the user's prefixes.
    ForeignKey,
    /// The command concerns all items, and the user is limited to prefixes.
    AllItems,
    /// The line of keys is too long to be checked before its first key is answered.
    LongList,
}

impl<'a> Command<'a> {
    /// Returns the permission that the command needs. In a command whose key is in base64, the key
    /// must already be decoded.
    #[inline]
    pub fn permission(&self) -> Permission<'a> {
        match *self {
            Self::Get { key, exptime: None, .. } | Self::Inspect { key } => {
                Permission::of(Right::Read, Scope::Key(key))
            }
            Self::Fetch(fetch) => {
                let right = if changes_item(&fetch) { Right::Write } else { Right::Read };
                Permission::of(right, Scope::Key(fetch.key))
            }
            // A lease excludes other clients from storing the item.
            Self::Get { key, exptime: Some(_), .. }
            | Self::LeaseGet { key }
            | Self::Touch { key, .. } => Permission::of(Right::Write, Scope::Key(key)),
            Self::Store(store) => Permission::of(Right::Write, Scope::Key(store.key)),
            Self::Delete(delete) => Permission::of(Right::Write, Scope::Key(delete.key)),
            Self::Arithmetic(arithmetic) => {
                Permission::of(Right::Write, Scope::Key(arithmetic.key))
            }
            Self::DeletePrefix { prefix: text, base64 } => {
                Permission::of(Right::Write, Scope::Prefix { text, base64 })
            }
            Self::FlushAll { .. } | Self::Warm(_) => Permission::of(Right::Write, Scope::AllItems),
            Self::EndOfKeys
            | Self::NoOp
            | Self::Version
            | Self::Config { .. }
            | Self::Mechanisms
            | Self::Authenticate { .. }
            | Self::Quit
            | Self::Name { .. } => Permission::NONE,
            Self::Stats(section) => stats(section),
            Self::Region
            | Self::NoteReads { .. }
            | Self::Follow { .. }
            | Self::Follower { .. }
            | Self::Copy(_) => Permission::of(Right::Read, Scope::AllItems),
            Self::Verbosity { .. }
            | Self::RefreshCertificates
            | Self::Shutdown { .. }
            | Self::MemoryLimit { .. }
            | Self::Kill(_) => Permission::of(Right::Admin, Scope::AllItems),
            Self::Admin(admin) => administrative(&admin),
        }
    }
}

/// True if a fetch may change its item: a new exptime, an item for a miss, a recache token or a cas
/// token.
fn changes_item(fetch: &Fetch<'_>) -> bool {
    let Fetch { exptime, vivify, recache, version, .. } = fetch;
    exptime.is_some() || vivify.is_some() || recache.is_some() || version.is_some()
}

fn stats(section: StatsSection) -> Permission<'static> {
    match section {
        StatsSection::General
        | StatsSection::Settings
        | StatsSection::Items
        | StatsSection::Slabs
        | StatsSection::Sizes
        | StatsSection::Origins
        | StatsSection::Larder => Permission::of(Right::Read, Scope::Nothing),
        StatsSection::Connections
        | StatsSection::DeletePrefix
        | StatsSection::HotKeys
        | StatsSection::Slow
        | StatsSection::Prefixes
        | StatsSection::CacheDump { .. } => Permission::of(Right::Read, Scope::AllItems),
        StatsSection::Users | StatsSection::Reset => Permission::of(Right::Admin, Scope::AllItems),
    }
}

fn administrative(admin: &Admin) -> Permission<'static> {
    let right = match admin {
        Admin::Dump(..) | Admin::Watch(_) | Admin::Detail(Some(Detail::Dump) | None) => Right::Read,
        Admin::ReassignSlabs(_)
        | Admin::Tune(_)
        | Admin::EnableCrawler(_)
        | Admin::Crawl(_)
        | Admin::Detail(Some(Detail::Count(_)))
        | Admin::DebugTime(_) => Right::Admin,
    };
    Permission::of(right, Scope::AllItems)
}
