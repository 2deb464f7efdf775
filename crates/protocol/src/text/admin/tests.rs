//! The accepted forms and abbreviations of administrative commands.

use super::*;
use crate::text::Parser;
use crate::{Bad, Frame, Response};

/// Returns the command of a line. The command must consume the complete line.
fn admin(line: &str) -> Admin {
    match Parser::default().next(line.as_bytes()) {
        Parsed::Command { command: Command::Admin(admin), frame, consumed } => {
            let quiet = line.ends_with(" noreply\r\n");
            assert_eq!((frame, consumed), (Frame::Text { quiet }, line.len()), "{line:?}");
            admin
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

/// Returns the error of a refused line.
fn refused(line: &str) -> ClientError {
    match Parser::default().next(line.as_bytes()) {
        Parsed::Bad(Bad { error: Some(Response::ClientError(error)), consumed, close, .. }) => {
            assert_eq!((consumed, close), (line.len(), false), "{line:?}");
            error
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

const UNKNOWN: ClientError = ClientError::UnknownCommand;
const FORMAT: ClientError = ClientError::BadFormat;

#[test]
fn slabs_commands_are_parsed() {
    for (line, expected) in [
        ("slabs reassign 1 2\r\n", Admin::ReassignSlabs(Some((1, 2)))),
        ("slabs r -1 0\r\n", Admin::ReassignSlabs(Some((-1, 0)))),
        ("slabs reassign x 2\r\n", Admin::ReassignSlabs(None)),
        ("slabs automove 2\r\n", Admin::Tune(Knob::SlabAutomove(2))),
        ("slabs a 0 noreply\r\n", Admin::Tune(Knob::SlabAutomove(0))),
        (
            "slabs automove ratio 0.5\r\n",
            Admin::Tune(Knob::SlabAutomoveRatio(Factor::new(0.5).unwrap())),
        ),
        (
            "slabs automove f 1e-3\r\n",
            Admin::Tune(Knob::SlabAutomoveFreeratio(Factor::new(0.001).unwrap())),
        ),
        ("slabs automove window 3\r\n", Admin::Tune(Knob::SlabAutomoveWindow(3))),
        ("slabs automove window 1800\r\n", Admin::Tune(Knob::SlabAutomoveWindow(1800))),
    ] {
        assert_eq!(admin(line), expected, "{line:?}");
    }
    for (line, error) in [
        ("slabs\r\n", UNKNOWN),
        ("slabs reassign 1\r\n", UNKNOWN),
        ("slabs reassign 1 2 3\r\n", UNKNOWN),
        ("slabs reassigned 1 2\r\n", UNKNOWN),
        ("slabs automove\r\n", UNKNOWN),
        ("slabs automove 3\r\n", UNKNOWN),
        ("slabs automove -1\r\n", FORMAT),
        ("slabs automove often\r\n", FORMAT),
        ("slabs automove ratio\r\n", UNKNOWN),
        ("slabs automove ratio nan\r\n", UNKNOWN),
        ("slabs automove ratio 1e400\r\n", UNKNOWN),
        ("slabs automove window\r\n", UNKNOWN),
        ("slabs automove window 2\r\n", Refusal::BadWindow.into()),
        ("slabs automove window 1801\r\n", Refusal::BadWindow.into()),
    ] {
        assert_eq!(refused(line), error, "{line:?}");
    }
}

#[test]
fn lru_commands_are_parsed() {
    let half = Factor::new(0.5).unwrap();
    let pools = Knob::LruPools { hot_pct: 30, warm_pct: 50, hot_factor: half, warm_factor: half };
    for (line, expected) in [
        ("lru tune 30 50 0.5 .5\r\n", pools),
        ("lru t 30 50 0.5 0.5 noreply\r\n", pools),
        ("lru mode flat\r\n", Knob::LruSegmented(false)),
        ("lru m s\r\n", Knob::LruSegmented(true)),
        ("lru temp_ttl 60\r\n", Knob::TemporaryTtl(Some(60))),
        ("lru te -1\r\n", Knob::TemporaryTtl(None)),
    ] {
        assert_eq!(admin(line), Admin::Tune(expected), "{line:?}");
    }
    for (line, error) in [
        ("lru tune 10 20 0.5\r\n", UNKNOWN),
        ("lru tune 10 20 x 0.5\r\n", UNKNOWN),
        ("lru tune 41 40 1 1\r\n", Refusal::PercentsTooHigh.into()),
        ("lru tune 4294967295 4294967295 1 1\r\n", Refusal::PercentsTooHigh.into()),
        ("lru tune 10 20 0 1\r\n", Refusal::FactorsTooLow.into()),
        ("lru tune 10 20 1 -1\r\n", Refusal::FactorsTooLow.into()),
        ("lru mode steep\r\n", UNKNOWN),
        ("lru temp_ttl long\r\n", UNKNOWN),
        ("lru\r\n", FORMAT),
        ("lru nothing\r\n", UNKNOWN),
    ] {
        assert_eq!(refused(line), error, "{line:?}");
    }
}

/// CVE-2019-11596 of memcached, which read a missing argument after these commands.
#[test]
fn cve_2019_11596_lru_without_its_last_argument() {
    for line in ["lru mode\r\n", "lru temp_ttl\r\n", "lru tune\r\n", "lru mode  \r\n"] {
        assert_eq!(refused(line), UNKNOWN, "{line:?}");
    }
}

#[test]
fn lru_crawler_commands_are_parsed() {
    let classes = |classes| Ok(CrawlScope::Classes(classes));
    for (line, expected) in [
        ("lru_crawler enable\r\n", Admin::EnableCrawler(true)),
        ("lru_crawler e\r\n", Admin::EnableCrawler(true)),
        ("lru_crawler d\r\n", Admin::EnableCrawler(false)),
        ("lru_crawler sleep 1000000\r\n", Admin::Tune(Knob::CrawlerSleep(1_000_000))),
        ("lru_crawler t 7\r\n", Admin::Tune(Knob::CrawlerTocrawl(7))),
        ("lru_crawler crawl all\r\n", Admin::Crawl(Ok(CrawlScope::All))),
        ("lru_crawler c 1,63,\r\n", Admin::Crawl(classes(1 << 1 | 1 << 63))),
        ("lru_crawler crawl ,\r\n", Admin::Crawl(Err(Refusal::NothingToCrawl))),
        ("lru_crawler metadump hash\r\n", Admin::Dump(DumpForm::Meta, Ok(CrawlScope::Hash))),
        ("lru_crawler m 5\r\n", Admin::Dump(DumpForm::Meta, classes(1 << 5))),
        ("lru_crawler mg all\r\n", Admin::Dump(DumpForm::Get, Ok(CrawlScope::All))),
    ] {
        assert_eq!(admin(line), expected, "{line:?}");
    }
    for word in ["0", "64", "1,64", "all,1", "-1", "al", "1,x", "99999999999999999999"] {
        let line = format!("lru_crawler crawl {word}\r\n");
        assert_eq!(admin(&line), Admin::Crawl(Err(Refusal::NoSuchCrawlClass)), "{line:?}");
    }
    for (line, error) in [
        ("lru_crawler\r\n", UNKNOWN),
        ("lru_crawler crawl\r\n", UNKNOWN),
        ("lru_crawler crawl 1 2\r\n", UNKNOWN),
        ("lru_crawler enable noreply\r\n", UNKNOWN),
        ("lru_crawler walk all\r\n", UNKNOWN),
        ("lru_crawler sleep\r\n", UNKNOWN),
        ("lru_crawler sleep x\r\n", FORMAT),
        ("lru_crawler tocrawl -1\r\n", FORMAT),
        ("lru_crawler sleep 1000001\r\n", Refusal::SleepTooLong.into()),
    ] {
        assert_eq!(refused(line), error, "{line:?}");
    }
}

#[test]
fn watch_topics_may_be_abbreviated() {
    for (line, expected) in [
        ("watch\r\n", Some(Topics::FETCHERS)),
        ("watch f\r\n", Some(Topics::FETCHERS)),
        ("watch mutations evictions\r\n", Some(Topics::MUTATIONS | Topics::EVICTIONS)),
        ("watch c d\r\n", Some(Topics::CONNEVENTS | Topics::DELETIONS)),
        ("watch sysevents proxyreqs rawcmds\r\n", Some(Topics::SILENT)),
        ("watch fetchers everything\r\n", None),
        ("watch fetchers noreply\r\n", None),
    ] {
        assert_eq!(admin(line), Admin::Watch(expected), "{line:?}");
    }
}

#[test]
fn stats_detail_needs_its_argument_in_full() {
    for (line, expected) in [
        ("stats detail on\r\n", Some(Detail::Count(true))),
        ("stats d off\r\n", Some(Detail::Count(false))),
        ("stats det dump\r\n", Some(Detail::Dump)),
        ("stats detail\r\n", None),
        ("stats detail d\r\n", None),
    ] {
        assert_eq!(admin(line), Admin::Detail(expected), "{line:?}");
    }
}

#[test]
fn debugtime_commands_are_parsed() {
    for (line, expected) in [
        ("debugtime 3\r\n", Some(ClockMove::By(3))),
        ("debugtime -3\r\n", Some(ClockMove::By(-3))),
        ("debugtime p\r\n", Some(ClockMove::Pause)),
        ("debugtime r\r\n", Some(ClockMove::Resume)),
        ("debugtime\r\n", None),
        ("debugtime soon\r\n", None),
    ] {
        assert_eq!(admin(line), Admin::DebugTime(expected), "{line:?}");
    }
}
