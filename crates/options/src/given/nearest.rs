//! Suggestions for a misspelled name: finds the options with similar names for the error message.

use std::cmp::Ordering;

use crate::table::Id;
use crate::table::row::{Group, Place, Row};

/// An existing option name, and how a message shows it.
pub(crate) struct Candidate {
    word: String,
    shown: String,
}

impl Candidate {
    /// A name that is shown unchanged.
    pub(crate) fn plain(word: &str) -> Self {
        Self { word: word.to_owned(), shown: word.to_owned() }
    }
}

/// Returns `; did you mean WORD?` with the candidates closest to the given name; an empty text if
/// no candidate is close. Case, `_` and `-` are ignored.
pub(crate) fn hint(given: &str, candidates: impl IntoIterator<Item = Candidate>) -> String {
    let given = normal(given);
    if given.is_empty() || given.len() > GIVEN_BYTES_MAX {
        return String::new();
    }
    let (mut best, mut nearest) = (None, Vec::new());
    for Candidate { word, shown } in candidates {
        let Some(distance) = distance(&given, &normal(&word)) else { continue };
        match best.map_or(Ordering::Less, |best| distance.cmp(&best)) {
            Ordering::Less => (best, nearest) = (Some(distance), vec![shown]),
            Ordering::Equal if nearest.len() < SHOWN_MAX => nearest.push(shown),
            Ordering::Equal | Ordering::Greater => {}
        }
    }
    if nearest.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", nearest.join(" or "))
}

/// Same as [`hint`], but if no candidate is close, returns where the user finds all options.
pub(crate) fn hint_or(
    given: &str,
    candidates: impl IntoIterator<Item = Candidate>,
    otherwise: &str,
) -> String {
    match hint(given, candidates) {
        hint if hint.is_empty() => format!("; {otherwise}"),
        hint => hint,
    }
}

/// Returns the candidates for an unknown long form: all options as written on the command line.
pub(crate) fn on_the_command_line() -> impl Iterator<Item = Candidate> {
    rows().map(|row| Candidate {
        word: row.name.to_owned(),
        shown: row.long().map_or_else(|| row.spelling(), |long| format!("--{long}")),
    })
}

/// Returns the candidates for an unknown name in `-o`: the names that `-o` accepts, with and
/// without `no_`, and all other options.
pub(crate) fn in_a_list() -> impl Iterator<Item = Candidate> {
    let negated = rows().filter(|row| row.negated.is_some());
    let negated = negated.map(|row| Candidate::plain(&format!("no_{}", row.name)));
    let all = on_the_command_line().zip(rows()).map(|(candidate, row)| match row.place {
        Place::Word => Candidate::plain(row.name),
        _ => candidate,
    });
    all.chain(negated)
}

/// Returns the candidates for an unknown name in a file or a string map.
pub(crate) fn in_a_file() -> impl Iterator<Item = Candidate> {
    rows().filter(|row| row.is_configurable()).map(|row| Candidate::plain(row.name))
}

/// Returns the candidates for an unknown environment variable. They are compared with the part of
/// its name after `LARDER_`.
pub(crate) fn in_the_environment() -> impl Iterator<Item = Candidate> {
    let is_variable = |row: &&Row| row.is_configurable() || row.name == Id::Config.row().name;
    rows()
        .filter(is_variable)
        .map(|row| Candidate { word: row.name.to_owned(), shown: row.variable() })
}

/// Returns the options that a user may mean: all except refused ones and options for test suites.
fn rows() -> impl Iterator<Item = &'static Row> {
    let is_meant = |row: &&Row| !matches!(row.group, Group::Suite | Group::Refused(_));
    Id::ALL.iter().map(|id| id.row()).filter(is_meant)
}

fn normal(word: &str) -> String {
    word.to_ascii_lowercase().replace('-', "_")
}

/// Returns the distance between two names; `None` if they are not similar. The number counts
/// changed, missing, added and exchanged letters. The `bool` is true if there are too many of
/// these, but one word contains the other. Such a pair counts as more distant than all similar
/// pairs.
fn distance(given: &str, word: &str) -> Option<(bool, usize)> {
    let changes = strsim::osa_distance(given, word);
    let shorter = given.len().min(word.len());
    if changes <= shorter / LETTERS_PER_CHANGE || changes == 0 {
        return Some((false, changes));
    }
    let is_part = word.contains(given) || given.contains(word);
    (is_part && shorter >= PART_BYTES_MIN).then_some((true, changes))
}

/// A longer name is not compared: no option has a name of nearly this length.
const GIVEN_BYTES_MAX: usize = 64;
/// The largest number of candidates at the same distance that a message names.
const SHOWN_MAX: usize = 3;
/// One wrong letter is accepted for each group of this many letters.
const LETTERS_PER_CHANGE: usize = 3;
/// A shorter word is not searched in others, because too many contain it.
const PART_BYTES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_option_is_named_as_it_would_be_written() {
        for (given, nearest) in [
            ("memory-limt", "--memory-limit"),
            ("Memory_Limit", "--memory-limit"),
            ("thread", "--threads"),
            ("idle-timeout", "-o idle_timeout"),
            ("tier-pth", "--tier-path"),
            ("admin", "--admin-host"),
            ("prot", "--port"),
        ] {
            assert_eq!(hint(given, on_the_command_line()), format!("; did you mean {nearest}?"));
        }
        for far in ["", "q", "xyzzy", "nothing", &"memory-limit".repeat(1000)] {
            assert_eq!(hint(far, on_the_command_line()), "", "{far}");
        }
    }

    #[test]
    fn a_word_of_a_list_may_be_meant_as_another_word_or_as_a_long_form() {
        for (given, nearest) in [
            ("idle-timeout", "idle_timeout"),
            ("no_lru_crawlr", "no_lru_crawler"),
            ("tier_path", "--tier-path"),
        ] {
            assert_eq!(hint(given, in_a_list()), format!("; did you mean {nearest}?"));
        }
    }

    #[test]
    fn every_option_is_its_own_nearest() {
        for row in rows() {
            let shown = format!("; did you mean {}", row.spelling().replace('_', "-"));
            let hint = hint(row.name, on_the_command_line()).replace('_', "-");
            let long = row.long().map(|long| format!("; did you mean --{long}"));
            let is_named =
                hint.starts_with(&shown) || long.is_some_and(|long| hint.starts_with(&long));
            assert!(is_named, "{}: {hint}", row.name);
        }
    }

    #[test]
    fn several_at_the_same_distance_are_all_named() {
        let words = ["alpha", "alphb", "beta"].map(Candidate::plain);
        assert_eq!(hint("alphc", words), "; did you mean alpha or alphb?");
    }
}
