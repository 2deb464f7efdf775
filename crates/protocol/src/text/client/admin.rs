//! Writes administrative requests as bytes.

use std::fmt::Write;

use crate::admin::{Admin, ClockMove, CrawlScope, Detail, DumpForm, Knob, Topics};

/// Returns the line of an administrative command, without its end. Writes an invalid argument for
/// an argument that the parser has found invalid.
pub(super) fn line(admin: &Admin) -> String {
    match admin {
        Admin::ReassignSlabs(Some((from, to))) => format!("slabs reassign {from} {to}"),
        Admin::ReassignSlabs(None) => "slabs reassign - -".to_owned(),
        Admin::Tune(knob) => knob_line(*knob),
        Admin::EnableCrawler(true) => "lru_crawler enable".to_owned(),
        Admin::EnableCrawler(false) => "lru_crawler disable".to_owned(),
        Admin::Crawl(crawled) => format!("lru_crawler crawl {}", classes(crawled.ok())),
        Admin::Dump(DumpForm::Meta, crawled) => {
            format!("lru_crawler metadump {}", classes(crawled.ok()))
        }
        Admin::Dump(DumpForm::Get, crawled) => {
            format!("lru_crawler mgdump {}", classes(crawled.ok()))
        }
        Admin::Watch(topics) => watch(topics.unwrap_or_default()),
        Admin::Detail(Some(Detail::Count(true))) => "stats detail on".to_owned(),
        Admin::Detail(Some(Detail::Count(false))) => "stats detail off".to_owned(),
        Admin::Detail(Some(Detail::Dump)) => "stats detail dump".to_owned(),
        Admin::Detail(None) => "stats detail".to_owned(),
        Admin::DebugTime(Some(ClockMove::By(secs))) => format!("debugtime {secs}"),
        Admin::DebugTime(Some(ClockMove::Pause)) => "debugtime p".to_owned(),
        Admin::DebugTime(Some(ClockMove::Resume)) => "debugtime r".to_owned(),
        Admin::DebugTime(None) => "debugtime".to_owned(),
    }
}

fn knob_line(knob: Knob) -> String {
    match knob {
        Knob::SlabAutomove(level) => format!("slabs automove {level}"),
        Knob::SlabAutomoveRatio(ratio) => format!("slabs automove ratio {}", ratio.get()),
        Knob::SlabAutomoveFreeratio(ratio) => format!("slabs automove freeratio {}", ratio.get()),
        Knob::SlabAutomoveWindow(secs) => format!("slabs automove window {secs}"),
        Knob::LruSegmented(true) => "lru mode segmented".to_owned(),
        Knob::LruSegmented(false) => "lru mode flat".to_owned(),
        Knob::LruPools { hot_pct, warm_pct, hot_factor, warm_factor } => {
            format!("lru tune {hot_pct} {warm_pct} {} {}", hot_factor.get(), warm_factor.get())
        }
        Knob::TemporaryTtl(Some(secs)) => format!("lru temp_ttl {secs}"),
        Knob::TemporaryTtl(None) => "lru temp_ttl -1".to_owned(),
        Knob::CrawlerSleep(us) => format!("lru_crawler sleep {us}"),
        Knob::CrawlerTocrawl(items) => format!("lru_crawler tocrawl {items}"),
    }
}

fn classes(crawled: Option<CrawlScope>) -> String {
    match crawled {
        None => ",".to_owned(),
        Some(CrawlScope::All) => "all".to_owned(),
        Some(CrawlScope::Hash) => "hash".to_owned(),
        Some(CrawlScope::Classes(classes)) => {
            let ids = (1..64).filter(|id| classes >> id & 1 == 1);
            ids.map(|id: u32| id.to_string()).collect::<Vec<_>>().join(",")
        }
    }
}

fn watch(topics: Topics) -> String {
    let mut line = "watch".to_owned();
    for (topic, word) in [
        (Topics::FETCHERS, "fetchers"),
        (Topics::MUTATIONS, "mutations"),
        (Topics::EVICTIONS, "evictions"),
        (Topics::CONNEVENTS, "connevents"),
        (Topics::DELETIONS, "deletions"),
        (Topics::SILENT, "sysevents"),
    ] {
        if topics.meet(topic) {
            write!(line, " {word}").expect("writing to a String cannot fail");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Factor;
    use crate::command::Command;
    use crate::parsed::Parsed;
    use crate::text::Parser;

    #[test]
    fn administrative_commands_are_parsed_as_written() {
        let factor = |number| Factor::new(number).unwrap();
        for admin in [
            Admin::ReassignSlabs(Some((-1, 63))),
            Admin::ReassignSlabs(None),
            Admin::Tune(Knob::SlabAutomove(2)),
            Admin::Tune(Knob::SlabAutomoveRatio(factor(0.8))),
            Admin::Tune(Knob::SlabAutomoveFreeratio(factor(0.01))),
            Admin::Tune(Knob::SlabAutomoveWindow(3)),
            Admin::Tune(Knob::LruSegmented(true)),
            Admin::Tune(Knob::LruSegmented(false)),
            Admin::Tune(Knob::LruPools {
                hot_pct: 1,
                warm_pct: 2,
                hot_factor: factor(0.5),
                warm_factor: factor(2.0),
            }),
            Admin::Tune(Knob::TemporaryTtl(Some(7))),
            Admin::Tune(Knob::TemporaryTtl(None)),
            Admin::Tune(Knob::CrawlerSleep(1)),
            Admin::Tune(Knob::CrawlerTocrawl(2)),
            Admin::EnableCrawler(true),
            Admin::EnableCrawler(false),
            Admin::Crawl(Ok(CrawlScope::All)),
            Admin::Dump(DumpForm::Meta, Ok(CrawlScope::Hash)),
            Admin::Dump(DumpForm::Get, Ok(CrawlScope::Classes(1 << 63 | 1 << 1))),
            Admin::Watch(Some(Topics::FETCHERS | Topics::DELETIONS)),
            Admin::Watch(Some(Topics::OF_COMMANDS | Topics::SILENT)),
            Admin::Detail(Some(Detail::Count(true))),
            Admin::Detail(Some(Detail::Count(false))),
            Admin::Detail(Some(Detail::Dump)),
            Admin::Detail(None),
            Admin::DebugTime(Some(ClockMove::By(-5))),
            Admin::DebugTime(Some(ClockMove::Pause)),
            Admin::DebugTime(Some(ClockMove::Resume)),
            Admin::DebugTime(None),
        ] {
            let line = line(&admin) + "\r\n";
            let parsed = Parser::default().next(line.as_bytes());
            let Parsed::Command { command, .. } = parsed else { panic!("{line:?}: {parsed:?}") };
            assert_eq!(command, Command::Admin(admin), "{line:?}");
        }
    }
}
