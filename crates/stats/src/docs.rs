//! docs/stats.md, written from the rows.

use std::fmt::Write;

use crate::{Condition, Section, Source, Stat};

/// The text of docs/stats.md.
pub fn stats_md() -> String {
    let mut page = String::from(HEAD);
    for section in Section::ALL {
        let (title, text) = introduction(section);
        write!(page, "\n## {title}\n\n{text}\n\n| key | meaning | kind |\n|---|---|---|\n")
            .expect("a String takes every write");
        for stat in section.rows() {
            writeln!(page, "| `{}` | {} | {} |", stat.name, stat.doc, kind(stat))
                .expect("a String takes every write");
        }
    }
    page
}

/// How the value behaves over time, as the last column shows it.
fn kind(stat: &Stat) -> String {
    let kind = match stat.source {
        Source::Counter(counter) if counter.is_reset() => "counter",
        Source::Counter(_) | Source::Gauge(_) => "gauge",
        Source::Constant(_) => "constant",
    };
    match stat.condition {
        None => kind.to_owned(),
        Some(condition) => format!("{kind}, with `{}`", option(condition)),
    }
}

/// The option a condition stands for.
fn option(condition: Condition) -> &'static str {
    match condition {
        Condition::MaxconnsFast => "maxconns_fast",
        Condition::IdleTimeout => "idle_timeout",
        Condition::Tls => "-Z",
        Condition::TlsSessions => "-Z -o ssl_session_cache",
        Condition::SlabReassign => "slab_reassign",
        Condition::LruCrawler => "lru_crawler",
        Condition::LruMaintainer => "lru_maintainer",
    }
}

fn introduction(section: Section) -> (&'static str, &'static str) {
    match section {
        Section::General => ("`stats`", "memcached's keys in memcached's order."),
        Section::Items => (
            "`stats items`",
            "Each key stands after `items:1:`. Larder keeps items of all sizes together in segments, so \
             there is one class, number 1. It is shown while there are items.",
        ),
        Section::Slabs => (
            "`stats slabs`",
            "Each key stands after `1:`. The one class is all segments, and its commands are those of \
             the whole server.",
        ),
        Section::SlabsTotal => ("`stats slabs`, last lines", "These have no prefix."),
        Section::Larder => ("`stats larder`", "What memcached has no key for."),
    }
}

const HEAD: &str = "\
<!-- Written from crates/stats/src/table.rs. Change a row there, then run
     `LARDER_BLESS=1 cargo test -p larder-stats`. -->

# Statistics

A counter starts at 0 and goes back to 0 with `stats reset`. A gauge says how things are now. A
constant is a key that memcached's dashboards look for and that does not vary in Larder. A key
marked \"with\" an option is left out when that option is off.

`stats settings` is described in [options.md](options.md).
";

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stats.md");
        if env::var_os("LARDER_BLESS").is_some() {
            fs::write(&path, stats_md()).unwrap();
        }
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == stats_md(),
            "docs/stats.md is not what the table says: run LARDER_BLESS=1 cargo test -p larder-stats",
        );
    }
}
