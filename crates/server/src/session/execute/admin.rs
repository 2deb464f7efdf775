//! Administrative commands.

use larder_item::KEY_BYTES_MAX;
use larder_options::AnswersAs;
use larder_protocol::admin::{Admin, CrawlScope, Detail, DumpForm, Knob, Refusal, Topics};
use larder_protocol::{ClientError, Frame, KillTarget, Response, ServerError, base64, render};
use larder_stats::Counter;

use super::{CommandResult, Executor, NO_CONNECTION};
use crate::observe::dump::Dump;
use crate::observe::watch::Watch;
use crate::stats::StatsResponse;
use crate::stop::Manner;

impl Executor {
    pub(super) fn admin(
        &self,
        admin: &Admin,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        let done = match *admin {
            Admin::ReassignSlabs(classes) => self.reassign_slabs(classes),
            Admin::Tune(knob) => self.tune(knob),
            Admin::EnableCrawler(enable) => self.enable_crawler(enable),
            Admin::Crawl(crawled) => self.crawl(crawled),
            Admin::Dump(form, crawled) => match self.dump(form, crawled) {
                Ok(dump) => return CommandResult::Dump(Box::new(dump)),
                Err(refusal) => Err(refusal.into()),
            },
            Admin::Watch(topics) => match self.watch(topics) {
                Ok(watch) => return CommandResult::Watch(Box::new(watch)),
                Err(error) => Err(error),
            },
            Admin::Detail(detail) => return self.detail(detail, frame, out),
            Admin::DebugTime(moved) => match (&self.server.life.warp, moved) {
                (Some(warp), Some(moved)) => {
                    warp.shift(moved, &self.cache);
                    Ok(())
                }
                _ => Err(ClientError::UnknownCommand),
            },
        };
        match done {
            Ok(()) => Response::Ok.into(),
            Err(error) => Response::from(error).into(),
        }
    }

    /// Larder's memory does not belong to classes, so no class has a spare page. Returns the error
    /// of memcached for a class that has only its last page.
    fn reassign_slabs(&self, classes: Option<(i32, i32)>) -> Result<(), ClientError> {
        if !self.server.options.slab_reassign {
            return Err(Refusal::ReassignDisabled.into());
        }
        let (from, to) = classes.ok_or(ClientError::BadFormat)?;
        let exists =
            |class: i32| (0..=i32::from(self.server.statistics.classes.last())).contains(&class);
        Err(if from == to {
            Refusal::SameSlabClass
        } else if exists(from) && exists(to) {
            Refusal::NoSparePage
        } else {
            Refusal::NoSuchSlabClass
        }
        .into())
    }

    fn tune(&self, knob: Knob) -> Result<(), ClientError> {
        let of_maintainer = matches!(knob, Knob::LruSegmented(_) | Knob::TemporaryTtl(_));
        if of_maintainer && !self.server.options.lru_maintainer {
            return Err(ClientError::UnknownCommand);
        }
        let mut tuning = self.server.tuning();
        match knob {
            Knob::SlabAutomove(level) => tuning.slab_automove = level,
            Knob::SlabAutomoveRatio(ratio) => tuning.slab_automove_ratio = ratio.get(),
            Knob::SlabAutomoveFreeratio(ratio) => tuning.slab_automove_freeratio = ratio.get(),
            Knob::SlabAutomoveWindow(secs) => tuning.slab_automove_window_secs = secs,
            Knob::LruSegmented(segmented) => tuning.lru_segmented = segmented,
            Knob::LruPools { hot_pct, warm_pct, hot_factor, warm_factor } => {
                tuning.hot_lru_pct = hot_pct;
                tuning.warm_lru_pct = warm_pct;
                tuning.hot_max_factor = hot_factor.get();
                tuning.warm_max_factor = warm_factor.get();
            }
            Knob::TemporaryTtl(secs) => tuning.temporary_ttl_secs = secs,
            Knob::CrawlerSleep(us) => tuning.lru_crawler_sleep_us = us,
            Knob::CrawlerTocrawl(items) => tuning.lru_crawler_tocrawl = items,
        }
        Ok(())
    }

    fn enable_crawler(&self, enable: bool) -> Result<(), ClientError> {
        let was_enabled = self.server.upkeep.crawler.enable(enable);
        if enable && was_enabled { Err(Refusal::CrawlerRuns.into()) } else { Ok(()) }
    }

    fn crawl(&self, crawled: Result<CrawlScope, Refusal>) -> Result<(), ClientError> {
        if !self.server.upkeep.crawler.is_enabled() {
            return Err(Refusal::CrawlerDisabled.into());
        }
        match crawled? {
            CrawlScope::Hash => return Err(Refusal::NoSuchCrawl.into()),
            crawled => self.server.upkeep.crawler.crawl(crawled)?,
        }
        self.counters.bump(Counter::CrawlerStarts);
        Ok(())
    }

