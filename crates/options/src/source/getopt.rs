//! Splits a command line into options as GNU getopt_long does for memcached.
//!
//! Letters may be bundled (`-vd`), and an argument may directly follow its letter (`-p11211`). A
//! long form may be shortened to any unique beginning, and its argument follows `=` or is the next
//! word. `--` ends the options. Words that are not options may be anywhere between them.

use std::slice;

use crate::error::OptionError;
use crate::given::nearest;
use crate::table::Id;
use crate::table::row::Place;

/// A piece of a command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    /// An option, with its argument if its kind takes one.
    Option(Id, Option<&'a str>),
    /// A word that is neither an option nor the argument of one.
    Stray(&'a str),
}

/// Splits the arguments after the program's name.
pub(crate) fn pieces(words: &[String]) -> Pieces<'_> {
    Pieces { words: words.iter(), letters: "", ended: false }
}

/// An iterator over the pieces. It continues after an error.
pub(crate) struct Pieces<'a> {
    words: slice::Iter<'a, String>,
    /// The letters of a bundle that are not read yet.
    letters: &'a str,
    /// True after `--`.
    ended: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<Piece<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.letters.is_empty() {
            return Some(self.letter());
        }
        let word = self.words.next()?;
        if self.ended || word == "-" || !word.starts_with('-') {
            return Some(Ok(Piece::Stray(word)));
        }
        if word == "--" {
            self.ended = true;
            return self.next();
        }
        if let Some(long) = word.strip_prefix("--") {
            return Some(self.long(long));
        }
        self.letters = &word[1..];
        Some(self.letter())
    }
}

impl<'a> Pieces<'a> {
    fn letter(&mut self) -> Result<Piece<'a>, OptionError> {
        let mut letters = self.letters.chars();
        let letter = letters.next().expect("only called with letters left");
        let rest = letters.as_str();
        let Some(id) = by_letter(letter) else {
            // The rest of the bundle may be the argument of the unknown option.
            self.letters = "";
            return Err(unknown_letter(letter));
        };
        if !id.row().kind.takes_argument() {
            self.letters = rest;
            return Ok(Piece::Option(id, None));
        }
        self.letters = "";
        let argument = if rest.is_empty() { self.argument(id)? } else { rest };
        Ok(Piece::Option(id, Some(argument)))
    }

    fn long(&mut self, word: &'a str) -> Result<Piece<'a>, OptionError> {
        let (name, argument) = match word.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (word, None),
        };
        let id = by_long(name)?;
        match (id.row().kind.takes_argument(), argument) {
            (true, None) => Ok(Piece::Option(id, Some(self.argument(id)?))),
            // memcached accepts an argument here and ignores it.
            (false, Some(_)) if id == Id::Verbose => Ok(Piece::Option(id, None)),
            (false, Some(argument)) => Err(OptionError::new(format!(
                "option --{name}: it takes no argument, but {argument:?} was given"
            ))),
            (_, argument) => Ok(Piece::Option(id, argument)),
        }
    }

    /// Returns the next word as the argument of an option.
    fn argument(&mut self, id: Id) -> Result<&'a str, OptionError> {
        self.words.next().map(String::as_str).ok_or_else(|| {
            let row = id.row();
            let expected = row.kind.expected();
            let message = format!("option {}: it needs an argument, {expected}", row.spelling());
            OptionError::new(message)
        })
    }
}

fn by_letter(wanted: char) -> Option<Id> {
    Id::ALL.iter().copied().find(|id| match id.row().place {
        Place::Letter(letter) | Place::LetterOnly(letter) => letter == wanted,
        Place::Word | Place::Long => false,
    })
}

