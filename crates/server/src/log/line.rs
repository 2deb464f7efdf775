//! The form of a line of the log.
//!
//! A line is always one line of valid UTF-8, regardless of the message: a newline would let a
//! client forge a line, and control characters would let it write to a terminal. So both forms
//! escape them.

use std::fmt::Write;

use larder_options::LogFormat;
use serde_json::{Map, Value};

use super::level::Level;
use crate::clock::Rfc3339;

/// The form of all lines of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) format: LogFormat,
    /// True if a line contains the time.
    pub(super) has_time: bool,
    /// True if standard error is the journal of systemd. It records the time and takes the level
    /// from a prefix such as `<4>`, which it removes.
    pub(super) is_journal: bool,
}

/// The contents of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) at: Rfc3339,
    pub(super) level: Level,
    pub(super) message: &'a str,
    /// Further members of a JSON object. The message of the text form already contains them.
    pub(super) members: &'a Map<String, Value>,
}

impl Form {
    /// Returns a line with its line end.
    pub(super) fn write(self, line: &Line<'_>) -> String {
        let mut out = String::with_capacity(line.message.len() + PREFIX_BYTES);
        if self.is_journal {
            push(&mut out, format_args!("<{}>", line.level.priority()));
        }
        match self.format {
            LogFormat::Text => self.push_text(&mut out, line),
            LogFormat::Json => self.push_json(&mut out, line),
        }
        out.push('\n');
        out
    }

    fn push_text(self, out: &mut String, line: &Line<'_>) {
        if self.has_time {
            push(out, format_args!("{} ", line.at));
        }
        if self.has_time || !self.is_journal {
            push(out, format_args!("{} ", line.level.name()));
        }
        for character in line.message.chars() {
            match is_obeyed(character) {
                true => out.extend(character.escape_default()),
                false => out.push(character),
            }
        }
    }

    fn push_json(self, out: &mut String, line: &Line<'_>) {
        let mut object = Map::new();
        if self.has_time {
            object.insert("time".to_owned(), line.at.to_string().into());
        }
        object.insert("level".to_owned(), line.level.name().into());
        object.insert("message".to_owned(), line.message.into());
        object.extend(line.members.iter().map(|(name, value)| (name.clone(), value.clone())));
        // JSON escapes the control characters of ASCII. The others are left for this loop.
        for character in Value::Object(object).to_string().chars() {
            match is_obeyed(character) {
                true => push(out, format_args!("\\u{:04x}", u32::from(character))),
                false => out.push(character),
            }
        }
    }
}

/// True if a program that shows the character would obey it: a control character, a line end of
/// Unicode, or a change of the writing direction. All of them are in the basic plane.
fn is_obeyed(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push(out: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(words);
}

/// The usual length of everything but the message, in both forms.
const PREFIX_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Form, message: &str, members: &Map<String, Value>) -> String {
        let at = Rfc3339::of_unix_ns(1_700_000_000_042_999_999);
        form.write(&Line { at, level: Level::Warn, message, members })
    }

    const TEXT: Form = Form { format: LogFormat::Text, has_time: true, is_journal: false };

    #[test]
    fn a_line_begins_with_time_and_level_unless_the_journal_records_them() {
        let line = |has_time, is_journal| {
            written(Form { has_time, is_journal, ..TEXT }, "larderd: a", &Map::new())
        };
        assert_eq!(line(true, false), "2023-11-14T22:13:20.042Z warn larderd: a\n");
        assert_eq!(line(false, false), "warn larderd: a\n");
        assert_eq!(line(false, true), "<4>larderd: a\n");
        assert_eq!(line(true, true), "<4>2023-11-14T22:13:20.042Z warn larderd: a\n");
    }

    #[test]
    fn json_has_the_members_in_order() {
        let members = Map::from_iter([("bytes".to_owned(), 5.into())]);
        let form = Form { format: LogFormat::Json, ..TEXT };
        assert_eq!(
            written(form, "a \"b\"", &members),
            "{\"time\":\"2023-11-14T22:13:20.042Z\",\"level\":\"warn\",\
             \"message\":\"a \\\"b\\\"\",\"bytes\":5}\n"
        );
        let bare = Form { has_time: false, is_journal: true, ..form };
        assert_eq!(written(bare, "a", &Map::new()), "<4>{\"level\":\"warn\",\"message\":\"a\"}\n");
    }

    #[test]
    fn a_message_cannot_begin_another_line_or_command_a_terminal() {
        let message = "a\n2023 error b\r\x1b[2J\u{85}\u{9b}31m\u{2028}\u{202e}ü\"\\";
        let text = written(TEXT, message, &Map::new());
        assert_eq!(
            text.split_once("warn ").unwrap().1,
            "a\\n2023 error b\\r\\u{1b}[2J\\u{85}\\u{9b}31m\\u{2028}\\u{202e}ü\"\\\n"
        );
        let json = written(Form { format: LogFormat::Json, ..TEXT }, message, &Map::new());
        assert_eq!(json.chars().filter(|character| is_obeyed(*character)).count(), 1, "{json:?}");
        let object: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["message"], message);
    }
}
