//! Authentication: the users and passwords of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use larder_options::Options;
use larder_protocol::Dialects;

use crate::secret::equal;

/// The users and passwords of a file, and how clients present them.
#[derive(Debug)]
pub(crate) struct Credentials {
    path: PathBuf,
    dialect: Dialects,
    users: RwLock<Vec<User>>,
}

/// A line of the file.
struct User {
    name: Box<[u8]>,
    password: Box<[u8]>,
}

/// The reason why the user file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    /// `-S` requires a file, and none is named.
    #[error(
        "the variable MEMCACHED_SASL_PWDB names no file; expected the path of a file with lines \
         user:password (other password databases of SASL are not supported)"
    )]
    Unnamed,
    /// The file cannot be read.
    #[error("users of {}: {error}; expected a file with lines user:password", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A line of the file is malformed.
    #[error("users of {}: line {line} {what}; expected user:password", path.display())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, counted from 1.
        line: usize,
        /// The error in the line.
        what: &'static str,
    },
    /// The file has no users.
    #[error("users of {}: the file has no users; expected lines user:password", .0.display())]
    Empty(PathBuf),
}

impl Credentials {
    /// Reads the user file, if the options name one.
    ///
    /// # Errors
    /// Fails if the file is missing, or is not a list of users.
    pub(crate) fn load(options: &Options) -> Result<Option<Self>, CredentialsError> {
        let (path, dialect) = if options.sasl {
            let path = options.sasl_file.clone().ok_or(CredentialsError::Unnamed)?;
            (path, Dialects::Binary)
        } else if let Some(path) = &options.auth_file {
            (path.clone(), Dialects::Text)
        } else {
            return Ok(None);
        };
        Self::open(path, dialect).map(Some)
    }

    /// Reads a file with users that authenticate in this dialect.
    pub(crate) fn open(path: PathBuf, dialect: Dialects) -> Result<Self, CredentialsError> {
        let users = RwLock::new(read(&path)?);
        Ok(Self { path, dialect, users })
    }

    /// Reads the file again and returns the number of users. Authenticated sessions stay
    /// authenticated.
    ///
    /// # Errors
    /// Same as [`Self::load`]. After an error, the previous users stay in effect.
    pub(crate) fn reload(&self) -> Result<usize, CredentialsError> {
        let users = read(&self.path)?;
        let count = users.len();
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users;
        Ok(count)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the dialect in which clients authenticate.
    pub(crate) fn dialect(&self) -> Dialects {
        self.dialect
    }

    /// True if the file contains a user with this name and password. Takes the same time regardless
    /// of the position at which they differ.
    pub(crate) fn admit(&self, name: &[u8], password: &[u8]) -> bool {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        let found = users.iter().fold(false, |found, user| {
            found | (equal(&user.name, name) & self.fits(&user.password, password))
        });
        found && !name.is_empty() && !password.is_empty()
    }

    /// True if the password matches. In a SASL file a colon also ends the stored password, as in
    /// memcached, because other fields may follow.
    fn fits(&self, stored: &[u8], password: &[u8]) -> bool {
        let is_whole = equal(stored, password);
        match stored.split_at_checked(password.len()) {
            Some((beginning, [b':', ..])) if self.dialect == Dialects::Binary => {
                is_whole | equal(beginning, password)
            }
            _ => is_whole,
        }
    }
}

/// Omits the password, because it must not appear in a log.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({})", self.name.escape_ascii())
    }
}

/// Splits credentials of the text protocol, whose first two tokens are user and password.
pub(crate) fn words(credentials: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = credentials.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    Some((words.next()?, words.next()?))
}

/// Splits credentials of SASL's PLAIN (RFC 4616): the identity to act as, which must be empty or
/// the user's own name, then the user, then the password, with zero bytes between them.
pub(crate) fn plain(credentials: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = credentials.split(|byte| *byte == 0);
    let (act_as, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_all = parts.next().is_none();
    (is_all && (act_as.is_empty() || act_as == name)).then_some((name, password))
}

fn read(path: &Path) -> Result<Vec<User>, CredentialsError> {
    let unreadable = |error| CredentialsError::Unreadable { path: path.to_owned(), error };
    let mut text = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let error = io::Error::other("it has more than a mebibyte");
        return Err(unreadable(error));
    }
    let mut users = Vec::new();
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let malformed =
            |what| CredentialsError::Malformed { path: path.to_owned(), line: number, what };
        if line.contains(&0) {
            return Err(malformed("has a zero byte"));
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(malformed("has no colon"));
        };
        users.push(User { name: line[..colon].into(), password: line[colon + 1..].into() });
    }
    if users.is_empty() {
        return Err(CredentialsError::Empty(path.to_owned()));
    }
    Ok(users)
}

