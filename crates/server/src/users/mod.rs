//! Users and their rights: the file of `--users`.
//!
//! ```text
//! session ── name, password ──▶ Users ── not remembered ──▶ login/ verifies with argon2
//!    ▲                            │                            │
//!    └── Grant: user, rights ◀────┴────────────────────────────┘
//! ```
//!
//! A session asks its [`Grant`](grant::Grant) before it executes a command. A replaced file has a
//! new generation, by which each session notices before its next batch that it must look its user
//! up again.

pub(crate) mod file;
pub(crate) mod grant;
pub(crate) mod login;
mod mac;
mod rate;
pub(crate) mod user;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, PoisonError, RwLock};
use std::{fmt, io};

pub(crate) use file::UsersFileError;
use file::{Contents, PASSWORD_BYTES_MAX, sha256};
use login::{Login, Origin, PendingLogin, Verifier};
use mac::MacKey;
use user::{Tally, User};

use crate::waker::Waker;

/// The users of a server.
#[derive(Debug)]
pub(crate) struct Users {
    path: PathBuf,
    key: MacKey,
    table: RwLock<Arc<Table>>,
    /// The generation of the table. Each batch compares it with the generation of its grant.
    generation: AtomicU64,
    verifier: Verifier,
}

/// The users of one generation of the file.
#[derive(Default)]
struct Table {
    generation: u64,
    /// The SHA-256 of the file.
    digest: [u8; 32],
    by_name: HashMap<Box<str>, Arc<User>>,
    by_token: HashMap<[u8; 32], Arc<User>>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} users)", self.by_name.len())
    }
}

/// The result of a login.
#[derive(Debug)]
pub(crate) enum LoginResult {
    /// The user and the password are right.
    Admitted(Arc<User>),
    /// The password must be verified first.
    Pending(PendingLogin),
    /// Too many logins wait.
    Busy,
}

/// The reason why the users cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is not valid.
    #[error(transparent)]
    File(#[from] UsersFileError),
    /// The system lacks random numbers or threads.
    #[error("users: {0}")]
    System(#[from] io::Error),
}

impl Users {
    /// Reads the file and starts the thread that verifies passwords.
    ///
    /// # Errors
    /// Fails if the file is not valid, or if the system lacks random numbers or threads.
    pub(crate) fn open(path: PathBuf) -> Result<Self, LoadError> {
        let key = MacKey::new().map_err(io::Error::from)?;
        let table = Table::read(&path, &key, &Table::default())?;
        Ok(Self {
            path,
            key,
            generation: AtomicU64::new(table.generation),
            table: RwLock::new(Arc::new(table)),
            verifier: Verifier::start()?,
        })
    }

    /// Reads a file only to check it.
    ///
    /// # Errors
    /// Fails if the file is not valid.
    pub(crate) fn check(path: &Path) -> Result<(), UsersFileError> {
        file::read(path).map(drop)
    }

    /// Reads the file again and returns the number of users. Sessions notice it before their next
    /// batch. With `only_if_changed`, returns `None` if the contents are those in effect.
    ///
    /// # Errors
    /// Fails if the file is not valid. Then the previous users stay in effect.
    pub(crate) fn reload(&self, only_if_changed: bool) -> Result<Option<usize>, UsersFileError> {
        let previous = self.table();
        let table = Table::read(&self.path, &self.key, &previous)?;
        if only_if_changed && table.digest == previous.digest {
            return Ok(None);
        }
        let (generation, count) = (table.generation, table.by_name.len());
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.generation.store(generation, Release);
        Ok(Some(count))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of times that the file was loaded.
    #[inline]
    fn generation(&self) -> u64 {
        // Pairs with the store of `reload`, so that the new table is visible with it.
        self.generation.load(Acquire)
    }

    /// Returns the current generation if it contains exactly this user, otherwise 0, which is never
    /// current.
    fn generation_of(&self, user: &Arc<User>) -> u64 {
        let table = self.table();
        let is_current =
            table.by_name.get(user.name()).is_some_and(|found| Arc::ptr_eq(found, user));
        if is_current { table.generation } else { 0 }
    }

    /// Returns the user with the same name and secret, and its generation; `None` if it is gone.
    fn current(&self, user: &User) -> Option<(Arc<User>, u64)> {
        let table = self.table();
        let found = table.by_name.get(user.name()).filter(|found| found.has_secret_of(user))?;
        Some((Arc::clone(found), table.generation))
    }

    /// Checks a login. If the password is not remembered, the session must wait; `waker` wakes its
    /// worker. A session that cannot wait is refused as if too many logins waited.
    pub(crate) fn login(
        &self,
        name: &[u8],
        password: &[u8],
        origin: Origin,
        waker: Option<&Arc<Waker>>,
    ) -> LoginResult {
        let login = self.login_of(name, password, origin);
        if let Some(user) = login.user.as_ref().filter(|user| user.remembers(&login.mac)) {
            return LoginResult::Admitted(Arc::clone(user));
        }
        let pending = waker.and_then(|waker| self.verifier.add(login, waker));
        pending.map_or(LoginResult::Busy, LoginResult::Pending)
    }

    fn login_of(&self, name: &[u8], password: &[u8], origin: Origin) -> Login {
        // No hash is of a longer password.
        let password = password.get(..PASSWORD_BYTES_MAX + 1).unwrap_or(password);
        let table = self.table();
        let user = str::from_utf8(name).ok().and_then(|name| table.by_name.get(name)).cloned();
        Login { user, mac: self.key.mac(name, password), password: password.into(), origin }
    }

    /// Returns the user of the first of these names that exists. The names come from a verified
    /// certificate.
    pub(crate) fn of_certificate<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Option<Arc<User>> {
        let table = self.table();
        names.into_iter().find_map(|name| table.by_name.get(name).cloned())
    }

    /// Returns the user with this token.
    pub(crate) fn of_token(&self, token: &[u8]) -> Option<Arc<User>> {
        self.table().by_token.get(&sha256(token)).cloned()
    }

    /// Returns all users, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        let mut all: Vec<_> = self.table().by_name.values().cloned().collect();
        all.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// Counts the outcome of a login with this name. Names without a user are not counted, because
    /// their number is unlimited.
    pub(crate) fn count_failure(&self, name: &[u8]) {
        let table = self.table();
        if let Some(user) = str::from_utf8(name).ok().and_then(|name| table.by_name.get(name)) {
            user.bump(Tally::FailedLogins);
        }
    }
}

impl Table {
    fn read(path: &Path, key: &MacKey, previous: &Self) -> Result<Self, UsersFileError> {
        let Contents { entries, digest } = file::read(path)?;
        let mut table = Self { generation: previous.generation + 1, digest, ..Self::default() };
        for entry in entries {
            let before = previous.by_name.get(&*entry.name);
            let user = Arc::new(User::new(entry, key, before.map(|user| &**user)));
            if let Some(token) = user.token() {
                table.by_token.insert(*token, Arc::clone(&user));
            }
            table.by_name.insert(user.name().into(), user);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests;
