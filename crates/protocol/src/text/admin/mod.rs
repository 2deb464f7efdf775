//! Parses the arguments of administrative commands.
//!
//! The words after a command's name may be abbreviated to any prefix; if several words match, the
//! first one wins.

use std::str;

use super::arguments::Arguments;
use crate::admin::{Admin, ClockMove, CrawlScope, Detail, DumpForm, Factor, Knob, Refusal, Topics};
use crate::command::Command;
use crate::number;
use crate::parsed::Parsed;
use crate::response::ClientError;

/// The words after the name of a line. This is enough for all commands without a list of keys.
type Rest<'a> = [Option<&'a [u8]>; 6];

impl<'a> Arguments<'a> {
    /// `slabs reassign <source> <target>`, `slabs automove …`
    pub(super) fn slabs(mut self) -> Parsed<'a> {
        match self.rest() {
            [Some(word), Some(source), Some(target), None, ..] if begins(word, "reassign") => {
                let classes = number::signed_32(source).zip(number::signed_32(target));
                self.admin(Admin::ReassignSlabs(classes), false)
            }
            [Some(word), Some(how), value, ..] if begins(word, "automove") => {
                let quiet = self.words.end_in_noreply();
                match automove(how, value) {
                    Ok(knob) => self.admin(Admin::Tune(knob), quiet),
                    Err(error) => self.refuse(error, quiet),
                }
            }
            _ => self.refuse(ClientError::UnknownCommand, false),
        }
    }

    /// `lru tune <hot> <warm> <hot factor> <warm factor>`, `lru mode <mode>`,
    /// `lru temp_ttl <seconds>`
    pub(super) fn lru(mut self) -> Parsed<'a> {
        let rest = self.rest();
        let quiet = self.words.end_in_noreply();
        let knob = match rest {
            [None, ..] => return self.refuse(ClientError::BadFormat, quiet),
            [Some(word), Some(a), Some(b), Some(c), Some(d), _] if begins(word, "tune") => {
                pools(a, b, c, d)
            }
            [Some(word), Some(mode), ..] if begins(word, "mode") => {
                pick(mode, &[("flat", false), ("segmented", true)])
                    .map(Knob::LruSegmented)
                    .ok_or(ClientError::UnknownCommand)
            }
            [Some(word), Some(secs), ..] if begins(word, "temp_ttl") => number::signed_32(secs)
                .map(|secs| Knob::TemporaryTtl(u32::try_from(secs).ok()))
                .ok_or(ClientError::UnknownCommand),
            _ => Err(ClientError::UnknownCommand),
        };
        match knob {
            Ok(knob) => self.admin(Admin::Tune(knob), quiet),
            Err(error) => self.refuse(error, quiet),
        }
    }

    /// `lru_crawler crawl|metadump|mgdump <classes>`, `tocrawl <items>`, `sleep <microseconds>`,
    /// `enable`, `disable`
    pub(super) fn lru_crawler(self) -> Parsed<'a> {
        let (word, argument) = match self.rest() {
            [Some(word), Some(argument), None, ..] => (word, argument),
            [Some(word), None, ..] => {
                return match pick(word, &[("enable", true), ("disable", false)]) {
                    Some(enable) => self.admin(Admin::EnableCrawler(enable), false),
                    None => self.refuse(ClientError::UnknownCommand, false),
                };
            }
            _ => return self.refuse(ClientError::UnknownCommand, false),
        };
        let count = number::unsigned_32(argument);
        let admin = match pick(word, CRAWLER_WORDS) {
            Some(CrawlerArgument::Crawl) => Ok(Admin::Crawl(crawled(argument))),
            Some(CrawlerArgument::Dump(form)) => Ok(Admin::Dump(form, crawled(argument))),
            Some(CrawlerArgument::Tocrawl) => count
                .map(|items| Admin::Tune(Knob::CrawlerTocrawl(items)))
                .ok_or(ClientError::BadFormat),
            Some(CrawlerArgument::Sleep) => match count {
                None => Err(ClientError::BadFormat),
                Some(0..=SLEEP_US_MAX) => Ok(Admin::Tune(Knob::CrawlerSleep(count.unwrap_or(0)))),
                Some(_) => Err(Refusal::SleepTooLong.into()),
            },
            None => Err(ClientError::UnknownCommand),
        };
        match admin {
            Ok(admin) => self.admin(admin, false),
            Err(error) => self.refuse(error, false),
        }
    }

    /// `watch [<topic>…]`
    pub(super) fn watch(mut self) -> Parsed<'a> {
        let mut topics = Some(Topics::NONE);
        let mut words = self.words.clone();
        for word in words.by_ref() {
            topics = topics.zip(pick(word, TOPICS)).map(|(all, topic)| all | topic);
        }
        if words.taken_count() == self.words.taken_count() {
            topics = Some(Topics::FETCHERS);
        }
        let quiet = self.words.end_in_noreply();
        self.admin(Admin::Watch(topics), quiet)
    }

    /// `stats detail on|off|dump`
    pub(super) fn detail(mut self) -> Parsed<'a> {
        let detail = match self.words.next() {
            Some(b"on") => Some(Detail::Count(true)),
            Some(b"off") => Some(Detail::Count(false)),
            Some(b"dump") => Some(Detail::Dump),
            _ => None,
        };
        self.admin(Admin::Detail(detail), false)
    }

    /// `debugtime <seconds>|p|r`
    pub(super) fn debug_time(mut self) -> Parsed<'a> {
        let moved = match self.words.next() {
            Some(b"p") => Some(ClockMove::Pause),
            Some(b"r") => Some(ClockMove::Resume),
            Some(secs) => number::signed_32(secs).map(|secs| ClockMove::By(i64::from(secs))),
            None => None,
        };
        self.admin(Admin::DebugTime(moved), false)
    }

    fn rest(&self) -> Rest<'a> {
        let mut words = self.words.clone();
        std::array::from_fn(|_| words.next())
    }

    fn admin(&self, admin: Admin, quiet: bool) -> Parsed<'a> {
        super::arguments::command(Command::Admin(admin), quiet, self.consumed)
    }
}

