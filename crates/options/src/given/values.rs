//! The given values, with the origin of each.

use std::{fmt, path::Path, sync::Arc};

use crate::error::OptionError;
use crate::given::nearest::{self, Candidate};
use crate::table::Id;
use crate::table::kind::{Kind, Value};
use crate::table::row::{Group, Row};
use crate::value::admin::AdminListen;
use crate::value::listen::Listen;

/// The source that gave a value. If several sources give one, the later variant of this list
/// overrides the earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The table's default.
    Default,
    /// This line of this file, counted from 1.
    File(Arc<Path>, usize),
    /// The string map of a binding.
    Map,
    Environment,
    CommandLine,
}

impl Origin {
    /// Returns the option as this source spells it, for the beginning of an error message.
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

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GivenValue {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    /// The bytes that a percentage means, once they are known.
    pub(crate) resolved: Option<ResolvedPercent>,
}

/// The bytes that a percentage means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedPercent {
    pub(crate) bytes: u64,
    /// The calculation, for a reader.
    pub(crate) reason: String,
}

impl GivenValue {
    pub(crate) fn new(value: Value, origin: Origin) -> Self {
        Self { value, origin, resolved: None }
    }

    /// Returns the origin, and for a percentage the bytes that it means.
    pub(crate) fn origin_text(&self) -> String {
        match &self.resolved {
            Some(resolved) => format!("{}; {}", self.origin, resolved.reason),
            None => self.origin.to_string(),
        }
    }
}

/// The value of each option, if it has a default or was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Values(Vec<Option<GivenValue>>);

impl Values {
    /// Returns no values.
    pub(crate) fn none() -> Self {
        Self(vec![None; Id::COUNT])
    }

    /// Returns the table's defaults.
    pub(crate) fn defaults() -> Self {
        let mut values = Self::none();
        for id in Id::ALL {
            values.set_default(*id);
        }
        values
    }

    fn set_default(&mut self, id: Id) {
        let row = id.row();
        self.0[id as usize] = row.default.map(|text| {
            let value = row.kind.parse(text).expect("a test parses every default");
            GivenValue::new(value, Origin::Default)
        });
    }

    /// Replaces a default by a lower number of bytes.
    pub(crate) fn lower_default(&mut self, id: Id, bytes: u64) {
        let value = Value::Bytes(bytes);
        self.0[id as usize] = Some(GivenValue::new(value, Origin::Default));
    }

    /// Notes the bytes that a percentage means.
    pub(crate) fn resolve_percent(&mut self, id: Id, bytes: u64, reason: String) {
        if let Some(given) = &mut self.0[id as usize] {
            given.resolved = Some(ResolvedPercent { bytes, reason });
        }
    }

    /// Sets the value of an option. A repeated option takes the last value, except that lists and
    /// counts accumulate.
    pub(crate) fn set(&mut self, id: Id, text: &str, origin: &Origin) -> Result<(), OptionError> {
        let row = id.row();
        let value = row.kind.parse(text).map_err(|expected| {
            let spelling = origin.spelling(row);
            let forms = row.kind.forms().iter().map(|form| Candidate::plain(form));
            let hint = nearest::hint(text, forms);
            OptionError::new(format!("{spelling}: {text:?} is not {expected}{hint}"))
        })?;
        if let Group::Refused(reason) = row.group
            && value != Value::Switch(false)
        {
            let spelling = origin.spelling(row);
            return Err(OptionError::new(format!("{spelling}: refused: {reason}")));
        }
        if value == Value::Switch(true) {
            for (implied, text) in implied(id) {
                self.set(*implied, text, origin)?;
            }
        }
        let given = &mut self.0[id as usize];
        if given.is_some() && row.kind == Kind::FileSize {
            let spelling = origin.spelling(row);
            let what =
                format!("{spelling}: {text:?} is the second one: give one, with all the size");
            return Err(OptionError::new(what));
        }
        let value = match given.take() {
            Some(earlier) => row.kind.repeated(earlier.value, value),
            None => value,
        };
        *given = Some(GivenValue::new(value, origin.clone()));
        Ok(())
    }

    /// Returns these values, overridden by those of `stronger`.
    #[must_use]
    pub(crate) fn overridden_by(mut self, stronger: Self) -> Self {
        for (value, stronger) in self.0.iter_mut().zip(stronger.0) {
            if stronger.is_some() {
                *value = stronger;
            }
        }
        self
    }

    pub(crate) fn given(&self, id: Id) -> Option<&GivenValue> {
        self.0[id as usize].as_ref()
    }

    pub(crate) fn switch(&self, id: Id) -> bool {
        matches!(self.value(id), Some(Value::Switch(true)))
    }

    /// Returns a number; `None` if the row has no default and no value was given.
    pub(crate) fn number(&self, id: Id) -> Option<i64> {
        match self.value(id)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the number of an option that has a default. The kind of the option must allow only
    /// numbers that fit into `T`.
    pub(crate) fn unsigned<T: TryFrom<i64>>(&self, id: Id) -> T {
        let number = self.number(id).expect("the row has a default");
        T::try_from(number).ok().expect("the row's limits are within the type")
    }

    pub(crate) fn real(&self, id: Id) -> f64 {
        match self.value(id) {
            Some(Value::Real(number)) => *number,
            _ => unreachable!("the row has real numbers and a default"),
        }
    }

    /// Returns a percentage; `None` if the value is a number of bytes.
    pub(crate) fn percent(&self, id: Id) -> Option<u8> {
        match self.value(id)? {
            Value::Percent(percent) => Some(*percent),
            _ => None,
        }
    }

    /// Returns a number of bytes. A percentage must be resolved before.
    pub(crate) fn bytes(&self, id: Id) -> u64 {
        let resolved = self.given(id).and_then(|given| given.resolved.as_ref());
        match self.value(id) {
            Some(Value::Bytes(bytes)) => *bytes,
            Some(Value::Percent(_)) => {
                resolved.expect("a percentage is resolved before it is used").bytes
            }
            _ => unreachable!("the row has bytes and a default"),
        }
    }

    pub(crate) fn mask(&self, id: Id) -> u32 {
        match self.value(id) {
            Some(Value::Mask(mask)) => *mask,
            _ => unreachable!("the row has permissions and a default"),
        }
    }

    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        match self.value(id)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of an option that is an ASCII character; `None` if it was not given.
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

    pub(crate) fn admin_listen(&self, id: Id) -> Vec<AdminListen> {
        match self.value(id) {
            Some(Value::AdminListen(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    fn value(&self, id: Id) -> Option<&Value> {
        self.given(id).map(|given| &given.value)
    }
}

/// The other options that an option sets. If the user gives one of them later, that value replaces
/// the implied one.
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
