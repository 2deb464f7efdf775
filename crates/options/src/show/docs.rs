//! docs/options.md, written from the rows.

use std::fmt::Write;

use crate::show::help::forms;
use crate::show::settings::settings;
use crate::table::Id;
use crate::table::row::{Group, Place, Row};
use crate::typed::options::Options;

/// The text of docs/options.md.
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
    /// The heads of the columns after the first four.
    columns: &'static str,
    takes: fn(&Row) -> bool,
}

const PARTS: [Part; 6] = [
    Part {
        title: "What works as in memcached",
        text: "The long form with `_` for `-`, or the word of `-o`, is the key in a file.",
        columns: "meaning",
        takes: |row| row.group == Group::Behaves || (row.group == Group::Reading && !is_own(row)),
    },
    Part {
        title: "Larder's own",
        text: "These exist in their long form only.",
        columns: "meaning",
        takes: is_own,
    },
    Part {
        title: "What is done in another way",
        text: "These are taken in silence: what they are for is there by other means, and `stats settings` \
               shows their values.",
        columns: "what becomes of it",
        takes: |row| row.group == Group::Mapped,
    },
    Part {
        title: "Accepted with a warning",
        text: "These change nothing, though one might count on them: the start says so in one line on \
               standard error.",
        columns: "what it would do | why it has no effect",
        takes: |row| matches!(row.group, Group::Warned(_)),
    },
    Part {
        title: "Refused",
        text: "To ignore these would change what a user relies on, so Larder does not start and ends \
               with exit status 64.",
        columns: "what it would do | why it is refused",
        takes: |row| matches!(row.group, Group::Refused(_)),
    },
    Part {
        title: "For test suites",
        text: "`larderd -h` does not show it, and nothing but a test suite has a use for it. Where memcached \
               1.6.18 and 1.6.45 contradict each other Larder follows 1.6.45; 1.6.18's own tests expect \
               the older answers. With `answers_as=1.6.18` a line shorter than four bytes is answered \
               `ERROR`, `shutdown` without `-A` is refused with `ERROR: shutdown not enabled`, a `cas` \
               line without its unique number is an `ERROR` whose value is read as a command, `stats` has \
               the keys of 1.6.18, with `-C` a `flush_all` covers what is stored after it in the same second, \
               and a metadump ends without a line `OK`.",
        columns: "meaning",
        takes: |row| row.group == Group::Suite,
    },
];

fn is_own(row: &Row) -> bool {
    row.place == Place::Long
}

/// How the option is written on the command line.
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

/// The group as the page calls it.
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

const WRITES: &str = "a String takes every write";

const HEAD: &str = "\
<!-- Written from crates/options/src/table/mod.rs. Change a row there, then run
     `LARDER_BLESS=1 cargo test -p larder-options`. -->

# Options

An option is given, from weakest to strongest, in a TOML file, in the environment or on the command
line:

| | `-m 1024` | `-C` | `-o idle_timeout=60` |
|---|---|---|---|
| file | `memory_limit = 1024` | `disable_cas = true` | `idle_timeout = 60` |
| environment | `LARDER_MEMORY_LIMIT=1024` | `LARDER_DISABLE_CAS=yes` | `LARDER_IDLE_TIMEOUT=60` |
| command line | `-m 1024`, `--memory-limit=1024` | `-C`, `--disable-cas` | `-o idle_timeout=60` |

`--config FILE` or `LARDER_CONFIG` names the file. In it, `listen` may be a list of strings.
`larderd --print-config` prints the options in effect as such a file, with where each was given.

Each belongs to a group:

| group | Larder |
|---|---|
| behaves | does what memcached does |
| own | has it and memcached has not |
| maps | takes it in silence; what it is for is done by means of Larder's own |
| warns | takes it, ignores it, and says so in one line at the start |
| refused | does not start, and says why |
| suite | has it for test suites |

The key of `-D` in a file is `stat_prefix_delimiter`.

The command line is read as memcached reads it: letters may be bundled, arguments may be glued on, long
forms may be shortened as long as no other of memcached's begins so, `-v` counts, `-l` and `-o` may be
given more than once, and of other options given twice the last one counts. Larder differs where
memcached takes something for what was not meant:

- A number has to be one: memcached reads `-p abc` as port 0 and `-t 4x` as 4 workers.
- `-m` takes k, m or g after the number, and `-I` takes g as well.
- Where `slab_chunk_max` is not given, `-I` need not be a multiple of its default: `-I 1k` is allowed.
- A second `-l` that is contained in the first is not dropped.
- A word of `-o` that is on or off may be given a value: `maxconns_fast=no`.
- A word that belongs to no option is ignored, with a warning.
- `-c` counts the connections of clients and nothing else, so that small numbers are possible; memcached counts
  descriptors of its own among them, and does not start with fewer than it needs.
- With `-c` as high as the limit of descriptors, or nearly, somewhat fewer connections are possible than `-c`
  says, and the start says how many: those of the server itself come on top.
- `-d` returns when the server in the background serves, and with its exit status where it could not start.
- `-r` works after `-u` has changed the user as well.

An error names the option, its value and what is allowed, in one line on standard error. The exit
status is memcached's: 64 for values that contradict each other and for what is refused, 71 for an
address that cannot be listened on, 67 for a user that does not exist, 1 for the rest.
";

const PRIVILEGES: &str = "
## What `-o drop_privileges` restricts

Off unless given, as in memcached. Once the server runs, and before it says so, it gives up for good, in all
its threads:

- every capability, should it be root's, but that to lock memory with `-k`, and the way to gain new ones
  (`no_new_privs`);
- by a filter on system calls (seccomp; on x86-64, aarch64 and riscv64): to run a program or start another
  process, to open a socket, to connect to anything, to open a file for writing, to create, rename or remove one,
  to make memory executable, to trace or signal another process, to change users, mounts, limits or the clock.

What is refused fails with EPERM, and serving goes on; memcached ends the process instead. What stays possible:
connections that come in, and everything the protocol offers on them; reading files that the user may read,
which reloading users and certificates needs; with `-d` and `-P` together, removing a file. Where the system
does not allow such a filter the server does not start, with exit status 71. `relaxed_privileges` changes nothing.
";

const SETTINGS: &str = "
## `stats settings`

memcached's names in memcached's order, with the values of a start without options. What Larder does
not have is shown with the value of a memcached that does not use it.

| name | value |
|---|---|
";

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
        if env::var_os("LARDER_BLESS").is_some() {
            fs::write(&path, options_md()).unwrap();
        }
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == options_md(),
            "docs/options.md is not what the table says: run LARDER_BLESS=1 cargo test -p \
             larder-options"
        );
    }

    #[test]
    fn every_option_is_on_the_page() {
        let page = options_md();
        for id in Id::ALL {
            assert!(page.contains(&cell(id.row())), "{}", id.row().name);
        }
    }
}
