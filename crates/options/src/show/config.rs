//! The output of `--print-config`.

use std::fmt::Write;

use super::configured;
use crate::given::values::Values;

/// Returns the options in effect as a TOML file, each with a comment that names its source. A
/// larderd that reads this file has the same options.
pub(crate) fn text(values: &Values) -> String {
    let mut text = String::from("# The options in effect, and the source of each.\n");
    for option in configured::of(values) {
        match (option.value, option.origin) {
            (Some(value), Some(origin)) => writeln!(text, "{} = {value}  # {origin}", option.name),
            _ => writeln!(text, "# {}: not set", option.name),
        }
        .expect("writing to a String cannot fail");
    }
    text
}
