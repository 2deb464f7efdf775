//! Reads arbitrary texts as the file of `--users`. The parser must not panic. An error must not
//! contain a password, a hash or a token of the file. The users of an accepted file must be the
//! same after they are written and read again, and after the file is cut, unless it is refused.
#![no_main]

use std::fmt::Write;

use arbitrary::Arbitrary;
use larder_protocol::Right;
use larder_server::{UserEntry, UserSecret, parse_users};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    Text(&'a str),
    /// A file whose secrets are known. Random texts rarely have any.
    Users(Vec<Line<'a>>),
    /// The same users, each in a table `[[users]]`.
    Tables(Vec<Line<'a>>),
}

#[derive(Debug, Arbitrary)]
struct Line<'a> {
    name: &'a str,
    hash: Option<Value<'a>>,
    password: Option<Value<'a>>,
    token: Option<Value<'a>>,
    rights: Option<Rights<'a>>,
    prefixes: Option<Vec<&'a str>>,
    rate: Option<u8>,
    layout: Layout,
    /// Text in place of a comma between this member and the next one.
    disorder: Option<(u8, &'a str)>,
}

#[derive(Debug, Arbitrary)]
enum Rights<'a> {
    Read,
    Write,
    Admin,
    Other(&'a str),
}

/// The white space and comments between members.
#[derive(Debug, Arbitrary)]
enum Layout {
    Spaces,
    Lines,
    Comments,
}

/// The value of a secret. All kinds except `True` contain a mark, by which a leak is found.
#[derive(Debug, Arbitrary)]
enum Value<'a> {
    String(&'a str),
    Literal,
    MultiLine(&'a str),
    /// A hash that is valid, except for the given part.
    Hash(u8, &'a str),
    HashedToken(&'a str),
    /// A word without quotes.
    Bare,
    Unclosed,
    Integer,
    Float,
    Date,
    True,
    Array(Vec<Value<'a>>),
    Table(Box<Value<'a>>),
}

/// A part of each secret, in letters and in digits. Keys, names and prefixes do not contain it.
const WORD_MARK: &str = "SESAMEopen";
const NUMBER_MARK: &str = "8642013579";

fuzz_target!(|input: (Input<'_>, u16)| {
    let (input, cut) = input;
    let (text, has_known_secrets) = match input {
        Input::Text(text) => (text.to_owned(), false),
        Input::Users(lines) => (format!("users = {}", list(lines.iter().map(Line::table))), true),
        Input::Tables(lines) => (lines.iter().map(Line::section).collect(), true),
    };
    let users = match parse_users(&text) {
        Ok((users, _)) => users,
        Err(error) => {
            let leaks = error.contains(WORD_MARK) || error.contains(NUMBER_MARK);
            assert!(!(has_known_secrets && leaks), "{error}");
            return;
        }
    };
    let shown = shown(&users);
    let (again, has_plain_secret) = parse_users(&shown).expect("users that were accepted");
    assert_eq!(self::shown(&again), shown);
    assert_eq!(has_plain_secret, users.iter().any(has_password));
    check_cut(&text, usize::from(cut), &shown, has_known_secrets);
    check_cut(&shown, usize::from(cut), &shown, true);
});

/// Cuts an accepted file. Only a comment and white space may stand after the closing bracket, so a
/// cut file is refused or has the same users. `ends_in_bracket`: the bracket is the last character,
/// so each cut is refused.
fn check_cut(text: &str, cut: usize, whole: &str, ends_in_bracket: bool) {
    let cut = text.floor_char_boundary(cut % text.len());
    match parse_users(&text[..cut]) {
        Err(_) => (),
        Ok((users, _)) => {
            assert!(!ends_in_bracket, "accepted after {cut} bytes: {text}");
            assert_eq!(shown(&users), whole, "other users after {cut} bytes: {text}");
        }
    }
}

fn has_password(user: &UserEntry) -> bool {
    matches!(user.secret, UserSecret::Password(_))
}

/// Returns users as a file.
fn shown(users: &[UserEntry]) -> String {
    let mut file = "users = [".to_owned();
    for user in users {
        write!(file, "\n{{name = {}", quoted(&user.name)).expect("a String takes all text");
        let mut member = |name: &str, value: String| file.extend([", ", name, " = ", &value]);
        match &user.secret {
            UserSecret::Nothing => (),
            UserSecret::Password(password) => member("password", quoted(password)),
            UserSecret::Hash(hash) => member("hash", quoted(hash)),
        }
        if let Some(digest) = &user.token {
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            member("token", quoted(&format!("sha256:{hex}")));
        }
        match user.right {
            None => (),
            Some(Right::Read) => member("rights", quoted("read")),
            Some(Right::Write) => member("rights", quoted("write")),
            Some(Right::Admin) => member("rights", quoted("admin")),
        }
        if !user.prefixes.is_empty() {
            member("prefixes", list(user.prefixes.iter().map(|prefix| quoted(prefix))));
        }
        if let Some(rate) = user.rate {
            member("rate", rate.to_string());
        }
        file.push_str("},");
    }
    file.push(']');
    file
}

impl Line<'_> {
    /// Returns the line as a table that is valid or almost valid.
    fn table(&self) -> String {
        let comma = match self.layout {
            Layout::Spaces => ", ",
            Layout::Lines => ",\r\n\t",
            Layout::Comments => ", # name = \"b\" ]\n",
        };
        let mut text = "{ ".to_owned();
        for (member, number) in self.members().iter().zip(0..) {
            text.push_str(member);
            match &self.disorder {
                // Without these characters, the text cannot turn a secret into a key or a name.
                Some((at, disorder)) if *at == number => {
                    text.push_str(&disorder.replace(['"', '\'', '#'], ""));
                }
                _ => text.push_str(comma),
            }
        }
        text + "}"
    }

    fn section(&self) -> String {
        format!("[[users]]\n{}\n", self.members().join("\n"))
    }

    fn members(&self) -> Vec<String> {
        let unmarked = |text: &str| quoted(&text.replace(WORD_MARK, "").replace(NUMBER_MARK, ""));
        let mut members = vec![format!("name = {}", unmarked(self.name))];
        let secrets = [("hash", &self.hash), ("password", &self.password), ("token", &self.token)];
        for (name, value) in secrets {
            members.extend(value.as_ref().map(|value| format!("{name} = {}", value.text())));
        }
        members.extend(self.rights.as_ref().map(|rights| match rights {
            Rights::Read => "rights = \"read\"".to_owned(),
            Rights::Write => "rights = \"write\"".to_owned(),
            Rights::Admin => "rights = \"admin\"".to_owned(),
            Rights::Other(name) => format!("rights = {}", unmarked(name)),
        }));
        if let Some(prefixes) = &self.prefixes {
            let prefixes = list(prefixes.iter().map(|prefix| unmarked(prefix)));
            members.push(format!("prefixes = {prefixes}"));
        }
        members.extend(self.rate.map(|rate| format!("rate = {rate}")));
        members
    }
}

impl Value<'_> {
    fn text(&self) -> String {
        match self {
            Self::String(more) => quoted(&format!("{WORD_MARK}{more}")),
            Self::Literal => format!("'{WORD_MARK}-{NUMBER_MARK}-0123456789'"),
            Self::MultiLine(more) => {
                format!("\"\"\"\n{WORD_MARK}\n{}\"\"\"", more.replace(['"', '\\'], ""))
            }
            Self::Hash(part, more) => {
                let mut parts = ["argon2id", "v=19", "m=64,t=1,p=1", "c29tZXNhbHQ", WORD_MARK];
                let last = format!("{WORD_MARK}{}", "A".repeat(33));
                parts[4] = &last;
                if let Some(changed) = parts.get_mut(usize::from(*part)) {
                    *changed = more;
                }
                quoted(&format!("${}", parts.join("$")))
            }
            Self::HashedToken(more) => quoted(&format!("sha256:{NUMBER_MARK}{more}")),
            Self::Bare => WORD_MARK.to_owned(),
            Self::Unclosed => format!("\"{WORD_MARK}\n"),
            Self::Integer => NUMBER_MARK.to_owned(),
            Self::Float => format!("{NUMBER_MARK}.25"),
            // No mark: the parser of TOML shows no date.
            Self::Date => "1986-04-20".to_owned(),
            Self::True => "true".to_owned(),
            Self::Array(values) => list(values.iter().map(Self::text)),
            Self::Table(value) => format!("{{ value = {} }}", value.text()),
        }
    }
}

fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

/// Returns a text as a string of TOML.
fn quoted(text: &str) -> String {
    let mut string = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' | '\0'..=' ' | '\x7f' => {
                write!(string, "\\u{:04X}", u32::from(character)).expect("a String takes all text");
            }
            _ => string.push(character),
        }
    }
    string + "\""
}
