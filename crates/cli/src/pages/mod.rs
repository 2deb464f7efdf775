//! The man pages and the shell completions of `larder` and `larderd`, and larderd's configuration
//! file of the Debian package.
//!
//! A test writes them, so that the programs do not contain the code for it: `make pages` sets
//! `LARDER_PAGES` to the output folder. The pages of `larder` come from the definitions of its
//! arguments, those of `larderd` from the table of options.

mod daemon;
mod files;
mod tool;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::tempdir;

use self::files::{completions, man_pages, sample_file};

/// The environment variable with the output folder. Without it the test writes to a temporary
/// folder.
const FOLDER: &str = "LARDER_PAGES";

#[test]
fn pages_and_completions_are_written_and_programs_can_read_them() {
    let own = tempdir().expect("a folder can be made");
    let given = std::env::var_os(FOLDER);
    let folder = given.as_ref().map_or(own.path(), Path::new);
    let files: Vec<_> =
        man_pages().into_iter().chain(completions()).chain([sample_file()]).collect();
    for file in &files {
        let path = folder.join(&file.path);
        let parent = path.parent().expect("a file is in a folder");
        fs::create_dir_all(parent).expect("folders can be made");
        fs::write(&path, &file.text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let all_of = |end: &str| files.iter().filter(|file| file.path.ends_with(end)).count();
    assert_eq!(all_of("larderd.1"), 1);
    assert!(all_of(".1") > 9, "a page for larderd, larder and each subcommand");
    for file in &files {
        let path = folder.join(&file.path);
        if file.path.ends_with(".1") {
            // groff writes a warning for each unknown request. Only a long word may exceed the line
            // length.
            let page = run("groff", &["-man", "-ww", "-Wbreak", "-Tutf8", "-z"], &path);
            check(page, &file.path);
        }
        if file.path.starts_with("bash/") {
            check(run("bash", &["-n"], &path), &file.path);
        }
    }
}

/// Runs the program on the file; `None` if the machine does not have it.
fn run(program: &str, arguments: &[&str], path: &Path) -> Option<Output> {
    let output = Command::new(program).args(arguments).arg(path).output();
    output.inspect_err(|error| larder_testkit::skip(format!("{program}: {error}"))).ok()
}

fn check(output: Option<Output>, path: &str) {
    if let Some(output) = output {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{path}: {said}");
    }
}

#[test]
fn the_page_of_larderd_has_every_option() {
    let pages = man_pages();
    let page = pages.iter().find(|file| file.path == "man/larderd.1").expect("the page is there");
    // roff escapes a dash and sets forms in bold.
    let text = page.text.replace('\\', "");
    for option in larder_options::described() {
        let form = match (&option.long, option.letter, option.word) {
            (Some(long), ..) => format!("--{long}"),
            (None, Some(letter), _) => format!("-{letter}"),
            (None, None, word) => word.unwrap_or_default().to_owned(),
        };
        assert!(text.contains(&form), "{form} is missing");
    }
    for section in ["NAME", "SYNOPSIS", "OPTIONS", "FILES", "SIGNALS", "EXIT STATUS", "SEE ALSO"] {
        let headings = [format!(".SH {section}\n"), format!(".SH \"{section}\"\n")];
        assert!(headings.iter().any(|heading| text.contains(heading)), "{section} is missing");
    }
}

/// The old form of `--server` works, but no page and no completion shows it.
#[test]
fn pages_and_completions_lack_hidden_options() {
    let files = man_pages().into_iter().chain(completions());
    for file in files.filter(|file| !file.path.contains("larderd")) {
        let text = file.text.replace('\\', "");
        let words: Vec<_> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
        assert!(!words.contains(&"--admin"), "{} has --admin", file.path);
        if file.path.contains("keys") || !file.path.ends_with(".1") {
            assert!(text.contains("server"), "{} lacks --server", file.path);
        }
    }
}

#[test]
fn bash_completes_subcommands_of_larder_and_options_of_larderd() {
    let folder = tempdir().expect("a folder can be made");
    for (program, typed, expected) in
        [("larder", "pi", "ping"), ("larderd", "--memory-l", "--memory-limit")]
    {
        let all = completions();
        let file = all.iter().find(|file| file.path == format!("bash/{program}"));
        let path = folder.path().join(program);
        fs::write(&path, &file.expect("there is one for bash").text).expect("it can be written");
        let script = format!(
            "source {}; COMP_WORDS=({program} {typed}); COMP_CWORD=1; \
             _{program} {program} {typed} {program}; echo \"${{COMPREPLY[@]}}\"",
            path.display()
        );
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(shown.trim(), expected, "{program} {typed}: {output:?}");
    }
}
