//! The files that [`super`] writes.

use std::iter;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use larder_options::{LARDER_VERSION, sample};

use super::{daemon, tool};
use crate::CommandLine;

/// A file, with its path relative to the output folder.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    fn new(path: String, text: Vec<u8>) -> Self {
        let text = String::from_utf8(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path, text }
    }
}

/// Returns larderd(1), larder(1) and the pages of its subcommands.
pub(super) fn man_pages() -> Vec<File> {
    let larderd = File::new("man/larderd.1".to_owned(), daemon::page());
    let of_tool = tool::pages(CommandLine::command())
        .into_iter()
        .map(|(name, page)| File::new(format!("man/{name}.1"), page));
    iter::once(larderd).chain(of_tool).collect()
}

/// Returns the completions of both programs, under the names that the shells look for.
pub(super) fn completions() -> Vec<File> {
    let mut files = Vec::new();
    for (program, command) in [
        ("larder", shown(&CommandLine::command()).version(LARDER_VERSION)),
        ("larderd", daemon::command_to_complete()),
    ] {
        for (shell, path) in [
            (Shell::Bash, format!("bash/{program}")),
            (Shell::Zsh, format!("zsh/_{program}")),
            (Shell::Fish, format!("fish/{program}.fish")),
        ] {
            let mut text = Vec::new();
            generate(shell, &mut command.clone(), program, &mut text);
            files.push(File::new(path, text));
        }
    }
    files
}

/// Returns the command without its hidden arguments, which clap_complete would offer.
fn shown(command: &Command) -> Command {
    // clap takes names that live as long as the program.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .subcommands(command.get_subcommands().map(shown))
        .subcommand_required(command.is_subcommand_required_set())
}

/// Returns /etc/larder/larderd.toml of the Debian package. It names the directories of the unit
/// larderd.service.
pub(super) fn sample_file() -> File {
    let text = sample(&[
        ("listen", "[\"127.0.0.1\"]"),
        ("memory_file", "\"/var/lib/larder/cache\""),
        ("pidfile", "\"/run/larder/larderd.pid\""),
        ("admin_listen", "[\"127.0.0.1:9150,role=probe\", \"/run/larder/admin.sock,mode=660\"]"),
    ]);
    File { path: "larderd.toml".to_owned(), text }
}
