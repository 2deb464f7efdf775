//! Options from the command line.

use crate::error::OptionError;
use crate::given::nearest;
use crate::given::values::{Origin, Values};
use crate::source::getopt::{self, Piece};
use crate::table::Id;
use crate::table::row::Place;

/// The request of a command line.
#[derive(Debug)]
pub(crate) enum CommandLine {
    /// Shows a page and exits. Arguments after the option for the page are not read.
    Page(Page),
    /// Runs with these values.
    Values {
        values: Values,
        /// Words that are neither an option nor the argument of one.
        strays: Vec<String>,
        /// The errors, in the order of the arguments.
        errors: Vec<OptionError>,
    },
}

/// A page of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Help,
    License,
    Version,
}

/// Parses the arguments after the program's name. A page takes precedence over later errors only.
pub(crate) fn read(words: &[String]) -> CommandLine {
    let mut values = Values::none();
    let (mut strays, mut errors) = (Vec::new(), Vec::new());
    for piece in getopt::pieces(words) {
        let set = match piece {
            Ok(Piece::Option(Id::Help, _)) if errors.is_empty() => {
                return CommandLine::Page(Page::Help);
            }
            Ok(Piece::Option(Id::License, _)) if errors.is_empty() => {
                return CommandLine::Page(Page::License);
            }
            Ok(Piece::Option(Id::Version, _)) if errors.is_empty() => {
                return CommandLine::Page(Page::Version);
            }
            Ok(Piece::Option(Id::Extended, argument)) => {
                set_words(&mut values, argument.unwrap_or_default(), &mut errors);
                Ok(())
            }
            Ok(Piece::Option(id, argument)) => {
                let text = argument.or(id.row().bare).unwrap_or_default();
                values.set(id, text, &Origin::CommandLine)
            }
            Ok(Piece::Stray(word)) => {
                strays.push(word.to_owned());
                Ok(())
            }
            Err(error) => Err(error),
        };
        errors.extend(set.err());
    }
    CommandLine::Values { values, strays, errors }
}

/// Parses the argument of one `-o`.
fn set_words(values: &mut Values, list: &str, errors: &mut Vec<OptionError>) {
    for word in list.split_terminator(',') {
        errors.extend(set_word(values, word).err());
    }
}

fn set_word(values: &mut Values, word: &str) -> Result<(), OptionError> {
    let (name, text) = match word.split_once('=') {
        Some((name, text)) => (name, Some(text)),
        None => (word, None),
    };
    let (id, bare) = by_word(name).ok_or_else(|| {
        let hint = nearest::hint_or(name, nearest::in_a_list(), "-h lists the words");
        OptionError::new(format!("option -o: there is no word {name:?}{hint}"))
    })?;
    let text = text.or(bare).ok_or_else(|| {
        let expected = id.row().kind.expected();
        let message = format!("option -o {name}: it needs a value after =, {expected}");
        OptionError::new(message)
    })?;
    values.set(id, text, &Origin::CommandLine)
}

/// Finds the row of a word of `-o`. Also returns the value that the word means if no `=` follows.
fn by_word(name: &str) -> Option<(Id, Option<&'static str>)> {
    let words = || Id::ALL.iter().copied().filter(|id| id.row().place == Place::Word);
    if let Some(id) = words().find(|id| id.row().name == name) {
        return Some((id, id.row().bare));
    }
    let positive = name.strip_prefix("no_")?;
    let id = words().find(|id| id.row().name == positive && id.row().negated.is_some())?;
    Some((id, id.row().negated))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(words: &[&str]) -> Result<Values, OptionError> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        match read(&words) {
            CommandLine::Values { values, errors, .. } => {
                errors.into_iter().next().map_or(Ok(values), Err)
            }
            CommandLine::Page(page) => panic!("{page:?} instead of values"),
        }
    }

    #[test]
    fn the_last_of_repeated_options_counts_but_v_and_l_accumulate() {
        let values =
            values(&["-p1", "-vv", "-l", "a,b:2", "--port", "3", "--verb", "-l", "c"]).unwrap();
        assert_eq!(values.number(Id::Port), Some(3));
        assert_eq!(values.number(Id::Verbose), Some(3));
        assert_eq!(crate::value::listen::text(&values.listen(Id::Listen)), "a,b:2,c");
    }

    #[test]
    fn words_may_have_values_be_negated_and_stand_in_several_lists() {
        let values = values(&[
            "-o",
            "idle_timeout= 5,no_maxconns_fast,track_sizes,slab_automove",
            "--ext=no_lru_crawler,no_slab_automove,",
        ])
        .unwrap();
        assert_eq!(values.number(Id::IdleTimeout), Some(5));
        assert!(values.given(Id::MaxconnsFast).is_some());
        assert!(!values.switch(Id::MaxconnsFast));
        assert!(values.switch(Id::TrackSizes));
        assert!(values.given(Id::LruCrawler).is_some());
        assert!(!values.switch(Id::LruCrawler));
        assert_eq!(values.number(Id::SlabAutomove), Some(0));
    }

    #[test]
    fn no_modern_sets_words_that_later_words_override() {
        let values = values(&["-o", "no_modern,lru_crawler"]).unwrap();
        assert!(values.switch(Id::LruCrawler));
        assert!(!values.switch(Id::LruMaintainer));
        assert_eq!(values.text(Id::HashAlgorithm), Some("jenkins"));
    }

    #[test]
    fn unknown_words_and_missing_values_are_named() {
        for (list, message) in [
            ("foo", "option -o: there is no word \"foo\"; -h lists the words"),
            ("idle_timeout=5,,", "option -o: there is no word \"\"; -h lists the words"),
            (
                "idle_timout=5",
                "option -o: there is no word \"idle_timout\"; did you mean idle_timeout?",
            ),
            (
                "tier_path=/d",
                "option -o: there is no word \"tier_path\"; did you mean --tier-path?",
            ),
            (
                "no_track_sizes",
                "option -o: there is no word \"no_track_sizes\"; did you mean track_sizes?",
            ),
            ("no_=3", "option -o: there is no word \"no_\"; -h lists the words"),
            (
                "idle_timeout",
                "option -o idle_timeout: it needs a value after =, a number from 0 to 2147483647",
            ),
            (
                "hash_algorithm=md5",
                "option -o hash_algorithm: \"md5\" is not one of jenkins, murmur3, xxh3",
            ),
            (
                "ext_path=/f:1g,ext_path=/g:1g",
                "option -o ext_path: \"/g:1g\" is the second one: give one, with all the size",
            ),
        ] {
            assert_eq!(values(&["-o", list]).unwrap_err().message, message, "{list}");
        }
    }

    #[test]
    fn a_page_takes_precedence_over_later_errors_only() {
        let read = |words: [&str; 2]| read(&words.map(str::to_owned));
        assert!(matches!(read(["-h", "-Q"]), CommandLine::Page(Page::Help)));
        let CommandLine::Values { errors, .. } = read(["-Q", "-h"]) else { panic!("a page") };
        assert_eq!(errors.len(), 1);
    }
}
