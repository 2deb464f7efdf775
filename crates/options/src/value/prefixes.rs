//! The words before an address of `-l` and of `--admin-listen`, and the list that they are in.

use std::path::PathBuf;

use crate::value::listen::Security;
use crate::value::protocol::Protocol;

/// The words before an address. A word that is missing is `None` or false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefixes {
    pub(crate) security: Option<SecurityWord>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) is_readonly: bool,
    /// The words of `unix[…]:`; `None`: the address is one of TCP.
    pub(crate) unix: Option<UnixWords>,
    has_tag: bool,
}

/// A word that selects the encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecurityWord {
    pub(crate) word: &'static str,
    pub(crate) security: Security,
}

impl SecurityWord {
    const fn new(word: &'static str, security: Security) -> Self {
        Self { word, security }
    }
}

/// The words of `-l`, as in memcached.
pub(crate) const OF_CACHE: &[SecurityWord] = &[
    SecurityWord::new("notls:", Security::Plain),
    SecurityWord::new("btls:", Security::Tls),
    SecurityWord::new("mtls:", Security::MutualTls),
];

/// The words of `--admin-listen`. `tls:` has the meaning of `,tls` after an address.
pub(crate) const OF_ADMIN: &[SecurityWord] =
    &[OF_CACHE[0], OF_CACHE[1], OF_CACHE[2], SecurityWord::new("tls:", Security::Default)];

/// The words in the brackets of `unix[…]:`, except `readonly`, which TCP has too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnixWords {
    /// `mode=`: the permissions of the socket.
    pub(crate) mode: Option<u32>,
    /// `readers`
    pub(crate) has_readers: bool,
    /// `noauth`
    pub(crate) needs_no_login: bool,
}

impl Prefixes {
    /// Strips the words before an address: `of_security` and the others. memcached has them in the
    /// order TLS, `proto[…]:`, tag; Larder takes any order.
    ///
    /// # Errors
    /// The expected form: a word is unknown, there twice, or contradicts another.
    pub(crate) fn strip<'a>(
        mut text: &'a str,
        of_security: &[SecurityWord],
    ) -> Result<(Self, &'a str), String> {
        let mut found = Self::default();
        loop {
            text = if let Some((security, rest)) = security(text, of_security) {
                match found.security.replace(security) {
                    Some(earlier) => return Err(two_securities(earlier, security)),
                    None => rest,
                }
            } else if let Some((name, rest)) = bracketed(text, "proto") {
                match found.protocol.replace(protocol(name)?) {
                    Some(_) => return Err(twice("proto[…]:")),
                    None => rest,
                }
            } else if let Some((tag, rest)) = tag(text) {
                if !(1..=8).contains(&tag.len()) {
                    return Err("a tag of 1 to 8 characters".to_owned());
                }
                once(&mut found.has_tag, "tag[…]:")?;
                rest
            } else if let Some(rest) = readonly(text) {
                once(&mut found.is_readonly, "readonly")?;
                rest
            } else if text.starts_with("unix[") {
                let (words, rest) = bracketed(text, "unix").ok_or(UNIX)?;
                found.note_unix(words)?;
                rest
            } else if let Some(rest) = text.strip_prefix("unix:").filter(|rest| !is_port(rest)) {
                found.note_unix("")?;
                rest
            } else {
                return Ok((found, text));
            };
        }
    }

    fn note_unix(&mut self, words: &str) -> Result<(), String> {
        if self.unix.is_some() {
            return Err(twice("unix"));
        }
        let mut unix = UnixWords::default();
        for word in words.split(',').map(str::trim_ascii).filter(|word| !word.is_empty()) {
            match (word, word.strip_prefix("mode=")) {
                ("readers", _) => once(&mut unix.has_readers, word)?,
                ("noauth", _) => once(&mut unix.needs_no_login, word)?,
                ("readonly", _) => once(&mut self.is_readonly, word)?,
                (_, Some(octal)) => {
                    if unix.mode.replace(mode(octal)?).is_some() {
                        return Err(twice("mode="));
                    }
                }
                _ => return Err(format!("{UNIX}: {word:?} is not one of these words")),
            }
        }
        self.unix = Some(unix);
        Ok(())
    }

    /// Names a word that only addresses of TCP can have; `None` if there is no such word.
    pub(crate) fn of_tcp_only(&self) -> Option<&'static str> {
        match (self.security, self.has_tag) {
            (Some(security), _) => Some(security.word),
            (None, true) => Some("tag[…]:"),
            (None, false) => None,
        }
    }
}

