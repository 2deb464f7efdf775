//! The output of `--print-config`.

use std::fmt::Write;

use crate::source::values::Values;
use crate::table::Id;
use crate::table::row::Group;

/// Returns the options in effect as a TOML file, each with its source. Reading the file yields the
/// same options.
pub(crate) fn text(values: &Values) -> String {
    let mut text = String::from("# The options in effect, and the source of each.\n");
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
        .expect("writing to a String cannot fail");
    }
    text
}
