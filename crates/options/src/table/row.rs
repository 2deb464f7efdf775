//! What a row of the table says about an option.

use crate::error::EXIT_FAILURE;
use crate::table::kind::Kind;

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Its name in a TOML file and in a string map; in capitals after `LARDER_` its name in the
    /// environment; with dashes its long form on the command line.
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) group: Group,
    /// The text of the value it has when nobody gives one; `None`: it has none.
    pub(crate) default: Option<&'static str>,
    /// The text an `-o` word without `=` stands for; `None`: the word needs a value.
    pub(crate) bare: Option<&'static str>,
    /// The text the `-o` word with `no_` before it stands for; `None`: there is no such word.
    pub(crate) negated: Option<&'static str>,
    /// How the process ends when the value is not allowed.
    pub(crate) exit_code: u8,
    /// What it does: one sentence without a full stop, in lower case.
    pub(crate) doc: &'static str,
}

/// Where on the command line it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A letter of memcached and its long form.
    Letter(char),
    /// A letter of memcached without a long form.
    LetterOnly(char),
    /// A word in `-o`.
    Word,
    /// A long form of Larder's own.
    Long,
}

/// What Larder does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// What memcached does.
    Behaves,
    /// Takes it in silence: what it is for is there, by means of Larder's own.
    Mapped,
    /// Nothing, and one line says so at the start, with this reason.
    Warned(&'static str),
    /// Refuses to start, for this reason: to ignore the option would change behaviour.
    Refused(&'static str),
    /// What its row says, for test suites; not in `-h`.
    Suite,
    /// Steers the reading of options; stands on the command line only.
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
        Self {
            name,
            place,
            kind,
            group: Group::Behaves,
            default,
            bare,
            negated: None,
            exit_code: EXIT_FAILURE,
            doc: "",
        }
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

    pub(crate) const fn exit(mut self, code: u8) -> Self {
        self.exit_code = code;
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

    /// The name of its environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("LARDER_{}", self.name.to_uppercase())
    }

    /// Its long form, without the dashes before it.
    pub(crate) fn long(&self) -> Option<String> {
        match self.place {
            Place::Letter(_) | Place::Long => Some(self.name.replace('_', "-")),
            Place::LetterOnly(_) | Place::Word => None,
        }
    }

    /// How one writes it on the command line.
    pub(crate) fn spelling(&self) -> String {
        match self.place {
            Place::Letter(letter) | Place::LetterOnly(letter) => format!("-{letter}"),
            Place::Word => format!("-o {}", self.name),
            Place::Long => format!("--{}", self.name.replace('_', "-")),
        }
    }

    /// May it stand in a file, in the environment and in a string map?
    pub(crate) fn is_configurable(&self) -> bool {
        self.group != Group::Reading
    }
}