/// True if the word is an abbreviation of `name`.
fn begins(word: &[u8], name: &str) -> bool {
    name.as_bytes().starts_with(word)
}

/// Returns the meaning of the first name of which the word is an abbreviation.
fn pick<T: Copy>(word: &[u8], names: &[(&str, T)]) -> Option<T> {
    names.iter().find(|(name, _)| begins(word, name)).map(|(_, meant)| *meant)
}

/// `ratio|freeratio <factor>`, `window <seconds>`, `<level>`
fn automove(how: &[u8], value: Option<&[u8]>) -> Result<Knob, ClientError> {
    let ratio = |knob: fn(Factor) -> Knob| {
        value.and_then(factor).map(knob).ok_or(ClientError::UnknownCommand)
    };
    if begins(how, "ratio") {
        ratio(Knob::SlabAutomoveRatio)
    } else if begins(how, "freeratio") {
        ratio(Knob::SlabAutomoveFreeratio)
    } else if begins(how, "window") {
        match value.and_then(number::unsigned_32) {
            None => Err(ClientError::UnknownCommand),
            Some(secs @ 3..=1800) => Ok(Knob::SlabAutomoveWindow(secs)),
            Some(_) => Err(Refusal::BadWindow.into()),
        }
    } else {
        match number::unsigned_32(how) {
            None => Err(ClientError::BadFormat),
            Some(level @ 0..=2) => Ok(Knob::SlabAutomove(level as u8)),
            Some(_) => Err(ClientError::UnknownCommand),
        }
    }
}

fn pools(hot: &[u8], warm: &[u8], hot_age: &[u8], warm_age: &[u8]) -> Result<Knob, ClientError> {
    let (Some(hot_pct), Some(warm_pct), Some(hot_factor), Some(warm_factor)) =
        (number::unsigned_32(hot), number::unsigned_32(warm), factor(hot_age), factor(warm_age))
    else {
        return Err(ClientError::UnknownCommand);
    };
    if u64::from(hot_pct) + u64::from(warm_pct) > 80 {
        Err(Refusal::PercentsTooHigh.into())
    } else if hot_factor.get() <= 0.0 || warm_factor.get() <= 0.0 {
        Err(Refusal::FactorsTooLow.into())
    } else {
        Ok(Knob::LruPools { hot_pct, warm_pct, hot_factor, warm_factor })
    }
}

fn factor(word: &[u8]) -> Option<Factor> {
    Factor::new(str::from_utf8(word).ok()?.parse().ok()?)
}

/// Parses `all`, `hash`, or class numbers separated by commas.
fn crawled(word: &[u8]) -> Result<CrawlScope, Refusal> {
    match word {
        b"all" => return Ok(CrawlScope::All),
        b"hash" => return Ok(CrawlScope::Hash),
        _ => {}
    }
    let mut classes = 0;
    for id in word.split(|byte| *byte == b',').filter(|id| !id.is_empty()) {
        match number::unsigned_32(id) {
            Some(id @ 1..=63) => classes |= 1 << id,
            _ => return Err(Refusal::NoSuchCrawlClass),
        }
    }
    if classes == 0 { Err(Refusal::NothingToCrawl) } else { Ok(CrawlScope::Classes(classes)) }
}

/// A `lru_crawler` command that takes an argument.
#[derive(Clone, Copy)]
enum CrawlerArgument {
    Crawl,
    Dump(DumpForm),
    Sleep,
    Tocrawl,
}

/// In memcached's order: the first name of which the word is an abbreviation wins.
const CRAWLER_WORDS: &[(&str, CrawlerArgument)] = &[
    ("crawl", CrawlerArgument::Crawl),
    ("metadump", CrawlerArgument::Dump(DumpForm::Meta)),
    ("mgdump", CrawlerArgument::Dump(DumpForm::Get)),
    ("tocrawl", CrawlerArgument::Tocrawl),
    ("sleep", CrawlerArgument::Sleep),
];

/// In memcached's order: the first name of which the word is an abbreviation wins.
const TOPICS: &[(&str, Topics)] = &[
    ("rawcmds", Topics::SILENT),
    ("evictions", Topics::EVICTIONS),
    ("fetchers", Topics::FETCHERS),
    ("mutations", Topics::MUTATIONS),
    ("sysevents", Topics::SILENT),
    ("connevents", Topics::CONNEVENTS),
    ("proxyreqs", Topics::SILENT),
    ("proxyevents", Topics::SILENT),
    ("proxyuser", Topics::SILENT),
    ("deletions", Topics::DELETIONS),
];

/// The maximum sleep of the crawler between two items, in microseconds.
const SLEEP_US_MAX: u32 = 1_000_000;

#[cfg(test)]
mod tests;
