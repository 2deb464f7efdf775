//! The file of `--users`: TOML with one array, so that half of a file is not valid. Half of a file
//! with `[[users]]` can be valid, so that form is refused.
//!
//! ```toml
//! users = [
//!     { name = "shop", hash = "$argon2id$v=19$…", rights = "write", prefixes = ["shop:"] },
//!     { name = "prometheus", token = "sha256:…", rights = "read", rate = 100 },
//! ]
//! ```

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Params};
use larder_item::KEY_BYTES_MAX;
use larder_protocol::Right;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use toml::Spanned;

/// The reason why a users' file was refused. It never contains a password, a hash or a token.
#[derive(Debug, thiserror::Error)]
#[error("users of {}: {what}", path.display())]
pub struct UsersFileError {
    path: PathBuf,
    /// The error in the file, and what was expected.
    what: String,
}

/// A user as the file describes it.
#[derive(Debug)]
pub struct Entry {
    /// The name, which is unique in its file.
    pub name: String,
    /// The password or its hash.
    pub secret: EntrySecret,
    /// The SHA-256 of the token for HTTP.
    pub token: Option<[u8; 32]>,
    /// `None`: the user has no rights.
    pub right: Option<Right>,
    /// Empty: the user may access all keys.
    pub prefixes: Vec<String>,
    /// Requests per second; `None`: no limit.
    pub rate: Option<u32>,
}

/// What proves a user's identity in a login.
pub enum EntrySecret {
    /// Nothing: the user has a certificate or a token.
    Nothing,
    /// The password itself.
    Password(String),
    /// An argon2id hash in the PHC format.
    Hash(String),
}

/// Prints only the kind, because a secret must not appear in a log.
impl std::fmt::Debug for EntrySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Password(_) => "Password",
            Self::Hash(_) => "Hash",
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    users: Spanned<Vec<Line>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    hash: Option<String>,
    password: Option<String>,
    token: Option<String>,
    rights: Option<String>,
    prefixes: Option<Vec<String>>,
    rate: Option<u32>,
}

/// The contents of a valid file.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    /// The SHA-256 of the file.
    pub(super) digest: [u8; 32],
}

/// Reads a users' file.
///
/// # Errors
/// Fails if the file cannot be read, if any part of it is not valid, or if it has passwords or
/// tokens and other users of the machine can read it.
pub(super) fn read(path: &Path) -> Result<Contents, UsersFileError> {
    let failure = |what: String| UsersFileError { path: path.to_owned(), what };
    let unreadable = |error: io::Error| failure(format!("{error}; {EXPECTED}"));
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failure(format!("it has more than {FILE_BYTES_MAX} bytes; {EXPECTED}")));
    }
    let text = str::from_utf8(&bytes)
        .map_err(|error| failure(format!("byte {} is not UTF-8", error.valid_up_to())))?;
    let (entries, has_plain_secret) = parse(text).map_err(failure)?;
    let exposed = if has_plain_secret { OTHERS_READ | OTHERS_WRITE } else { OTHERS_WRITE };
    if mode & exposed != 0 {
        return Err(UsersFileError {
            path: path.to_owned(),
            what: format!(
                "its permissions are {mode:o}, so others can read or change its passwords and \
                 tokens: chmod 600 {}, or write hashes (larder passwd)",
                path.display()
            ),
        });
    }
    Ok(Contents { entries, digest: sha256(&bytes) })
}

/// Parses the text of a file. Also returns true if it has a password or a token in plain text.
///
/// # Errors
/// The first invalid line or user, with the expected form. It never contains a secret.
pub fn parse(text: &str) -> Result<(Vec<Entry>, bool), String> {
    let document: Document = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        // Not the error's own text, because it quotes the line and so its secrets.
        let message = without_value(error.message());
        format!("line {line}: {}; {EXPECTED}", message.lines().next().unwrap_or_default())
    })?;
    let start = document.users.span().start;
    if text[start..].starts_with("[[") {
        let line = line_of(text, start);
        return Err(format!("line {line}: half of a file with [[users]] is valid; {EXPECTED}"));
    }
    let lines = document.users.into_inner();
    if lines.is_empty() {
        return Err(format!("the list is empty; {EXPECTED}"));
    }
    if lines.len() > USERS_MAX {
        let count = lines.len();
        return Err(format!("it has {count} users; expected at most {USERS_MAX}"));
    }
    let has_plain_secret = lines.iter().any(Line::has_plain_secret);
    let mut names = HashSet::with_capacity(lines.len());
    let mut tokens = HashSet::new();
    let mut entries = Vec::with_capacity(lines.len());
    for (line, number) in lines.into_iter().zip(1..) {
        let name = line.name.escape_debug().to_string();
        let wrong = |what: String| format!("user {number} ({name}): {what}");
        let entry = line.check().map_err(wrong)?;
        if !names.insert(entry.name.clone()) {
            return Err(wrong("another user has the same name".to_owned()));
        }
        if entry.token.is_some_and(|token| !tokens.insert(token)) {
            return Err(wrong("another user has the same token".to_owned()));
        }
        entries.push(entry);
    }
    Ok((entries, has_plain_secret))
}

