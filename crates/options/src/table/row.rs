//! A row of the table.

use crate::table::kind::Kind;

/// An option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Its name in a TOML file and in a string map, such as `memory_limit`. The other names follow
    /// from it: the variable `LARDER_MEMORY_LIMIT`, and the long form `--memory-limit`.
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) group: Group,
    /// The text of its default value; `None`: it has no default.
    pub(crate) default: Option<&'static str>,
    /// The value that a word of `-o` means if no `=` follows; `None` if it needs a value.
    pub(crate) bare: Option<&'static str>,
    /// The value that the word of `-o` means with the prefix `no_`; `None` if the prefix is not
    /// allowed.
    pub(crate) negated: Option<&'static str>,
    /// Its effect: one sentence without a full stop, in lower case.
    pub(crate) doc: &'static str,
}

/// The form of an option on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A letter of memcached and its long form.
    Letter(char),
    /// A letter of memcached without a long form.
    LetterOnly(char),
    /// A word in `-o`.
    Word,
    /// A long form that only Larder has.
    Long,
}

/// Larder's treatment of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Larder does the same as memcached.
    Behaves,
    /// Accepted without effect and without a warning: Larder serves its purpose in another way.
    Mapped,
    /// Larder ignores it and prints one line at the start, with this reason.
    Warned(&'static str),
    /// Larder refuses to start, for this reason: ignoring the option would change behaviour.
    Refused(&'static str),
    /// An option of Larder for test suites, which `-h` does not show.
    Suite,
    /// Controls how the options are read, such as `--config`. Only on the command line.
    Reading,
}

impl Row {
    pub(crate) const fn letter(letter: char, name: &'static str, kind: Kind) -> Self {
        Self::new(Place::Letter(letter), name, kind)
    }

    pub(crate) const fn word(name: &'static str, kind: Kind) -> Self {
        Self::new(Place::Word, name, kind)
    }

    pub(crate) const fn new(place: Place, name: &'static str, kind: Kind) -> Self {
        let (bare, default) = match kind {
            Kind::Switch => (Some("yes"), Some("no")),
            Kind::Count => (Some("1"), Some("0")),
            _ => (None, None),
        };
        Self { name, place, kind, group: Group::Behaves, default, bare, negated: None, doc: "" }
    }

    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    pub(crate) const fn bare(mut self, text: &'static str) -> Self {
        self.bare = Some(text);
        self
    }

    pub(crate) const fn negated(mut self, text: &'static str) -> Self {
        self.negated = Some(text);
        self
    }

    pub(crate) const fn group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }

    pub(crate) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Returns the name of its environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("LARDER_{}", self.name.to_uppercase())
    }

    /// Returns its long form, without the dashes.
    pub(crate) fn long(&self) -> Option<String> {
        match self.place {
            Place::Letter(_) | Place::Long => Some(self.name.replace('_', "-")),
            Place::LetterOnly(_) | Place::Word => None,
        }
    }

    /// Returns its form on the command line.
    pub(crate) fn spelling(&self) -> String {
        match self.place {
            Place::Letter(letter) | Place::LetterOnly(letter) => format!("-{letter}"),
            Place::Word => format!("-o {}", self.name),
            Place::Long => format!("--{}", self.name.replace('_', "-")),
        }
    }

    /// True if it may appear in a file, in the environment and in a string map.
    pub(crate) fn is_configurable(&self) -> bool {
        self.group != Group::Reading
    }
}
