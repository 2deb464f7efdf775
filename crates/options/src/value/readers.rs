//! The processes that may read the cache's memory directly.

use std::fmt;

use crate::value::forms::form_of;

/// `--local-readers`: the processes of this machine that may read the cache's memory directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalReaders {
    /// No process.
    #[default]
    Off,
    /// Processes of the server's user.
    SameUser,
    /// Processes of the members of the group with this name.
    Group(String),
    /// All processes that may connect.
    Any,
}

impl LocalReaders {
    /// The forms of a text.
    pub(crate) const FORMS: &[&str] = &["off", "same-uid", "any", "group:NAME"];

    /// Parses a text; `None` if it has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match form_of(Self::FORMS, text)? {
            ("off", _) => Some(Self::Off),
            ("same-uid", _) => Some(Self::SameUser),
            ("any", _) => Some(Self::Any),
            ("group:NAME", name) if !name.is_empty() => Some(Self::Group(name.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for LocalReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::SameUser => f.write_str("same-uid"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::Any => f.write_str("any"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_named_in_one_of_four_ways() {
        let group = LocalReaders::Group("www".to_owned());
        for (text, readers) in [
            ("off", Some(LocalReaders::Off)),
            ("same-uid", Some(LocalReaders::SameUser)),
            ("any", Some(LocalReaders::Any)),
            ("group:www", Some(group)),
            ("group:", None),
            ("group", None),
            ("", None),
            ("all", None),
        ] {
            assert_eq!(LocalReaders::parse(text), readers, "{text}");
            assert!(readers.is_none_or(|readers| readers.to_string() == text), "{text}");
        }
    }
}
