//! docs/options.md, generated from the rows.

use std::fmt::Write;

use crate::show::help::forms;
use crate::show::settings::settings;
use crate::table::Id;
use crate::table::row::{Group, Place, Row};
use crate::typed::options::Options;

/// Returns the text of docs/options.md.
pub fn options_md() -> String {
    let mut page = String::from(HEAD);
    for part in PARTS {
        let rows: Vec<_> =
            Id::ALL.iter().map(|id| id.row()).filter(|row| (part.takes)(row)).collect();
        write!(page, "\n## {}\n\n{}\n\n", part.title, part.text).expect(WRITES);
        let bars = part.columns.matches('|').count() + 1;
        writeln!(
            page,
            "| option | group | values | default | {} |\n|---|---|---|---|{}",
            part.columns,
            "---|".repeat(bars)
        )
        .expect(WRITES);
        for row in rows {
            writeln!(
                page,
                "| {} | {} | {} | {} | {} |",
                cell(row),
                group(row),
                values(row),
                default(row),
                meaning(row)
            )
            .expect(WRITES);
        }
    }
    page.push_str(PRIVILEGES);
    page.push_str(SETTINGS);
    for (name, text) in settings(&Options::default()) {
        writeln!(page, "| `{name}` | `{text}` |").expect(WRITES);
    }
    page
}

/// A table of the page.
struct Part {
    title: &'static str,
    text: &'static str,
    /// The headings of the columns after the first four.
    columns: &'static str,
    takes: fn(&Row) -> bool,
}

const PARTS: [Part; 6] = [
    Part {
        title: "Options that work as in memcached",
        text: "The key in a file is the long form with `_` for `-`, or the word of `-o`.",
        columns: "meaning",
        takes: |row| matches!(row.group, Group::Behaves | Group::Reading) && !is_own(row),
    },
    Part {
        title: "Larder's own options",
        text: "memcached does not have these. They exist in their long form only.",
        columns: "meaning",
        takes: is_own,
    },
    Part {
        title: "Options whose purpose is served in another way",
        text: "\
Larder accepts these silently: it serves their purpose by other means. `stats settings` shows their
values.",
        columns: "in Larder",
        takes: |row| row.group == Group::Mapped,
    },
    Part {
        title: "Options accepted with a warning",
        text: "\
These have no effect, although a user may rely on them: the server prints a warning line on standard
error at the start.",
        columns: "purpose | why it has no effect",
        takes: |row| matches!(row.group, Group::Warned(_)),
    },
    Part {
        title: "Refused options",
        text: "\
Ignoring these would break what a user relies on, so Larder does not start.",
        columns: "purpose | why it is refused",
        takes: |row| matches!(row.group, Group::Refused(_)),
    },
    Part {
        title: "Larder's own options for test suites",
        text: "\
memcached does not have these either, and only test suites need them; `larderd -h` omits them. Where
memcached 1.6.18 and 1.6.45 contradict each other, Larder follows 1.6.45; the tests of 1.6.18 expect
the older responses. With `answers_as=1.6.18`:

- a line shorter than four bytes gets `ERROR`;
- `shutdown` without `-A` gets `ERROR: shutdown not enabled`;
- a `cas` line without its unique number gets `ERROR`, and its value is parsed as a command;
- `stats` has the keys of 1.6.18;
- with `-C`, a `flush_all` also covers items stored after it in the same second;
- a metadump ends without a line `OK`.",
        columns: "meaning",
        takes: |row| row.group == Group::Suite,
    },
];

fn is_own(row: &Row) -> bool {
    row.place == Place::Long
}

/// Returns the option as written on the command line.
fn cell(row: &Row) -> String {
    if row.place != Place::Word {
        return format!("`{}`", forms(row).trim_start());
    }
    let word = match (row.bare, row.kind.argument()) {
        (None, argument) => format!("`{}={argument}`", row.name),
        (Some(_), "") => format!("`{}`", row.name),
        (Some(_), argument) => format!("`{}[={argument}]`", row.name),
    };
    let negated = row.negated.map(|_| format!(", `no_{}`", row.name)).unwrap_or_default();
    format!("`-o` {word}{negated}")
}

/// Returns the name of the group on the page.
fn group(row: &Row) -> &'static str {
    match row.group {
        Group::Behaves | Group::Reading if is_own(row) => "own",
        Group::Behaves | Group::Reading => "behaves",
        Group::Mapped => "maps",
        Group::Warned(_) => "warns",
        Group::Refused(_) => "refused",
        Group::Suite => "suite",
    }
}

