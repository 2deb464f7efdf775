//! The tokens that give admin requests a role. They are read from the file of `--admin-token-file`.
//!
//! Each line of the file has a role and a token of at least 32 characters. Empty lines and lines
//! that begin with `#` are ignored.
//!
//! ```text
//! # Prometheus
//! read f1c25b0e7a9d4c83b6e2a1907d5c48ef
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use larder_options::Role;

use crate::secret::equal;

/// The contents of a token file. SIGHUP replaces the tokens while requests look them up.
#[derive(Debug)]
pub(crate) struct Tokens {
    path: PathBuf,
    tokens: RwLock<Vec<Token>>,
}

/// A line of the file: a token, and the role that it gives.
struct Token {
    role: Role,
    secret: Box<[u8]>,
}

/// Prints only the role, because the token must not appear in a log.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({})", self.role.name())
    }
}

/// The reason why a token file was refused.
#[derive(Debug, thiserror::Error)]
#[error("tokens of {}: {what}", path.display())]
pub(crate) struct TokensError {
    path: PathBuf,
    /// The error in the file, and a description of a valid file.
    what: String,
}

impl Tokens {
    /// Reads a token file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, if its permissions let other users read or change it, or
    /// if a line is malformed.
    pub(crate) fn open(path: PathBuf) -> Result<Self, TokensError> {
        let tokens = RwLock::new(read(&path)?);
        Ok(Self { path, tokens })
    }

    /// Reads the file again, replaces the tokens, and returns their number.
    ///
    /// # Errors
    /// Same as [`Self::open`]. After an error, the previous tokens stay in effect.
    pub(crate) fn reload(&self) -> Result<usize, TokensError> {
        let tokens = read(&self.path)?;
        let count = tokens.len();
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(count)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the role of a token, or `None` if the file does not contain the token. If several
    /// lines contain it, the highest of their roles counts.
    ///
    /// The lookup compares the token with every line, and never stops at the first byte that
    /// differs. So a client cannot guess a token byte by byte from the time of the response.
    pub(crate) fn role_of(&self, token: &[u8]) -> Option<Role> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens.iter().fold(None, |found, stored| {
            let is_equal = equal(&stored.secret, token);
            if is_equal { found.max(Some(stored.role)) } else { found }
        })
    }
}

fn read(path: &Path) -> Result<Vec<Token>, TokensError> {
    let failure = |what: String| TokensError { path: path.to_owned(), what };
    let unreadable = |error: io::Error| failure(format!("{error}; {EXPECTED}"));
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & OTHERS != 0 {
        let mode = mode & 0o777;
        return Err(failure(format!(
            "its permissions are {mode:o}, so others can read or change it: chmod 600 {}",
            path.display()
        )));
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(failure(format!("it has more than {FILE_BYTES_MAX} bytes; {EXPECTED}")));
    }
    let mut tokens = Vec::new();
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let parsed = parse(line);
        tokens.push(parsed.map_err(|what| failure(format!("line {number} {what}")))?);
    }
    if tokens.is_empty() {
        return Err(failure(format!("the file has no tokens; {EXPECTED}")));
    }
    Ok(tokens)
}

/// The part of an error message that describes a valid file.
const EXPECTED: &str =
    "expected lines with a role (probe, read or full) and a token of at least 32 characters";

fn parse(line: &[u8]) -> Result<Token, &'static str> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (role, secret) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let role = str::from_utf8(role).ok().and_then(Role::parse);
    let role = role.ok_or("does not begin with a role: probe, read or full")?;
    if secret.len() < TOKEN_CHARACTERS_MIN {
        return Err("has a token of less than 32 characters");
    }
    if words.next().is_some() || !secret.iter().all(u8::is_ascii_graphic) {
        return Err("has more than a role and a token of ASCII characters without spaces");
    }
    Ok(Token { role, secret: secret.into() })
}

/// The permission bits that let users outside the file's group read and write. The bits of the
/// group may be set: the operator can let larderd read a file of another owner through its group.
const OTHERS: u32 = 0o006;

const TOKEN_CHARACTERS_MIN: usize = 32;
const FILE_BYTES_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use super::*;

    const READ: &str = "read-0123456789-0123456789-012345";
    const FULL: &str = "full-0123456789-0123456789-012345";

    fn open(text: &str) -> Result<(tempfile::NamedTempFile, Tokens), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), text).unwrap();
        let name = file.path().display().to_string();
        let tokens = Tokens::open(file.path().to_owned());
        tokens.map(|tokens| (file, tokens)).map_err(|error| error.to_string().replace(&name, "F"))
    }

    #[test]
    fn a_token_has_the_role_of_its_line_and_parts_of_it_have_none() {
        let text = format!("# ours\n\nread {READ}\n full\t{FULL} \r\nprobe {READ}");
        let (_file, tokens) = open(&text).unwrap();
        assert_eq!(tokens.role_of(READ.as_bytes()), Some(Role::Read), "the higher of two");
        assert_eq!(tokens.role_of(FULL.as_bytes()), Some(Role::Full));
        for bad in ["", "read", &READ[1..], &READ[..32], &format!("{READ}x"), &READ.to_uppercase()]
        {
            assert_eq!(tokens.role_of(bad.as_bytes()), None, "{bad}");
        }
        assert!(!format!("{tokens:?}").contains(READ));
    }

    #[test]
    fn a_file_that_is_no_list_of_tokens_is_refused_with_the_line() {
        let short = &READ[..31];
        for (text, error) in [
            (String::new(), "tokens of F: the file has no tokens; expected lines with a role"),
            (format!("\nread {short}"), "tokens of F: line 2 has a token of less than 32"),
            (format!("admin {READ}"), "tokens of F: line 1 does not begin with a role"),
            (READ.to_owned(), "tokens of F: line 1 does not begin with a role"),
            (format!("read {READ} x"), "tokens of F: line 1 has more than a role and a token"),
            (format!("read {READ}\u{e4}"), "tokens of F: line 1 has more than a role and a"),
            ("\n".repeat(70_000), "tokens of F: it has more than 65536 bytes"),
        ] {
            let refused = open(&text).map(|_| ()).unwrap_err();
            assert!(refused.starts_with(error), "{refused}");
        }
        assert!(Tokens::open("/nowhere".into()).is_err());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_also_when_it_is_read_again() {
        let (file, tokens) = open(&format!("read {READ}")).unwrap();
        write(file.path(), format!("full {FULL}")).unwrap();
        for mode in [0o604, 0o602, 0o646] {
            set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            let refused = tokens.reload().unwrap_err().to_string();
            assert!(refused.contains(&format!("permissions are {mode:o}")), "{refused}");
            assert_eq!(tokens.role_of(READ.as_bytes()), Some(Role::Read), "the previous stay");
        }
        set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();
        tokens.reload().unwrap();
        assert_eq!(tokens.role_of(READ.as_bytes()), None);
        assert_eq!(tokens.role_of(FULL.as_bytes()), Some(Role::Full));
    }
}