impl Line {
    fn has_plain_secret(&self) -> bool {
        let is_plain = |token: &String| !token.starts_with(TOKEN_HASH);
        self.password.is_some() || self.token.as_ref().is_some_and(is_plain)
    }

    fn check(self) -> Result<Entry, String> {
        let Self { name, hash, password, token, rights, prefixes, rate } = self;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("a name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a name consists of ASCII characters without spaces".to_owned());
        }
        let secret = match (hash, password) {
            (Some(_), Some(_)) => return Err("give hash or password, not both".to_owned()),
            (Some(hash), None) => EntrySecret::Hash(check_hash(hash)?),
            (None, Some(password)) => EntrySecret::Password(check_password(password)?),
            (None, None) => EntrySecret::Nothing,
        };
        let token = token.map(|token| token_digest(&token)).transpose()?;
        let right = match rights {
            None => None,
            Some(name) => Some(Right::parse(&name).ok_or_else(|| {
                format!("rights are read, write or admin, not {:?}", shortened(&name))
            })?),
        };
        let prefixes = prefixes.map_or_else(|| Ok(Vec::new()), check_prefixes)?;
        if rate == Some(0) {
            return Err("a rate is at least 1; without rights, a user can do nothing".to_owned());
        }
        Ok(Entry { name, secret, token, right, prefixes, rate })
    }
}

/// Accepts an argon2id hash that a verification of bounded memory and time can check.
fn check_hash(hash: String) -> Result<String, String> {
    let expected = "expected an argon2id hash in the PHC format, as larder passwd prints it";
    let parsed =
        PasswordHash::new(&hash).map_err(|_| format!("its hash is not valid; {expected}"))?;
    let is_argon2id = parsed.algorithm.as_str() == Algorithm::Argon2id.as_str();
    let is_whole = parsed.salt.is_some() && parsed.hash.is_some();
    if !is_argon2id || !is_whole || parsed.version.is_some_and(|version| version != VERSION) {
        return Err(format!("its hash is of another kind; {expected}"));
    }
    let params = Params::try_from(&parsed)
        .map_err(|_| format!("the parameters of its hash are not valid; {expected}"))?;
    if params.m_cost() > MEMORY_KIB_MAX
        || params.t_cost() > PASSES_MAX
        || params.p_cost() > LANES_MAX
    {
        return Err(format!(
            "its hash takes more than m={MEMORY_KIB_MAX}, t={PASSES_MAX} or p={LANES_MAX}; \
             larder passwd prints one that takes less"
        ));
    }
    Ok(hash)
}

fn check_password(password: String) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || password.contains('\0') {
        return Err(format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes and no zero byte"));
    }
    Ok(password)
}

fn check_prefixes(prefixes: Vec<String>) -> Result<Vec<String>, String> {
    if prefixes.is_empty() {
        let what = "an empty list of prefixes permits no key; leave it out to permit all keys";
        return Err(what.to_owned());
    }
    if prefixes.len() > PREFIXES_MAX {
        return Err(format!("it has {} prefixes; expected at most {PREFIXES_MAX}", prefixes.len()));
    }
    match prefixes.iter().any(|prefix| prefix.is_empty() || prefix.len() > KEY_BYTES_MAX) {
        true => Err(format!("a prefix has 1 to {KEY_BYTES_MAX} bytes")),
        false => Ok(prefixes),
    }
}

