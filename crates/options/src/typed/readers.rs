//! Who may read the cache's memory by himself.

use std::fmt;

/// `--local-readers`: which processes of this machine are given the cache's memory, to read in it by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalReaders {
    /// None.
    #[default]
    Off,
    /// Those of the user that the server runs as.
    SameUser,
    /// Those of the members of a group, which has this name.
    Group(String),
    /// All that may connect.
    Any,
}

impl LocalReaders {
    pub(crate) const EXPECTED: &str = "off, same-uid, any, or group:NAME";

    /// What a text says; `None`: nothing of this kind.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "off" => Self::Off,
            "same-uid" => Self::SameUser,
            "any" => Self::Any,
            _ => match text.strip_prefix("group:")? {
                "" => return None,
                name => Self::Group(name.to_owned()),
            },
        })
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
