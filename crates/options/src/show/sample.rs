//! The configuration file that a package installs. It lists every option as a comment, and sets a
//! few that the package needs.

use std::fmt::Write;

use crate::show::help::has_effect;
use crate::table::Id;
use crate::table::row::Row;

/// Returns a TOML file with a comment for each option that has an effect: its effect, its values,
/// and the line that would set it to its default. `set` contains names and values in TOML's syntax:
/// the lines of these options are not comments and set them.
///
/// # Panics
/// `set` names an option that a file cannot have. This is a mistake in the caller's source.
pub fn sample(set: &[(&str, &str)]) -> String {
    let rows = || {
        let rows = Id::ALL.iter().map(|id| id.row());
        rows.filter(|row| has_effect(row) && row.is_configurable())
    };
    for (name, _) in set {
        assert!(rows().any(|row| row.name == *name), "{name} is no option of a file");
    }
    let mut file = HEAD.to_owned();
    for row in rows() {
        file.push('\n');
        comment(&mut file, &sentence(row));
        match set.iter().find(|(name, _)| *name == row.name) {
            Some((_, value)) => writeln!(file, "{} = {value}", row.name),
            None => writeln!(file, "#{} = {}", row.name, default(row)),
        }
        .expect(WRITES);
    }
    file
}

/// Returns effect and values.
fn sentence(row: &Row) -> String {
    format!("{}. Values: {}.", row.doc, row.kind.expected())
}

/// Returns the default in the syntax of the file; an empty text without a default.
fn default(row: &Row) -> String {
    match row.default.map(|text| row.kind.parse(text)) {
        Some(Ok(value)) => row.kind.toml(&value),
        _ => "\"\"".to_owned(),
    }
}

/// Appends the text as a comment, wrapped.
fn comment(file: &mut String, text: &str) {
    let mut column = WIDTH;
    for word in text.split(' ') {
        if column + 1 + word.len() > WIDTH {
            let begin = if file.ends_with('\n') { "# " } else { "\n# " };
            write!(file, "{begin}{word}").expect(WRITES);
            column = 2 + word.len();
        } else {
            write!(file, " {word}").expect(WRITES);
            column += 1 + word.len();
        }
    }
    file.push('\n');
}

const WIDTH: usize = 90;

const WRITES: &str = "writing to a String cannot fail";

const HEAD: &str = "\
# The options of larderd. The lines that begin with # and a name show the defaults.
# LARDER_* variables and the command line override this file; larderd --print-config shows
# the options in effect. See larderd(1).
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::invocation::{Invocation, Sources};

    /// Returns the output of `--print-config` with this file, or without a file.
    fn config(file: Option<&str>) -> String {
        let mut line = vec!["--print-config".to_owned()];
        line.extend(file.map(|_| "--config=larderd.toml".to_owned()));
        let invocation = Invocation::read(&Sources {
            command_line: &line,
            environment: &[],
            read_file: &|_| Ok(file.expect("asked for a file that was given").to_owned()),
            memory_bound: &|| unreachable!("no percentage is given"),
            version: "1.6.45",
        });
        match invocation.expect("the file is valid") {
            Invocation::Print(text) => text,
            other => panic!("--print-config prints, not {other:?}"),
        }
    }

    #[test]
    fn the_file_is_valid_and_changes_only_the_options_that_it_sets() {
        assert_eq!(config(Some(&sample(&[]))), config(None));
        let printed = config(Some(&sample(&[("memory_limit", "100"), ("pidfile", "\"/p\"")])));
        for line in ["memory_limit = 100  # larderd.toml:", "pidfile = \"/p\"  # larderd.toml:"] {
            assert!(printed.contains(line), "{line} is missing: {printed}");
        }
    }

    #[test]
    fn the_commented_defaults_are_valid_and_change_nothing() {
        let given = |line: &str| {
            let key = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
            key.filter(|line| !line.ends_with(" = \"\"")).map(str::to_owned)
        };
        let all: Vec<_> = sample(&[]).lines().filter_map(given).collect();
        assert!(all.len() > 30, "{} defaults", all.len());
        let without_source = |text: String| -> Vec<String> {
            text.lines().map(|line| line.split("  #").next().unwrap_or(line).to_owned()).collect()
        };
        let file = all.join("\n");
        assert_eq!(without_source(config(Some(&file))), without_source(config(None)));
    }

    #[test]
    fn lines_fit_a_terminal() {
        for line in sample(&[]).lines().filter(|line| line.starts_with("# ")) {
            assert!(line.len() <= WIDTH + 2, "{line}");
        }
    }

    #[test]
    #[should_panic(expected = "no option of a file")]
    fn an_unknown_option_is_a_mistake_of_the_caller() {
        sample(&[("memory", "1")]);
    }
}
