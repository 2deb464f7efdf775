//! What `--print-config` prints.

use std::fmt::Write;

use crate::source::values::Values;
use crate::table::Id;
use crate::table::row::Group;

/// The options in effect as a TOML file, each with where it was given. Reading the file again gives
/// the same options.
pub(crate) fn text(values: &Values) -> String {
    let mut text = String::from("# The options in effect, and where each was given.\n");
    for id in Id::ALL {
        let row = id.row();
        if matches!(row.group, Group::Reading | Group::Refused(_)) {
            continue;
        }
        match values.given(*id) {
            Some(given) => {
                let value = row.kind.toml(&given.value);
                writeln!(text, "{} = {value}  # {}", row.name, given.origin)
            }
            None => writeln!(text, "# {}: not set", row.name),
        }
        .expect("a String takes every write");
    }
    text
}
