//! A user: its secret, its rights, and its counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use larder_protocol::{Denial, Permission, Right, Scope, base64};

use super::file::{Entry, EntrySecret};
use super::mac::{Mac, MacKey};
use super::rate::Bucket;

/// A user of the file of `--users`.
#[derive(Debug)]
pub(crate) struct User {
    name: Box<str>,
    secret: Secret,
    /// The SHA-256 of the token for HTTP.
    token: Option<[u8; 32]>,
    /// `None`: the user has no rights.
    right: Option<Right>,
    /// Empty: the user may access all keys.
    prefixes: Box<[Box<[u8]>]>,
    /// Requests per second; `None`: no limit.
    rate: Option<u32>,
    /// Survives a reload of the file.
    account: Arc<Account>,
}

/// What proves a user's identity in a login.
#[derive(Debug)]
enum Secret {
    /// Nothing: the user has a certificate or a token.
    Nothing,
    /// The MAC of a password that the file contains. The server does not keep the password.
    Password(Mac),
    /// An argon2id hash, and the MAC of the password once it is verified.
    Hash { phc: Box<str>, verified: OnceLock<Mac> },
}

/// The counters and the token bucket of a user.
#[derive(Debug, Default)]
struct Account {
    tallies: [AtomicU64; Tally::ALL.len()],
    bucket: Bucket,
}

/// A number that `stats users` shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tally {
    /// Connections that are logged in now.
    Connections,
    Logins,
    FailedLogins,
    /// Commands that were not permitted.
    Denied,
    /// Commands above the rate.
    Limited,
}

impl Tally {
    pub(crate) const ALL: [Self; 5] =
        [Self::Connections, Self::Logins, Self::FailedLogins, Self::Denied, Self::Limited];

    /// Returns its name in `stats users`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Logins => "logins",
            Self::FailedLogins => "failed_logins",
            Self::Denied => "not_permitted",
            Self::Limited => "rate_limited",
        }
    }
}

impl User {
    /// Creates the user of an entry. `previous` is the user with this name before a reload.
    pub(super) fn new(entry: Entry, key: &MacKey, previous: Option<&Self>) -> Self {
        let Entry { name, secret, token, right, prefixes, rate } = entry;
        let secret = match secret {
            EntrySecret::Nothing => Secret::Nothing,
            EntrySecret::Password(password) => {
                Secret::Password(key.mac(name.as_bytes(), password.as_bytes()))
            }
            EntrySecret::Hash(phc) => {
                let verified = previous.and_then(|previous| previous.verified_of(&phc));
                let verified = verified.map_or_else(OnceLock::new, OnceLock::from);
                Secret::Hash { phc: phc.into(), verified }
            }
        };
        let account = previous.map_or_else(Arc::default, |previous| Arc::clone(&previous.account));
        let prefixes = prefixes.into_iter().map(|prefix| prefix.into_bytes().into()).collect();
        Self { name: name.into(), secret, token, right, prefixes, rate, account }
    }

    /// Returns the remembered MAC of a hash.
    fn verified_of(&self, hash: &str) -> Option<Mac> {
        match &self.secret {
            Secret::Hash { phc, verified } if **phc == *hash => verified.get().copied(),
            _ => None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn right(&self) -> Option<Right> {
        self.right
    }

    pub(super) fn token(&self) -> Option<&[u8; 32]> {
        self.token.as_ref()
    }

    /// True if the user may access only keys with its prefixes.
    pub(crate) fn has_prefixes(&self) -> bool {
        !self.prefixes.is_empty()
    }

    pub(crate) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// True if the other user has the same secret, so that a login with the one is also a login
    /// with the other.
    pub(super) fn has_secret_of(&self, other: &Self) -> bool {
        match (&self.secret, &other.secret) {
            (Secret::Nothing, Secret::Nothing) => true,
            (Secret::Password(one), Secret::Password(other)) => one.is(other),
            (Secret::Hash { phc: one, .. }, Secret::Hash { phc: other, .. }) => one == other,
            _ => false,
        }
    }

    /// True if this is the MAC of the right password. False does not mean that the password is
    /// wrong: its hash may not have been verified yet.
    pub(super) fn remembers(&self, mac: &Mac) -> bool {
        match &self.secret {
            Secret::Nothing => false,
            Secret::Password(right) => right.is(mac),
            Secret::Hash { verified, .. } => verified.get().is_some_and(|right| right.is(mac)),
        }
    }

    /// Returns the hash that a password must match; `None` if no other password than a remembered
    /// one is right.
    pub(super) fn hash(&self) -> Option<&str> {
        match &self.secret {
            Secret::Hash { phc, .. } => Some(phc),
            Secret::Nothing | Secret::Password(_) => None,
        }
    }

    /// Remembers the right password.
    pub(super) fn remember(&self, mac: Mac) {
        if let Secret::Hash { verified, .. } = &self.secret {
            // Only one password matches a hash, so a MAC that is already set is the same.
            let _ = verified.set(mac);
        }
    }

    /// Adds 1 to a tally.
    pub(crate) fn bump(&self, tally: Tally) {
        self.account.tallies[tally as usize].fetch_add(1, Relaxed);
    }

    /// Subtracts 1 from the open connections.
    pub(super) fn end_connection(&self) {
        self.account.tallies[Tally::Connections as usize].fetch_sub(1, Relaxed);
    }

    pub(crate) fn tally(&self, tally: Tally) -> u64 {
        self.account.tallies[tally as usize].load(Relaxed)
    }

    /// Counts a request against the user's rate. Returns false if the rate is exceeded.
    pub(super) fn take_request(&self, now_ns: u64) -> bool {
        self.rate.is_none_or(|rate| self.account.bucket.take(rate, now_ns))
    }

    /// Returns why the user may not execute a command with this permission; `None` if it may.
    /// `right_max` is the highest right on the user's listener.
    #[inline]
    pub(crate) fn denial(&self, needed: &Permission<'_>, right_max: Right) -> Option<Denial> {
        let needed_right = needed.right?;
        if self.right < Some(needed_right) {
            return Some(Denial::Right(needed_right));
        }
        if right_max < needed_right {
            return Some(Denial::ReadOnlyListener);
        }
        if self.prefixes.is_empty() { None } else { self.foreign(&needed.scope) }
    }

    /// Returns why the user's prefixes do not cover these items; `None` if they do.
    fn foreign(&self, scope: &Scope<'_>) -> Option<Denial> {
        let is_own = |key: &[u8]| self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        match *scope {
            Scope::Nothing => None,
            Scope::Key(key) => (!is_own(key)).then_some(Denial::ForeignKey),
            Scope::Prefix { text, base64: false } => (!is_own(text)).then_some(Denial::ForeignKey),
            Scope::Prefix { text, base64: true } => {
                let mut bytes = [0; larder_item::KEY_BYTES_MAX];
                let decoded = base64::decode(text, &mut bytes);
                (!decoded.is_some_and(is_own)).then_some(Denial::ForeignKey)
            }
            Scope::AllItems => Some(Denial::AllItems),
        }
    }
}
