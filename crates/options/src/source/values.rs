//! The values that were given, with where each came from.

use std::{fmt, path::Path, sync::Arc};

use crate::error::OptionError;
use crate::table::Id;
use crate::table::kind::Value;
use crate::table::row::{Group, Row};
use crate::typed::listen::Listen;

/// Where a value was given. The later in this list, the stronger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nowhere: it is the table's default.
    Default,
    /// In this line of this file, counted from 1.
    File(Arc<Path>, usize),
    /// In the string map of a binding.
    Map,
    Environment,
    CommandLine,
}

impl Origin {
    /// How the user wrote the option, to begin an error with.
    pub(crate) fn spelling(&self, row: &Row) -> String {
        match self {
            Self::Default | Self::CommandLine => format!("option {}", row.spelling()),
            Self::File(path, line) => format!("{}:{line}: {}", path.display(), row.name),
            Self::Map => format!("option {}", row.name),
            Self::Environment => row.variable(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Map => f.write_str("string map"),
            Self::Environment => f.write_str("environment"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// A value and where it was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// For each row its value, if there is one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Values(Vec<Option<Given>>);

impl Values {
    /// Nothing given.
    pub(crate) fn none() -> Self {
        Self(vec![None; Id::COUNT])
    }

    /// The table's defaults.
    pub(crate) fn defaults() -> Self {
        let mut values = Self::none();
        for id in Id::ALL {
            values.set_default(*id);
        }
        values
    }

    fn set_default(&mut self, id: Id) {
        let row = id.row();
        self.0[id as usize] = row.default.map(|text| Given {
            value: row.kind.parse(text).expect("a test parses every default"),
            origin: Origin::Default,
        });
    }

    /// Gives an option a value. Given again, the last value counts, but a list grows and a count
    /// goes up.
    pub(crate) fn set(&mut self, id: Id, text: &str, origin: &Origin) -> Result<(), OptionError> {
        let row = id.row();
        let value = row.kind.parse(text).map_err(|expected| {
            let spelling = origin.spelling(row);
            OptionError::new(row.exit_code, format!("{spelling}: {text:?} is not {expected}"))
        })?;
        if let Group::Refused(reason) = row.group
            && value != Value::Switch(false)
        {
            let spelling = origin.spelling(row);
            return Err(OptionError::new(row.exit_code, format!("{spelling}: refused: {reason}")));
        }
        if value == Value::Switch(true) {
            for (implied, text) in implied(id) {
                self.set(*implied, text, origin)?;
            }
        }
        let given = &mut self.0[id as usize];
        let value = match given.take() {
            Some(earlier) => row.kind.repeated(earlier.value, value),
            None => value,
        };
        *given = Some(Given { value, origin: origin.clone() });
        Ok(())
    }

    /// These values where `stronger` has none.
    #[must_use]
    pub(crate) fn overridden_by(mut self, stronger: Self) -> Self {
        for (value, stronger) in self.0.iter_mut().zip(stronger.0) {
            if stronger.is_some() {
                *value = stronger;
            }
        }
        self
    }

    pub(crate) fn given(&self, id: Id) -> Option<&Given> {
        self.0[id as usize].as_ref()
    }

    pub(crate) fn switch(&self, id: Id) -> bool {
        matches!(self.value(id), Some(Value::Switch(true)))
    }

    /// A number; rows without a default say with `None` that nobody gave one.
    pub(crate) fn number(&self, id: Id) -> Option<i64> {
        match self.value(id)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A number of a row that has a default and admits only what the type can hold.
    pub(crate) fn unsigned<T: TryFrom<i64>>(&self, id: Id) -> T {
        let number = self.number(id).expect("the row has a default");
        T::try_from(number).ok().expect("the row's limits are within the type")
    }

    pub(crate) fn real(&self, id: Id) -> f64 {
        match self.value(id) {
            Some(Value::Real(number)) => *number,
            _ => unreachable!("only asked for rows of real numbers with a default"),
        }
    }

    pub(crate) fn bytes(&self, id: Id) -> u64 {
        match self.value(id) {
            Some(Value::Bytes(bytes)) => *bytes,
            _ => unreachable!("only asked for rows of bytes with a default"),
        }
    }

    pub(crate) fn mask(&self, id: Id) -> u32 {
        match self.value(id) {
            Some(Value::Mask(mask)) => *mask,
            _ => unreachable!("only asked for rows of permissions with a default"),
        }
    }

    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        match self.value(id)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The first character of a text, of a row whose kind admits only one of ASCII.
    pub(crate) fn character(&self, id: Id) -> Option<u8> {
        self.text(id)?.bytes().next()
    }

    pub(crate) fn sizes(&self, id: Id) -> &[u32] {
        match self.value(id) {
            Some(Value::Sizes(sizes)) => sizes,
            _ => &[],
        }
    }

    pub(crate) fn listen(&self, id: Id) -> Vec<Listen> {
        match self.value(id) {
            Some(Value::Listen(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    fn value(&self, id: Id) -> Option<&Value> {
        self.given(id).map(|given| &given.value)
    }
}

/// What an option sets besides itself, unless it is given again later.
fn implied(id: Id) -> &'static [(Id, &'static str)] {
    match id {
        Id::NoModern => &[
            (Id::MaxconnsFast, "no"),
            (Id::SlabReassign, "no"),
            (Id::SlabAutomove, "0"),
            (Id::HashAlgorithm, "jenkins"),
            (Id::LruCrawler, "no"),
            (Id::LruMaintainer, "no"),
        ],
        _ => &[],
    }
}