    fn dump(&self, form: DumpForm, crawled: Result<CrawlScope, Refusal>) -> Result<Dump, Refusal> {
        if !self.server.upkeep.crawler.is_enabled() {
            return Err(Refusal::CrawlerDisabled);
        }
        if !self.server.options.dump {
            return Err(Refusal::DumpNotAllowed(form));
        }
        Ok(Dump::begin(&self.cache, &self.classes, &self.counters, form, crawled?))
    }

    /// Removes all keys with a prefix. The response contains the number of the removal.
    pub(super) fn delete_prefix(&self, prefix: &[u8], base64: bool, out: &mut Vec<u8>) -> Response {
        if self.asker.get() == NO_CONNECTION {
            return Refusal::CannotDeletePrefix.into();
        }
        let mut bytes = [0; KEY_BYTES_MAX];
        let prefix = match base64 {
            true if prefix.len().div_ceil(4) > KEY_BYTES_MAX.div_ceil(3) => {
                return Refusal::PrefixTooLong.into();
            }
            true => match base64::decode(prefix, &mut bytes) {
                Some(prefix) => prefix,
                None => return Refusal::BadPrefix.into(),
            },
            false => prefix,
        };
        match self.server.delete_prefix(prefix) {
            Ok(id) => {
                render::removal(out, id);
                Response::Shown
            }
            Err(refusal) => refusal.into(),
        }
    }

    pub(super) fn set_memory_limit(&self, mebibytes: u64) -> Response {
        match self.server.set_memory_limit(mebibytes) {
            Ok(()) => Response::Ok,
            Err(_) => ServerError::MemoryLimitFixed.into(),
        }
    }

    pub(super) fn shutdown(&self, graceful: bool) -> Response {
        if !self.server.options.shutdown {
            return match self.server.options.answers_as {
                AnswersAs::V1_6_45 => ServerError::ShutdownNotEnabled.into(),
                AnswersAs::V1_6_18 => ServerError::ShutdownNotEnabledOlder.into(),
            };
        }
        self.server.life.stop.request(if graceful { Manner::Graceful } else { Manner::Now });
        Response::Close
    }

    /// True if the start of a dump is acknowledged, which memcached 1.6.18 does not do.
    pub(crate) fn acknowledges_dumps(&self) -> bool {
        self.server.options.answers_as != AnswersAs::V1_6_18
    }

    /// Closes connections. The connection of the peer may be one of them.
    pub(super) fn kill(&self, target: KillTarget<'_>) -> Response {
        let table = &self.server.connections.table;
        let count = match target {
            KillTarget::Connection(number) => {
                i32::try_from(number).map_or(0, |descriptor| table.kill(descriptor))
            }
            KillTarget::User(name) => table.kill_user(name),
        };
        if count == 0 { Response::NotFound } else { Response::Ok }
    }

    fn watch(&self, topics: Option<Topics>) -> Result<Watch, ClientError> {
        if !self.server.options.watch {
            return Err(Refusal::WatchNotAllowed.into());
        }
        let topics = topics.ok_or(ClientError::UnknownCommand)?;
        let waker = self.waker().ok_or(Refusal::CannotWatch)?;
        Ok(Watch::begin(&self.server.watchers, topics, waker)?)
    }

    /// The binary protocol has a single statistic with the counts of all prefixes, in the format of
    /// the text protocol. It is one packet that begins with its length, so its length is limited.
    fn detail(
        &self,
        detail: Option<Detail>,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        if !self.server.options.dump {
            return Response::from(Refusal::DetailNotAllowed).into();
        }
        match detail {
            None => Response::from(Refusal::BadDetail).into(),
            Some(Detail::Count(on)) => {
                self.server.log.set_prefixes(on);
                Response::Ok.into()
            }
            Some(Detail::Dump) if matches!(frame, Frame::Binary(_)) => {
                let mut text = Vec::new();
                self.server.statistics.prefixes.dump(&mut None, BINARY_DETAIL_BYTES_MAX, &mut text);
                text.extend_from_slice(b"END\r\n");
                render::stat(out, "detailed", String::from_utf8_lossy(&text), frame);
                Response::EndOfStats.into()
            }
            Some(Detail::Dump) => {
                CommandResult::Gather(Box::new(StatsResponse::prefixes(&self.server)))
            }
        }
    }
}

impl From<ClientError> for CommandResult {
    fn from(error: ClientError) -> Self {
        Self::Done(error.into())
    }
}

/// Maximum length of the counts by prefix in the binary protocol, approximately.
const BINARY_DETAIL_BYTES_MAX: usize = 64 * 1024;