/// Returns the SHA-256 of a token, which the file contains as it is or as its SHA-256.
fn token_digest(token: &str) -> Result<[u8; 32], String> {
    if let Some(hex) = token.strip_prefix(TOKEN_HASH) {
        return digest_of_hex(hex)
            .ok_or_else(|| format!("a hashed token is {TOKEN_HASH} and 64 hexadecimal digits"));
    }
    let is_graphic = token.bytes().all(|byte| byte.is_ascii_graphic());
    match is_graphic && token.len() >= TOKEN_CHARACTERS_MIN && token.len() <= PASSWORD_BYTES_MAX {
        true => Ok(sha256(token.as_bytes())),
        false => Err(format!(
            "a token has {TOKEN_CHARACTERS_MIN} to {PASSWORD_BYTES_MAX} ASCII characters without \
             spaces"
        )),
    }
}

fn digest_of_hex(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let digits: Vec<u8> =
        hex.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect::<Option<_>>()?;
    (digits.len() == 64).then_some(())?;
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(digest)
}

/// Returns the SHA-256 of bytes.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Removes the value that an error of serde shows, because it may be a secret without quotes:
/// "invalid type: integer `5`, expected a string" becomes "invalid type, expected a string".
fn without_value(message: &str) -> Cow<'_, str> {
    let is_about_value = |(kind, _): &(&str, &str)| {
        ["invalid type", "invalid value", "invalid length"].contains(kind)
    };
    match message.split_once(": ").filter(is_about_value) {
        Some((kind, rest)) => match rest.rsplit_once(", expected ") {
            Some((_, expected)) => format!("{kind}, expected {expected}").into(),
            None => kind.into(),
        },
        None => message.into(),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Cuts a word for an error message.
fn shortened(word: &str) -> String {
    word.chars().take(20).collect()
}

const EXPECTED: &str = "expected users = [ { name = \"…\", hash = \"…\", rights = \"read\", \
    \"write\" or \"admin\" }, … ]; a user may also have password, token, prefixes and rate";

/// The maximum number of users.
const USERS_MAX: usize = 10_000;

/// The longest name: that of a SPIFFE id.
const NAME_BYTES_MAX: usize = 2048;

/// The longest password or token.
pub(super) const PASSWORD_BYTES_MAX: usize = 1024;

const TOKEN_CHARACTERS_MIN: usize = 32;
const PREFIXES_MAX: usize = 64;
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The beginning of a token that the file contains as its SHA-256.
const TOKEN_HASH: &str = "sha256:";

/// The limits of a hash. The thread that verifies passwords takes at most this memory.
const MEMORY_KIB_MAX: u32 = 64 << 10;
const PASSES_MAX: u32 = 10;
const LANES_MAX: u32 = 4;

/// The only version of argon2 that has been in use since 2016.
const VERSION: u32 = 0x13;

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$\
                        AhEUjKpHxbeS+lUi0SGnFFqiA1mZXk3qRdQSkGrRZJk";

    fn error(text: &str) -> String {
        match parse(text) {
            Ok(_) => panic!("{text}: accepted"),
            Err(error) => error,
        }
    }

    #[test]
    fn a_user_has_rights_prefixes_and_a_rate() {
        let text = format!(
            "users = [\r\n  {{ name = \"shop\", hash = \"{HASH}\", rights = \"write\", \
             prefixes = [\"shop:\", \"s:\"], rate = 50000 }},\r\n  # a comment\r\n  \
             {{ name = \"spiffe://example.org/web\" }},\r\n]\r\n"
        );
        let (entries, has_plain_secret) = parse(&text).unwrap();
        assert!(!has_plain_secret);
        let [shop, web] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((shop.right, shop.rate), (Some(Right::Write), Some(50_000)));
        assert_eq!(shop.prefixes, ["shop:", "s:"]);
        assert!(matches!(shop.secret, EntrySecret::Hash(_)));
        assert_eq!((web.right, web.rate), (None, None));
        assert!(matches!(web.secret, EntrySecret::Nothing));
    }

    #[test]
    fn a_token_may_be_stored_as_its_hash() {
        let token = "0123456789-0123456789-0123456789";
        let hex: String =
            sha256(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let of = |token: &str| {
            let text = format!("users = [{{ name = \"a\", token = \"{token}\" }}]");
            let (entries, has_plain_secret) = parse(&text).unwrap();
            (entries[0].token, has_plain_secret)
        };
        assert_eq!(of(token).0, of(&format!("sha256:{hex}")).0);
        assert_eq!((of(token).1, of(&format!("sha256:{hex}")).1), (true, false));
    }

    #[test]
    fn a_bad_file_is_refused_with_its_place() {
        let user = |rest: &str| format!("users = [ {{ name = \"a\", {rest} }} ]");
        for (text, words) in [
            (String::new(), "line 1: missing field `users`"),
            ("users = []".to_owned(), "the list is empty"),
            ("users = [\n { name = \"a\" },\n".to_owned(), "unclosed array"),
            ("users = [\n { name = \"a\" },\n { na".to_owned(), "line 3:"),
            ("\n[[users]]\nname = \"a\"\n".to_owned(), "line 2: half of a file with [[users]]"),
            ("# =\n [[ users ]]\nname = \"a\"".to_owned(), "line 2: half of a file"),
            ("[[\"users\"]]\nname = \"a\"\n[[users]]\n".to_owned(), "line 3: missing field"),
            ("users = [ { rights = \"read\" } ]".to_owned(), "missing field `name`"),
            (user("right = \"read\""), "unknown field `right`"),
            (user("rights = \"all\""), "rights are read, write or admin, not \"all\""),
            (user("rights = 3"), "invalid type"),
            (user("rate = 0"), "a rate is at least 1"),
            (user("rate = -1"), "line 1: invalid value"),
            (user("prefixes = []"), "an empty list of prefixes permits no key"),
            (user("prefixes = [\"\"]"), "a prefix has 1 to 250 bytes"),
            (user("hash = \"$argon2id$\""), "its hash is not valid"),
            (
                user(&format!("hash = \"{}\"", HASH.replace("argon2id", "argon2i"))),
                "of another kind",
            ),
            (user(&format!("hash = \"{}\"", HASH.replace("m=64", "m=65537"))), "takes more than"),
            (user(&format!("hash = \"{HASH}\", password = \"x\"")), "hash or password, not both"),
            (user("password = \"\""), "a password has 1 to 1024 bytes"),
            (user("token = \"short\""), "a token has 32 to 1024"),
            (user("token = \"sha256:00\""), "a hashed token is sha256: and 64"),
            ("users = [{ name = \"a b\" }]".to_owned(), "without spaces"),
            ("users = [{ name = \"a\" }, { name = \"a\" }]".to_owned(), "user 2 (a): another user"),
            ("user = []\nusers = [{ name = \"a\" }]".to_owned(), "line 1: unknown field `user`"),
        ] {
            let error = error(&text);
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn an_error_never_shows_a_secret() {
        for text in [
            "users = [ { name = \"a\", password = \"sesame\" \"x\" } ]",
            "users = [ { name = \"a\", password = \"sesame\", hash = \"sesame\" } ]",
            "users = [ { name = \"a\", password = [\"sesame\"] } ]",
            "users = [ { name = \"a\", password = 5354 } ]",
            "users = [ { name = \"a\", token = 5354.5 } ]",
            "users = [ [\"a\", \"sesame\", \"sesame\", 5354] ]",
            "users = [ { name = \"a\", hash = \"sesame\" } ]",
            "users = [ { name = \"a\", token = \"sesame\" } ]",
        ] {
            let error = error(text);
            assert!(!error.contains("sesame") && !error.contains("5354"), "{error}");
        }
    }

    #[test]
    fn ten_thousand_users_are_accepted_and_not_one_more() {
        let line = |number: usize| format!("{{ name = \"u{number}\", rights = \"read\" }},\n");
        let text = |count| format!("users = [\n{}]", (0..count).map(line).collect::<String>());
        assert_eq!(parse(&text(USERS_MAX)).unwrap().0.len(), USERS_MAX);
        assert!(error(&text(USERS_MAX + 1)).contains("expected at most 10000"));
    }

    #[test]
    fn a_file_with_passwords_must_not_be_readable_by_others() {
        use std::fs::{Permissions, set_permissions, write};
        let file = tempfile::NamedTempFile::new().unwrap();
        let with = |text: &str, mode| {
            write(file.path(), text).unwrap();
            set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            read(file.path())
                .map(|contents| contents.entries.len())
                .map_err(|error| error.to_string())
        };
        let plain = "users = [ { name = \"a\", password = \"sesame\" } ]";
        let hashed = format!("users = [ {{ name = \"a\", hash = \"{HASH}\" }} ]");
        assert_eq!(with(plain, 0o640), Ok(1));
        assert_eq!(with(&hashed, 0o644), Ok(1));
        for (text, mode) in [(plain, 0o644), (&*hashed, 0o646)] {
            let error = with(text, mode).unwrap_err();
            assert!(error.contains(&format!("its permissions are {mode:o}")), "{error}");
        }
    }
}