fn values(row: &Row) -> String {
    if row.kind.takes_argument() { row.kind.expected() } else { String::new() }
}

fn default(row: &Row) -> String {
    let default = row.default.filter(|_| row.is_configurable());
    default.map(|text| format!("`{text}`")).unwrap_or_default()
}

fn meaning(row: &Row) -> String {
    match row.group {
        Group::Warned(reason) | Group::Refused(reason) => format!("{} | {reason}", row.doc),
        _ => row.doc.to_owned(),
    }
}

const WRITES: &str = "writing to a String cannot fail";

const HEAD: &str = "\
<!-- Written from crates/options/src/table/mod.rs. Change a row there, then run
     `LARDER_BLESS=1 cargo test -p larder-options`. -->

# Options

Options come from a TOML file, the environment and the command line; later sources in this list
override earlier ones:

| | `-m 1024` | `-C` | `-o idle_timeout=60` |
|---|---|---|---|
| file | `memory_limit = 1024` | `disable_cas = true` | `idle_timeout = 60` |
| environment | `LARDER_MEMORY_LIMIT=1024` | `LARDER_DISABLE_CAS=yes` | `LARDER_IDLE_TIMEOUT=60` |
| command line | `-m 1024`, `--memory-limit=1024` | `-C`, `--disable-cas` | `-o idle_timeout=60` |

`--config FILE` or `LARDER_CONFIG` names the file. In it, `listen` may be a list of strings.
`larderd --print-config` prints the options in effect as such a file, with the source of each.
`larderd --check` reports whether a start with them would succeed.

Each option belongs to a group:

| group | Larder |
|---|---|
| behaves | does what memcached does |
| own | has it; memcached does not |
| maps | accepts it silently and serves its purpose by other means |
| warns | accepts it, ignores it, and prints a warning at the start |
| refused | does not start, and prints the reason |
| suite | has it for test suites; memcached does not |

The key of `-D` in a file is `stat_prefix_delimiter`.

Larder parses the command line as memcached does: letters may be bundled, arguments may be attached,
long forms may be shortened to any prefix that no other of memcached's options shares, `-v` counts,
and `-l` and `-o` may be repeated. Of other repeated options, the last one counts. Larder differs
where memcached misinterprets its input:

- A number must be valid: memcached reads `-p abc` as port 0 and `-t 4x` as 4 workers.
- `-m` accepts k, m or g after the number, and `-I` also accepts g.
- Without `slab_chunk_max`, `-I` need not be a multiple of its default: `-I 1k` is allowed.
- A second `-l` that is contained in the first is kept.
- An on-off word of `-o` accepts a value: `maxconns_fast=no`.
- An argument that belongs to no option, as in `larderd foo`, is ignored with a warning; memcached
  ignores it silently. An unknown option or word of `-o` is an error in both.
- Every wrong use of the options ends with exit status 64, see below.
- Without `-I`, an `-m` below 2 MiB lowers the largest item to half of it; memcached does not start.
- `-c` counts only the connections of clients, so small numbers are possible. memcached also counts
  its own descriptors and does not start with fewer than it needs.
- If `-c` is close to the limit of descriptors, fewer connections than `-c` are possible, because
  the server needs some descriptors itself. It prints the number at the start.
- `-d` returns when the server in the background is ready, or with its exit status if it fails to
  start. Relative paths of options refer to the directory where larderd was started, although `-d`
  changes to `/`.
- A pid file of `-P` that cannot be written ends the start; memcached continues without it.
- `-r` also works after `-u` has changed the user.

An error is one line on standard error with the option, its value and the allowed values. If an
option, a word, a key or one of a few values does not exist, the line names the nearest that does.

| exit status | cause | what to change |
|---|---|---|
| 0 | the server stopped as requested; `-h`, `-i`, `-V` and `--print-config`; `--check` without a problem | |
| 64 | an option is wrong: it does not exist, its value is not allowed, it contradicts another or is refused; or a file that it names for reading cannot be used: configuration, users, tokens, certificates; or root gave no `-u` | the command line, `LARDER_*`, or that file |
| 67 | the user of `-u` does not exist | `-u`, or create the user |
| 71 | the system refuses: an address or socket, the pid file, a limit, the change of the user, system calls | the system, or the option that the message names |
| 1 | the cache cannot be opened: memory, the file of `-e`, the directory of `--tier-path`; or, at the stop, the disk lacks changes | as the message says |

