//! The pages of `-h`, `-i` and `-V`.

use std::fmt::Write;

use crate::identity::LARDERD_BUILD;
use crate::table::Id;
use crate::table::kind::Kind;
use crate::table::row::{Group, Place, Row};
use crate::value::forms::one_of;

/// Returns the page of `-h`, in the layout of memcached's. It omits refused options, because
/// programs search the page for the name of a feature to find out whether it exists.
pub(crate) fn help(version: &str) -> String {
    let mut page = format!("memcached {version}\n{IDENTITY}\n\n");
    let rows = || Id::ALL.iter().map(|id| id.row());
    let is_shown = |row: &&Row| !matches!(row.group, Group::Refused(_));
    for row in rows().filter(|row| row.place != Place::Word && row.place != Place::Long) {
        if is_shown(&row) {
            line(&mut page, &forms(row), row);
        }
    }
    for row in rows().filter(|row| row.place == Place::Word && row.group == Group::Behaves) {
        line(&mut page, &format!("   - {}:", row.name), row);
    }
    page.push_str(
        "   memcached's other words are accepted or refused: docs/options.md says which have\n",
    );
    page.push_str("   no effect and which are refused.\n\nLarder's own options:\n");
    for row in rows().filter(|row| row.place == Place::Long) {
        line(&mut page, &forms(row), row);
    }
    page.push_str(
        "\nEach long form is also an environment variable (--port: LARDER_PORT) and a key of the\n",
    );
    page.push_str("file that --config names (port = 11211).\n");
    page
}

/// Returns the page of `-i`.
pub(crate) fn license(version: &str) -> String {
    format!("memcached {version}\n{IDENTITY}\n\n{LICENSE}")
}

/// Returns the page of `-V`. The first line is memcached's, which clients and test suites parse.
pub(crate) fn version(version: &str) -> String {
    format!("memcached {version}\nlarder {LARDERD_BUILD}\n")
}

/// Returns the letter and the long form as memcached's help shows them.
pub(crate) fn forms(row: &Row) -> String {
    let argument = row.kind.argument();
    match (row.place, row.long()) {
        (Place::Letter(letter), Some(long)) if argument.is_empty() => {
            format!("-{letter}, --{long}")
        }
        (Place::Letter(letter), Some(long)) => format!("-{letter}, --{long}={argument}"),
        (_, Some(long)) if argument.is_empty() => format!("    --{long}"),
        (_, Some(long)) => format!("    --{long}={argument}"),
        (_, None) => format!("{} {argument}", row.spelling()),
    }
}

/// True if the option changes something that a user may want to change.
pub(crate) fn has_effect(row: &Row) -> bool {
    matches!(row.group, Group::Behaves | Group::Reading)
}

/// Returns the effect and the default, as a sentence without a full stop.
fn meaning(row: &Row) -> String {
    match row.group {
        Group::Warned(reason) => format!("no effect: {reason}"),
        _ => effect(row),
    }
}

/// Returns the effect and the default of an option that has an effect, and its values if they are a
/// few words.
pub(crate) fn effect(row: &Row) -> String {
    let forms =
        Some(row.kind.forms()).filter(|forms| !forms.is_empty() && row.kind.takes_argument());
    let forms = forms.map(one_of);
    let default = row.default.filter(|text| *text != "no" && row.kind != Kind::Count);
    let default = default.map(|text| format!("default: {text}"));
    let more: Vec<_> = [forms, default].into_iter().flatten().collect();
    if more.is_empty() { row.doc.to_owned() } else { format!("{} ({})", row.doc, more.join("; ")) }
}

/// Appends one option: its forms, then its effect from column [`COLUMN`] on.
fn line(page: &mut String, forms: &str, row: &Row) {
    write!(page, "{forms:<COLUMN$}").expect("writing to a String cannot fail");
    let mut column = forms.len().max(COLUMN);
    if forms.len() >= COLUMN {
        page.push(' ');
        column += 1;
    }
    for (index, word) in meaning(row).split(' ').enumerate() {
        if index > 0 && column + 1 + word.len() > WIDTH {
            write!(page, "\n{:COLUMN$}", "").expect("writing to a String cannot fail");
            column = COLUMN;
        } else if index > 0 {
            page.push(' ');
            column += 1;
        }
        page.push_str(word);
        column += word.len();
    }
    page.push('\n');
}

const COLUMN: usize = 26;
const WIDTH: usize = 90;

const IDENTITY: &str =
    concat!("Larder ", env!("CARGO_PKG_VERSION"), ", a cache that speaks memcached's protocol");

const LICENSE: &str = "\
Larder is licensed under the Apache License, Version 2.0. You may use, change and pass it on under
the terms of that license; see the file LICENSE or https://www.apache.org/licenses/LICENSE-2.0.
It comes without warranty of any kind.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_available_features_and_no_others() {
        let page = help("1.6.45");
        assert!(page.starts_with("memcached 1.6.45\nLarder "));
        for there in ["unix-socket", "sasl", "enable-ssl"] {
            assert!(page.contains(there), "{there}");
        }
        for missing in ["ext_path", "proxy_config", "no_drop_privileges", "answers_as"] {
            assert!(!page.to_lowercase().contains(missing), "{missing}");
        }
    }

    #[test]
    fn every_letter_that_is_not_refused_is_shown_within_the_width() {
        let page = help("1.6.45");
        for row in Id::ALL.iter().map(|id| id.row()) {
            let is_letter = matches!(row.place, Place::Letter(_) | Place::LetterOnly(_));
            if is_letter && !matches!(row.group, Group::Refused(_)) {
                assert!(page.contains(&format!("\n{}", forms(row))), "{}", row.name);
            }
        }
        for line in page.lines() {
            assert!(line.len() <= WIDTH, "too wide: {line}");
            assert_eq!(line.trim_end(), line);
        }
    }

    #[test]
    fn the_pages_of_version_and_licence_begin_as_memcacheds() {
        let lines = version("1.6.45");
        let (first, second) = lines.split_once('\n').unwrap();
        assert_eq!((first, second), ("memcached 1.6.45", &*format!("larder {LARDERD_BUILD}\n")));
        assert!(license("1.6.45").starts_with("memcached 1.6.45\n"));
    }
}