const FILE_BYTES_MAX: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a user file with this text; it is deleted when dropped.
    fn file(text: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn open(text: &[u8], dialect: Dialects) -> Result<Credentials, String> {
        let file = file(text);
        let opened = Credentials::open(file.path().to_owned(), dialect);
        let name = file.path().display().to_string();
        opened.map_err(|error| error.to_string().replace(&name, "FILE"))
    }

    #[test]
    fn a_user_comes_in_with_the_whole_password_and_no_other() {
        let users = open(b"foo:bar\r\nbaaaz:quux:colon\n\nlast:without newline", Dialects::Text);
        let users = users.unwrap();
        assert!(users.admit(b"foo", b"bar"));
        assert!(users.admit(b"baaaz", b"quux:colon"));
        assert!(users.admit(b"last", b"without newline"));
        for (name, password) in [
            (&b"foo"[..], &b"ba"[..]),
            (b"foo", b"bar\r"),
            (b"foo", b"bars"),
            (b"fo", b"bar"),
            (b"foo", b"quux:colon"),
            (b"baaaz", b"quux"),
            (b"foo", b""),
            (b"", b""),
            (b"foo:bar", b""),
        ] {
            assert!(!users.admit(name, password), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn for_sasl_other_words_may_follow_the_password() {
        let users = open(b"user:pass:more\nempty:\nodd::x\n", Dialects::Binary).unwrap();
        assert!(users.admit(b"user", b"pass"));
        assert!(users.admit(b"user", b"pass:more"));
        assert!(!users.admit(b"user", b"pas"));
        assert!(!users.admit(b"user", b"pass:"));
        assert!(!users.admit(b"empty", b""));
        assert!(!users.admit(b"odd", b""));
    }

    /// CVE-2021-37519 of memcached: a last line without a line end also counts, and a zero byte is
    /// rejected.
    #[test]
    fn a_file_that_is_no_list_of_users_is_refused_with_the_line() {
        for (text, error) in [
            (&b"a:b\nnobody"[..], "users of FILE: line 2 has no colon; expected user:password"),
            (b"a:b\nc\0:d\n", "users of FILE: line 2 has a zero byte; expected user:password"),
            (b"\n\n", "users of FILE: the file has no users; expected lines user:password"),
            (
                &[b'x'; FILE_BYTES_MAX as usize + 1],
                "users of FILE: it has more than a mebibyte; expected a file with lines \
                 user:password",
            ),
        ] {
            assert_eq!(open(text, Dialects::Text).map(|_| ()), Err(error.into()));
        }
    }

    #[test]
    fn more_than_eight_users_are_read() {
        let text: String = (0..20).map(|number| format!("u{number}:p{number}\n")).collect();
        let users = open(text.as_bytes(), Dialects::Text).unwrap();
        assert!(users.admit(b"u19", b"p19"));
        assert!(!users.admit(b"u19", b"p18"));
    }

    #[test]
    fn a_file_that_became_unusable_changes_nothing() {
        let file = file(b"a:1\n");
        let users = Credentials::open(file.path().to_owned(), Dialects::Text).unwrap();
        std::fs::write(file.path(), "b:2\n").unwrap();
        users.reload().unwrap();
        assert!(users.admit(b"b", b"2"));
        assert!(!users.admit(b"a", b"1"));
        std::fs::write(file.path(), "nobody").unwrap();
        assert!(users.reload().is_err());
        drop(file);
        assert!(users.reload().is_err());
        assert!(users.admit(b"b", b"2"));
    }

    #[test]
    fn plain_has_three_parts_and_rejects_another_identity() {
        assert_eq!(plain(b"\0user\0pass"), Some((&b"user"[..], &b"pass"[..])));
        assert_eq!(plain(b"user\0user\0pass"), Some((&b"user"[..], &b"pass"[..])));
        for bad in [&b""[..], b"user", b"\0user", b"root\0user\0pass", b"\0user\0pass\0"] {
            assert_eq!(plain(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn words_are_the_first_two() {
        assert_eq!(words(b"  user   pass more"), Some((&b"user"[..], &b"pass"[..])));
        assert_eq!(words(b"user "), None);
    }
}