/// Finds a long form by its name or a unique beginning. Forms that only Larder has are searched
/// last. Otherwise they could make an abbreviation ambiguous that memcached accepts.
fn by_long(name: &str) -> Result<Id, OptionError> {
    let longs = || Id::ALL.iter().filter_map(|id| Some((*id, id.row().long()?)));
    if let Some((id, _)) = longs().find(|(_, long)| long == name) {
        return Ok(id);
    }
    let begins = |own: bool| {
        longs().filter(move |(id, long)| {
            (id.row().place == Place::Long) == own && long.starts_with(name)
        })
    };
    let mut matches: Vec<_> = begins(false).collect();
    if matches.is_empty() {
        matches = begins(true).collect();
    }
    match matches.as_slice() {
        [] => {
            let hint = nearest::hint_or(name, nearest::on_the_command_line(), ALL);
            Err(OptionError::new(format!("option --{name}: no such option{hint}")))
        }
        [(id, _)] => Ok(*id),
        _ => {
            let forms: Vec<_> = matches.iter().map(|(_, long)| format!("--{long}")).collect();
            let message = format!("option --{name}: ambiguous, could be {}", forms.join(" or "));
            Err(OptionError::new(message))
        }
    }
}

fn unknown_letter(letter: char) -> OptionError {
    let other = match letter.is_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    };
    let hint = match by_letter(other) {
        Some(_) => format!("did you mean -{other}?"),
        None => ALL.to_owned(),
    };
    OptionError::new(format!("option -{letter}: no such option; {hint}"))
}

const ALL: &str = "-h lists all";

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a command line at spaces and names its pieces.
    fn split(line: &str) -> Result<Vec<String>, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        pieces(&words)
            .map(|piece| match piece {
                Ok(Piece::Option(id, None)) => Ok(id.row().spelling()),
                Ok(Piece::Option(id, Some(argument))) => {
                    Ok(format!("{}={argument}", id.row().spelling()))
                }
                Ok(Piece::Stray(word)) => Ok(format!("?{word}")),
                Err(error) => Err(error.message),
            })
            .collect()
    }

    #[test]
    fn an_argument_may_be_attached_or_separate() {
        for line in ["-p 11", "-p11", "--port 11", "--port=11", "--por=11", "--por 11"] {
            assert_eq!(split(line), Ok(vec!["-p=11".to_owned()]), "{line}");
        }
        assert_eq!(split("-p -1"), Ok(vec!["-p=-1".to_owned()]));
        assert_eq!(split("--user="), Ok(vec!["-u=".to_owned()]));
    }

    #[test]
    fn letters_without_argument_may_be_bundled() {
        assert_eq!(split("-vvdp11 -C").unwrap(), ["-v", "-v", "-d", "-p=11", "-C"]);
        assert_eq!(split("--verbose=3 --verbose").unwrap(), ["-v", "-v"]);
    }

    #[test]
    fn other_words_may_stand_anywhere_and_two_dashes_end_the_options() {
        assert_eq!(split("a -v - b -- -v --").unwrap(), ["?a", "-v", "?-", "?b", "?-v", "?--"]);
    }

    #[test]
    fn an_abbreviation_must_be_unique_among_memcacheds_forms() {
        assert_eq!(
            split("--listen=a --listen-b=1 --c=2 --vers").unwrap(),
            ["-l=a", "-b=1", "-c=2", "-V"]
        );
        assert_eq!(split("--conf=x --print").unwrap(), ["--config=x", "--print-config"]);
        assert_eq!(
            split("--l"),
            Err("option --l: ambiguous, could be --listen or --lock-memory or --license or \
                --listen-backlog"
                .to_owned())
        );
    }

    #[test]
    fn unknown_options_and_missing_or_needless_arguments_are_named() {
        for (line, message) in [
            ("-Q", "option -Q: no such option; -h lists all"),
            ("-vQ", "option -Q: no such option; -h lists all"),
            ("-\u{e9}", "option -\u{e9}: no such option; -h lists all"),
            ("-T", "option -T: no such option; did you mean -t?"),
            ("-x4", "option -x: no such option; did you mean -X?"),
            ("--nope=1", "option --nope: no such option; -h lists all"),
            (
                "--memory-limt 64",
                "option --memory-limt: no such option; did you mean --memory-limit?",
            ),
            ("-p", "option -p: it needs an argument, a number from -1 to 65535"),
            ("--port", "option -p: it needs an argument, a number from -1 to 65535"),
            ("--daemon=3", "option --daemon: it takes no argument, but \"3\" was given"),
        ] {
            assert_eq!(split(line), Err(message.to_owned()), "{line}");
        }
    }
}
