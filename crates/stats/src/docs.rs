//! Generates docs/stats.md from the rows of the table.

use std::fmt::Write;

use crate::{Condition, HISTOGRAMS, Section, Source, Stat};

/// Returns the text of docs/stats.md.
pub fn stats_md() -> String {
    let mut page = String::from(HEAD);
    for section in Section::ALL {
        let (title, text) = introduction(section);
        write!(page, "\n## {title}\n\n{text}\n\n| key | meaning | kind |\n|---|---|---|\n")
            .expect("writing to a String never fails");
        for stat in section.rows() {
            writeln!(page, "| `{}` | {} | {} |", stat.name, stat.doc, kind(stat))
                .expect("writing to a String never fails");
        }
    }
    page += HISTOGRAMS_HEAD;
    for family in HISTOGRAMS {
        let commands: Vec<_> =
            family.timings.iter().filter_map(|timing| timing.command()).collect();
        let labels = match commands.is_empty() {
            true => String::new(),
            false => format!("`command`: {}", commands.join(", ")),
        };
        writeln!(page, "| `{}` | {} | {labels} |", family.name, family.doc)
            .expect("writing to a String never fails");
    }
    page
}

/// Returns the text of the last column: the kind of a statistic, and its options.
fn kind(stat: &Stat) -> String {
    let kind = match stat.source {
        Source::Counter(counter) if counter.is_reset() => "counter",
        Source::ClassCounter(_) => "counter",
        Source::Counter(_) | Source::Gauge(_) | Source::TierGauge(_) | Source::ClassGauge(_) => {
            "gauge"
        }
        Source::Constant(_) => "constant",
    };
    let options: Vec<_> =
        stat.conditions.iter().filter_map(|condition| option(*condition)).collect();
    match options.is_empty() {
        true => kind.to_owned(),
        false => format!("{kind}, with {}", options.join(" and ")),
    }
}

/// Returns the option of a condition; `None` for the default.
fn option(condition: Condition) -> Option<&'static str> {
    Some(match condition {
        Condition::MaxconnsFast => "`maxconns_fast`",
        Condition::IdleTimeout => "`idle_timeout`",
        Condition::Tls => "`-Z`",
        Condition::TlsSessions => "`-Z`, `ssl_session_cache`",
        Condition::Tier => "`--tier-path`",
        Condition::TierCache => "`--tier-mode cache`",
        Condition::Followers => "`--followers`",
        Condition::TierStore => "`--tier-mode store`",
        Condition::Discovery => "`--cluster-file` or `--cluster-dns`",
        Condition::Near => "`--origin`",
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
        Section::General => ("`stats`", "memcached's keys, in memcached's order."),
        Section::Items => (
            "`stats items`",
            "The prefix of each key is `items:` and the number of a size class, for every class that\n\
             holds items. The classes are those of a memcached with the same `-f`, `-n`,\n\
             `slab_chunk_max` and `slab_sizes`. Larder stores items of all sizes together in\n\
             segments, and reports the values that memcached would report for the same items.\n\
             Numbers of items and bytes are exact up to 10,000 items in a cache of up to 1 GiB;\n\
             above that they are extrapolated from a sample spread evenly over the index, so that\n\
             the command takes a few milliseconds at most. Ages are counted from the creation of\n\
             the segment that holds the item, so they may exceed the age of the item.",
        ),
        Section::Slabs => (
            "`stats slabs`",
            "The prefix of each key is the number of a size class, for every class that\n\
             has had items. Pages and chunks are the numbers that memcached would need for\n\
             the items stored now.",
        ),
        Section::SlabsTotal => ("`stats slabs`, last lines", "These keys have no prefix."),
        Section::Larder => ("`stats larder`", "Statistics that memcached does not have."),
    }
}

const HISTOGRAMS_HEAD: &str = "
## Histograms

`/metrics` of the admin listener also serves these families. Their buckets end at 1 µs, 2 µs, 4 µs
and so on, up to 1.048576 s. `stats reset` does not reset them.

| family | meaning | labels |
|---|---|---|
";

const HEAD: &str = "\
<!-- Generated from crates/stats/src/table/mod.rs. Change a row there, then run
     `LARDER_BLESS=1 cargo test -p larder-stats`. -->

# Statistics

A counter starts at 0 and is reset to 0 by `stats reset`. A gauge is the current value. A constant
is a key that dashboards for memcached expect and whose value never changes in Larder. A key marked
\"with\" an option is omitted if the option is off.

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
            "docs/stats.md differs from the table; run LARDER_BLESS=1 cargo test -p larder-stats",
        );
    }
}
