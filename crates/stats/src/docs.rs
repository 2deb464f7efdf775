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
        Source::ClassCounter(_) => "counter",
        Source::Counter(_) | Source::Gauge(_) | Source::ClassGauge(_) => "gauge",
        Source::Constant(_) => "constant",
    };
    let options: Vec<_> =
        stat.conditions.iter().filter_map(|condition| option(*condition)).collect();
    match options.is_empty() {
        true => kind.to_owned(),
        false => format!("{kind}, with {}", options.join(" and ")),
    }
}

/// The option a condition stands for; none for the default.
fn option(condition: Condition) -> Option<&'static str> {
    Some(match condition {
        Condition::MaxconnsFast => "`maxconns_fast`",
        Condition::IdleTimeout => "`idle_timeout`",
        Condition::Tls => "`-Z`",
        Condition::TlsSessions => "`-Z`, `ssl_session_cache`",
        Condition::SlabReassign => "`slab_reassign`",
        Condition::LruCrawler => "`lru_crawler`",
        Condition::LruMaintainer => "`lru_maintainer`",
        Condition::TemporaryTtl => "`temporary_ttl`",
        Condition::Answers45 => return None,
        Condition::Answers18 => "`answers_as=1.6.18`",
    })
}

fn introduction(section: Section) -> (&'static str, &'static str) {
    match section {
        Section::General => ("`stats`", "memcached's keys in memcached's order."),
        Section::Items => (
            "`stats items`",
            "Each key stands after `items:` and the number of a size class, for every class that holds \
             items. The classes are those of a memcached with the same `-f`, `-n`, `slab_chunk_max` \
             and `slab_sizes`; Larder keeps items of all sizes together in segments, and says what \
             memcached would say of the same items. Numbers of items and bytes are exact up to 10,000 \
             items in a cache of up to 1 GiB; above that they are projected from a part of the index that \
             is spread over all of it, so that asking costs a few milliseconds at most. Ages begin when the \
             segment was begun in which the item is: they may be longer than the item has been there.",
        ),
        Section::Slabs => (
            "`stats slabs`",
            "Each key stands after the number of a size class, for every class that has had items. \
             Pages and chunks are those that memcached would need for the items stored now.",
        ),
        Section::SlabsTotal => ("`stats slabs`, last lines", "These have no prefix."),
        Section::Larder => ("`stats larder`", "What memcached has no key for."),
    }
}

const HEAD: &str = "\
<!-- Written from crates/stats/src/table/mod.rs. Change a row there, then run
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
