//! The man page and the completions of `larderd`, from the table of options.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use larder_options::{DescribedOption, LARDER_VERSION, described};

/// Returns larderd(1).
pub(super) fn page() -> Vec<u8> {
    let about = "a cache that speaks memcached's protocols";
    let command = Command::new("larderd").about(about).version(LARDER_VERSION);
    let source = format!("Larder {LARDER_VERSION}");
    let man = Man::new(command).source(source).manual("Larder");
    let mut page = Vec::new();
    man.render_title(&mut page).expect(WRITES);
    man.render_name_section(&mut page).expect(WRITES);
    let mut roff = Roff::new();
    introduction(&mut roff);
    let options = described();
    roff.control("SH", ["OPTIONS"]);
    roff.text([roman("These are memcached's.")]);
    options.iter().filter(|o| o.word.is_none() && !o.is_own).for_each(|o| entry(&mut roff, o));
    roff.control("SH", ["WORDS OF -o"]);
    options.iter().filter(|o| o.word.is_some()).for_each(|o| entry(&mut roff, o));
    roff.control("SH", ["OPTIONS OF LARDER"]);
    roff.text([roman("memcached does not have these.")]);
    options.iter().filter(|o| o.is_own).for_each(|o| entry(&mut roff, o));
    for (heading, entries) in TABLES {
        roff.control("SH", [*heading]);
        for (term, text) in *entries {
            roff.control("TP", []).text([bold(*term)]).text([roman(*text)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]).text([roman("larder(1), memcached(1), systemd.socket(5)")]);
    roff.to_writer(&mut page).expect(WRITES);
    page
}

fn introduction(roff: &mut Roff) {
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold("larderd"), roman(" ["), italic("OPTION"), roman("]...")]);
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in DESCRIPTION {
        roff.text([roman(*paragraph)]).control("PP", []);
    }
}

/// Appends an option and its description.
fn entry(roff: &mut Roff, option: &DescribedOption) {
    let mut term: Vec<Inline> = Vec::new();
    let letter = option.letter.map(|letter| format!("-{letter}"));
    let long = option.long.as_ref().map(|long| format!("--{long}"));
    let names: Vec<_> = [letter, long].into_iter().flatten().collect();
    term.push(bold(option.word.map_or_else(|| names.join(", "), str::to_owned)));
    if !option.argument.is_empty() {
        let sign = if option.long.is_some() || option.word.is_some() { "=" } else { " " };
        let (open, close) = if option.is_argument_optional { ("[", "]") } else { ("", "") };
        term.push(roman(format!("{open}{sign}")));
        term.push(italic(option.argument));
        term.push(roman(close));
    }
    roff.control("TP", []).text(term);
    roff.text([roman(format!("{}.", capitalized(&option.effect)))]);
}

/// Returns the sentence with a capital letter, unless its first word must keep its spelling.
fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}

/// Returns larderd's command line as a clap command. It serves only to generate completions:
/// larderd itself parses memcached's grammar.
pub(super) fn command_to_complete() -> Command {
    let command = Command::new("larderd").disable_help_flag(true).disable_version_flag(true);
    let options = described();
    let words: Vec<_> = options.iter().filter_map(|option| option.word).collect();
    let shown = options.iter().filter(|option| option.word.is_none());
    let arguments = shown.map(|option| {
        // clap requires names with a static lifetime.
        let long: Option<&'static str> = option.long.clone().map(|long| &*long.leak());
        let name = long.or_else(|| option.letter.map(|letter| &*letter.to_string().leak()));
        let mut argument = Arg::new(name.unwrap_or_default()).help(option.effect.clone());
        if let Some(letter) = option.letter {
            argument = argument.short(letter);
        }
        if let Some(long) = long {
            argument = argument.long(long);
        }
        if option.argument.is_empty() {
            return argument.action(ArgAction::SetTrue);
        }
        argument = argument.action(ArgAction::Set).value_name(option.argument);
        if option.letter == Some('o') {
            argument.value_parser(PossibleValuesParser::new(words.clone()))
        } else if !option.choices.is_empty() {
            argument.value_parser(PossibleValuesParser::new(option.choices.clone()))
        } else if option.is_path {
            argument.value_parser(value_parser!(PathBuf))
        } else {
            argument
        }
    });
    command.args(arguments.collect::<Vec<_>>())
}

const WRITES: &str = "a vector takes every byte";

const DESCRIPTION: &[&str] = &[
    "larderd is a cache server. It takes memcached's options and answers memcached's clients, in \
     the text, meta and binary protocols, over TCP, TLS, UDP and unix sockets.",
    "Options come from the TOML file of --config, from variables LARDER_* of the environment and \
     from the command line; later ones override earlier ones. The name of a variable is the long \
     form in capitals with the prefix LARDER_: --memory-limit is LARDER_MEMORY_LIMIT. A key of the \
     file is the long form with _ in place of -, or the word of -o.",
    "larderd accepts the other options of memcached without effect, or refuses them with a reason; \
     docs/options.md in the sources lists them.",
];

/// Sections that are lists.
const TABLES: &[(&str, &[(&str, &str)])] = &[
    (
        "SIGNALS",
        &[
            ("SIGTERM, SIGINT", "Exit immediately, with status 0."),
            ("SIGUSR1", "Execute the requests that have arrived, send the responses, then exit."),
            (
                "SIGHUP",
                "Reload certificates, users and admin tokens; an unusable file changes nothing.",
            ),
            (
                "SIGUSR2",
                "Hand the sockets over to the binary that is now at larderd's path; with -e the \
                 new process keeps the items.",
            ),
        ],
    ),
    (
        "FILES",
        &[
            ("/etc/larder/larderd.toml", "The configuration of the service of the Debian package."),
            ("/var/lib/larder/cache", "Its items, on a tmpfs (-e)."),
            ("/run/larder/admin.sock", "Its admin listener, for the group larder."),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            ("0", "A signal ended larderd, or it printed the requested information."),
            ("64", "Options contradict each other, or one is refused."),
            ("67", "The user of -u does not exist."),
            ("71", "larderd cannot listen on an address, or the system lacks a required feature."),
            ("1", "Any other error. Each is one line on standard error."),
        ],
    ),
];