/// Splits a list at its separators, except between `[` and `]`. Skips empty members.
pub(crate) fn members<'a>(text: &'a str, separators: &[char]) -> impl Iterator<Item = &'a str> {
    let mut is_inside = false;
    let split = text.split(move |at: char| {
        is_inside = match at {
            '[' => true,
            ']' => false,
            _ => is_inside,
        };
        !is_inside && separators.contains(&at)
    });
    split.map(str::trim_ascii).filter(|member| !member.is_empty())
}

/// Parses the path of a unix socket. It has none of the characters that have a meaning in a list,
/// so every list can be written as a text again.
///
/// # Errors
/// The expected form.
pub(crate) fn unix_path(text: &str) -> Result<PathBuf, String> {
    if !text.starts_with(['/', '.']) || text.contains([',', ';', '[', ']', '\0']) {
        return Err("unix:PATH, with a path that begins with / or . and has none of , ; [ ]".into());
    }
    Ok(text.into())
}

/// Parses the permissions of a unix socket.
///
/// # Errors
/// The expected form.
pub(crate) fn mode(octal: &str) -> Result<u32, String> {
    let parsed = u32::from_str_radix(octal, 8).ok().filter(|mode| *mode <= 0o777);
    parsed.ok_or_else(|| "a path with a mode from 0 to 777, in octal".to_owned())
}

/// Strips one of these words. Before a port `tls:` is the name of a host.
fn security<'a>(text: &'a str, words: &[SecurityWord]) -> Option<(SecurityWord, &'a str)> {
    let strip = |word: &str| {
        let rest = text.strip_prefix(word)?;
        (word != "tls:" || !is_port(rest)).then_some(rest)
    };
    words.iter().find_map(|word| Some((*word, strip(word.word)?)))
}

/// Strips a tag, which only memcached's proxy uses.
fn tag(text: &str) -> Option<(&str, &str)> {
    let underlined = || text.strip_prefix("tag_").and_then(|after| after.split_once("_:"));
    bracketed(text, "tag").or_else(underlined)
}

/// Strips `readonly:`. Before a port it is the name of a host, as in memcached.
fn readonly(text: &str) -> Option<&str> {
    text.strip_prefix("readonly:").filter(|rest| !is_port(rest))
}

/// True if a text after a colon can only be a port. Words can follow one of `--admin-listen`.
fn is_port(text: &str) -> bool {
    let (text, _) = text.split_once(',').unwrap_or((text, ""));
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn protocol(name: &str) -> Result<Protocol, String> {
    match name {
        "ascii" => Ok(Protocol::Ascii),
        "binary" => Ok(Protocol::Binary),
        "negotiating" => Ok(Protocol::Auto),
        "proxy" => Err("proto[ascii], proto[binary] or proto[negotiating]: \
             Larder has no proxy; memcached's can run in front of it"
            .to_owned()),
        _ => Err("proto[ascii], proto[binary] or proto[negotiating]".to_owned()),
    }
}

/// Splits `word[inside]:rest`.
fn bracketed<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(word)?.strip_prefix('[')?.split_once("]:")
}

/// Notes a word that may be there once.
fn once(noted: &mut bool, word: &str) -> Result<(), String> {
    if std::mem::replace(noted, true) { Err(twice(word)) } else { Ok(()) }
}

fn twice(word: &str) -> String {
    format!("an address with each word at most once: {word} is there twice")
}

fn two_securities(earlier: SecurityWord, later: SecurityWord) -> String {
    let (earlier, later) = (earlier.word, later.word);
    if earlier == later {
        return twice(earlier);
    }
    format!("an address with one word for TLS: {earlier} and {later} contradict each other")
}

const UNIX: &str =
    "unix:PATH or unix[WORDS]:PATH, with some of mode=OCTAL, readers, readonly and noauth as WORDS";
