//! The findings of a check.

use std::fmt;
use std::io::{self, Write};

use crate::failure::Failure;
use crate::words::CountedNoun;

/// The findings of a check, in the order in which a start would meet them.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The things that a start would use, each with a label.
    uses: Vec<(&'static str, String)>,
    /// Conditions that do not keep a server from starting, or that may be over by then.
    notes: Vec<String>,
    /// The reasons why a start would fail.
    problems: Vec<Failure>,
}

impl Findings {
    /// Adds a line about something that a start would use.
    pub(super) fn uses(&mut self, label: &'static str, text: impl fmt::Display) {
        self.uses.push((label, text.to_string()));
    }

    /// Adds a note.
    pub(super) fn note(&mut self, text: impl fmt::Display) {
        self.notes.push(text.to_string());
    }

    /// Adds a reason why a start would fail.
    pub(super) fn problem(&mut self, failure: Failure) {
        self.problems.push(failure);
    }

    /// Returns the value, or adds the error.
    pub(super) fn take<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        result.map_err(|failure| self.problem(failure)).ok()
    }

    /// Appends the findings of a later step.
    pub(super) fn append(&mut self, mut later: Self) {
        self.uses.append(&mut later.uses);
        self.notes.append(&mut later.notes);
        self.problems.append(&mut later.problems);
    }

    /// Prints all findings: on standard output what a start would use, on standard error the rest.
    /// Returns the exit status of the start.
    pub(super) fn print(&self) -> u8 {
        let width = self.uses.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let lines = self.uses.iter().map(|(label, text)| format!("{label:width$}  {text}\n"));
        let lines: String = lines.collect();
        let mut out = io::stdout();
        // Fails only if standard output is closed.
        let _ = out.write_all(lines.as_bytes());
        let _ = out.flush();
        for note in &self.notes {
            say(format_args!("note: {note}"));
        }
        for problem in &self.problems {
            say(format_args!("{problem}"));
        }
        let verdict = match self.problems.len() {
            0 => "check: larderd can start\n".to_owned(),
            count => {
                let problems = CountedNoun(count as u64, "problem");
                format!("check: larderd cannot start: {problems}\n")
            }
        };
        let _ = out.write_all(verdict.as_bytes());
        self.problems.first().map_or(0, |problem| problem.exit_code)
    }
}

/// Writes a line for the person at the terminal, without the prefix of the log. Ignores a failure,
/// because standard error may be closed.
pub(super) fn say(words: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("larderd: {words}\n").as_bytes());
}
