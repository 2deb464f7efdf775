//! The options as the man page and the shell completions of larderd show them.

use crate::show::help::{effect, has_effect};
use crate::table::Id;
use crate::table::kind::Kind;
use crate::table::row::Place;
use crate::value::forms::beginning;

/// An option of larderd that has an effect, with its form on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedOption {
    /// Its letter, without the dash.
    pub letter: Option<char>,
    /// Its long form, without the dashes; `None` for a word of `-o` and for some letters.
    pub long: Option<String>,
    /// Its word after `-o`, if it is one.
    pub word: Option<&'static str>,
    /// The placeholder of its argument, such as `num`; empty if it takes no argument.
    pub argument: &'static str,
    /// True if the argument may be left out.
    pub is_argument_optional: bool,
    /// The allowed words, if its argument is one of a few words; otherwise empty. Leaves out words
    /// that a name or a number must follow, such as `group:`.
    pub choices: Vec<&'static str>,
    /// True if its argument is the path of a file.
    pub is_path: bool,
    /// True if only Larder has it, and memcached does not.
    pub is_own: bool,
    /// Its effect and its default: a sentence in lower case without a full stop.
    pub effect: String,
}

/// Returns the options that have an effect, in the order of the table. docs/options.md also lists
/// the others: options that Larder refuses or ignores, and options for test suites.
pub fn described() -> Vec<DescribedOption> {
    let rows = Id::ALL.iter().map(|id| id.row()).filter(|row| has_effect(row));
    rows.map(|row| DescribedOption {
        letter: match row.place {
            Place::Letter(letter) | Place::LetterOnly(letter) => Some(letter),
            Place::Word | Place::Long => None,
        },
        long: row.long(),
        word: (row.place == Place::Word).then_some(row.name),
        argument: row.kind.argument().trim_matches(['<', '>']),
        is_argument_optional: row.bare.is_some(),
        choices: choices(row.kind),
        is_path: row.kind == Kind::Path,
        is_own: row.place == Place::Long,
        effect: effect(row),
    })
    .collect()
}

fn choices(kind: Kind) -> Vec<&'static str> {
    let forms = kind.forms().iter().copied().filter(|_| kind.takes_argument());
    forms.filter(|form| beginning(form).is_none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_form_and_an_effect() {
        let options = described();
        for option in &options {
            let forms = (option.letter.is_some() || option.long.is_some(), option.word.is_some());
            assert!(forms.0 != forms.1, "{option:?}: a word and a letter or long form");
            assert!(!option.effect.is_empty(), "{option:?}");
        }
        let find = |long: &str| options.iter().find(|o| o.long.as_deref() == Some(long));
        let io = find("io").expect("--io is described");
        assert_eq!((io.argument, io.is_own), ("name", true));
        assert_eq!(io.choices, ["auto", "uring", "epoll"]);
        assert_eq!(find("local-readers").unwrap().choices, ["off", "same-uid", "any"]);
        assert_eq!(find("port").and_then(|o| o.letter), Some('p'));
        let words: Vec<_> = options.iter().filter_map(|o| o.word).collect();
        assert!(words.contains(&"idle_timeout"), "{words:?}");
        for absent in ["ext_path", "answers_as", "tail_repair_time", "hot_lru_pct"] {
            assert!(!words.contains(&absent), "{absent} has no effect for a user");
        }
    }
}
