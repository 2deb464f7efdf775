//! Tests that cannot run on this machine.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::Path;
use std::thread;

/// Records that the calling test, or a part of it, cannot run here, and the reason. The test then
/// returns.
///
/// Prints a line, and appends a line `PROGRAM TEST: REASON` to the file that the environment
/// variable `SKIPPED_TESTS` names. `make test` prints these lines at its end. In CI it fails if one
/// of the lines is not in `.ci/skipped`.
///
/// # Panics
/// The file cannot be written. A skipped test must not go unnoticed.
#[track_caller]
pub fn skip(reason: impl Display) {
    let caller = Location::caller().file();
    let reason = reason.to_string().replace('\n', " ");
    // The harness names the thread of a test after it.
    let test = thread::current().name().unwrap_or("main").to_owned();
    let line = format!("{} {test}: {reason}\n", program(caller));
    print!("skipped: {line}");
    let Some(file) = env::var_os("SKIPPED_TESTS") else { return };
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(&file)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot note a skipped test in {file:?}: {error}"));
}

/// Returns `server/it` for `crates/server/tests/it/udp.rs`, and `server` for a file in `src`.
fn program(file: &str) -> String {
    let file = Path::new(file).with_extension("");
    let names: Vec<_> = file.iter().map(|name| name.to_string_lossy()).collect();
    let Some(at) = names.iter().position(|name| name == "tests" || name == "src") else {
        return file.display().to_string();
    };
    let krate = at.checked_sub(1).map_or("", |before| &names[before]);
    match names.get(at + 1) {
        Some(test) if names[at] == "tests" => format!("{krate}/{test}"),
        _ => krate.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn a_note_names_the_program_of_its_test() {
        assert_eq!(program("crates/server/tests/it/udp.rs"), "server/it");
        assert_eq!(program("crates/cli/tests/tool/top.rs"), "cli/tool");
        assert_eq!(program("crates/server/src/net/worker/tests.rs"), "server");
    }
}