memcached exits with 1 or 71 in some of the cases of 64.
";

const PRIVILEGES: &str = "
## Restrictions of `-o drop_privileges`

Off by default, as in memcached. Once the server runs, and before it reports readiness, it gives up
for good, in all its threads:

- all capabilities that it has as root, except the one that locks memory with `-k`, and the means to
  gain new ones (`no_new_privs`);
- by a system call filter (seccomp; on x86-64, aarch64 and riscv64): running programs, starting
  processes, opening sockets, connecting, opening files for writing, creating, renaming and removing
  files, making memory executable, tracing and signalling other processes, changing users, mounts,
  limits and the clock.

With `--tier-path` the server has to write: files may then be opened for reading and writing and
created, not emptied, and not through links, and renamed. The filter cannot see in which directory;
`ReadWritePaths=` of systemd, or a file system that is otherwise read-only, limits that.

A forbidden call fails with EPERM and the server keeps running; memcached kills the process instead.
The server can still accept connections and serve all commands on them; read files that the user may
read, which it needs to reload users and certificates; and, with `-d` and `-P` together, remove a
file. If the system does not support the filter, the server does not start; the exit status is 71.
`relaxed_privileges` changes nothing.
";

const SETTINGS: &str = "
## `stats settings`

memcached's names in memcached's order, with the values of a start without options. A feature that
Larder lacks has the value of a memcached that does not use it.

| name | value |
|---|---|
";

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;
    use crate::show::help::effect;

    #[test]
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
        if env::var_os("LARDER_BLESS").is_some() {
            fs::write(&path, options_md()).unwrap();
        }
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == options_md(),
            "docs/options.md is out of date: run LARDER_BLESS=1 cargo test -p larder-options"
        );
    }

    /// The page and the help list exactly the forms that parsing accepts. For a value that is one
    /// of a few words, `Kind::parse` must use the list of `Kind::forms` and no other.
    #[test]
    fn every_word_that_is_listed_is_accepted_and_every_accepted_one_is_listed() {
        let (page, mut seen) = (options_md(), 0);
        for row in Id::ALL.iter().map(|id| id.row()).filter(|row| !row.kind.forms().is_empty()) {
            let list = row.kind.forms().join(", ");
            let expected = row.kind.expected();
            assert!(expected.contains(&list), "{}: {expected}", row.name);
            for form in row.kind.forms() {
                let text = form.replace("NAME", "www").replace("MS", "7");
                assert!(row.kind.parse(&text).is_ok(), "{}: {text} is refused", row.name);
                // A word that is similar to an allowed one, but not allowed.
                assert!(row.kind.parse(&format!("x{form}")).is_err(), "{}: x{form}", row.name);
            }
            if row.kind.takes_argument() {
                let line =
                    page.lines().find(|line| line.starts_with(&format!("| {} |", cell(row))));
                let line = line.unwrap_or_default();
                assert!(line.contains(&format!("one of {list}")), "{}: {line}", row.name);
                let effect = effect(row);
                assert!(effect.contains(&format!("one of {list}")), "{}: {effect}", row.name);
                seen += 1;
            }
        }
        assert!(seen >= 7, "{seen} options");
    }

    /// The text about an option names all words that may occur within its value, such as the
    /// prefixes of `-l`.
    #[test]
    fn the_words_within_addresses_are_those_that_the_help_names() {
        let doc = Id::Listen.row().doc;
        for word in
            ["notls:", "btls:", "mtls:", "proto[ascii]:", "proto[binary]:", "proto[negotiating]:"]
        {
            assert!(doc.contains(word), "{word}");
            assert!(Id::Listen.row().kind.parse(&format!("{word}127.0.0.1:1")).is_ok(), "{word}");
        }
        let doc = Id::AdminListen.row().doc;
        for word in [",role=probe", ",role=read", ",role=full", ",tls"] {
            assert!(doc.contains(word), "{word}");
            assert!(Id::AdminListen.row().kind.parse(&format!("*:1{word}")).is_ok(), "{word}");
        }
    }

    #[test]
    fn every_option_is_on_the_page() {
        let page = options_md();
        for id in Id::ALL {
            assert!(page.contains(&cell(id.row())), "{}", id.row().name);
        }
    }
}
