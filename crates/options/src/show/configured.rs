//! The options in effect, each with its source, for programs that show them.

use crate::source::values::Values;
use crate::table::Id;
use crate::table::row::Group;
use crate::typed::options::Options;

/// An option in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Its name in a TOML file.
    pub name: &'static str,
    /// Its value as in a TOML file; `None`: it is not set.
    pub value: Option<String>,
    /// The source of its value: `default`, `command line`, `environment`, or a file with the line.
    pub origin: Option<String>,
    /// Its effect, in a sentence.
    pub doc: &'static str,
}

/// Returns the options that a server or a cache was started with. Values that clients have changed
/// since then are in [`settings`](crate::settings).
pub fn configured(options: &Options) -> Vec<Configured> {
    of(&options.accepted.0).collect()
}

/// Returns the options of the table that can be set, in its order.
pub(crate) fn of(values: &Values) -> impl Iterator<Item = Configured> {
    let is_shown = |id: &&Id| !matches!(id.row().group, Group::Reading | Group::Refused(_));
    Id::ALL.iter().filter(is_shown).map(|id| {
        let (row, given) = (id.row(), values.given(*id));
        Configured {
            name: row.name,
            value: given.map(|given| row.kind.toml(&given.value)),
            origin: given.map(|given| given.origin.to_string()),
            doc: row.doc,
        }
    })
}
