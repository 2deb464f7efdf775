//! The responses of `stats`: the rows of the tables with the values of this server.

mod by_class;
mod connections;
mod gather;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use larder::Report;
use larder_item::Epoch;
use larder_options::{AnswersAs, LARDER_COMMIT, LARDER_VERSION};
use larder_protocol::{ClientError, Frame, Response, StatsSection, WIRE_VERSION, render};
use larder_stats::{Condition, Gauge, Section, Source, Stat};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::admin::census::Census;
use crate::admin::classes::PAGE_BYTES;
use crate::process::limits;
use crate::server::Server;
use crate::tls::certificates::Certificates;
use by_class::ByClass;
pub(crate) use connections::ConnectionList;
use gather::Counted;
pub(crate) use gather::Gathering;

/// The result of a request for statistics.
pub(crate) enum Answer {
    /// The response is complete.
    Done(Response),
    /// The rest of the response is gathered in slices.
    Gather(Box<Gathering>),
}

/// Appends the statistics of a section. Connections are listed by [`ConnectionList`] instead.
pub(crate) fn answer(
    server: &Arc<Server>,
    section: StatsSection,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
) -> Answer {
    let gathering = match section {
        StatsSection::Items => Gathering::census(server, Counted::Items),
        StatsSection::Slabs => Gathering::census(server, Counted::Slabs),
        StatsSection::Sizes if server.options.track_sizes => {
            Gathering::census(server, Counted::Sizes)
        }
        StatsSection::CacheDump { .. } if !server.options.dump => {
            return Answer::Done(ClientError::DumpNotAllowed.into());
        }
        StatsSection::CacheDump { class, items_max } => match u8::try_from(class) {
            Ok(class) => Gathering::keys(server, class, items_max),
            Err(_) => return Answer::Done(Response::EndOfStats),
        },
        section => return Answer::Done(at_once(server, section, frame, out)),
    };
    let mut gathering = Box::new(gathering);
    match gathering.step(frame, out) {
        true => Answer::Done(Response::EndOfStats),
        false => Answer::Gather(gathering),
    }
}

/// Appends the statistics of a section that needs no visit of items.
fn at_once(
    server: &Server,
    section: StatsSection,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
) -> Response {
    match section {
        StatsSection::General => rows(server, Section::General, frame, out),
        StatsSection::Connections => {}
        StatsSection::Larder => rows(server, Section::Larder, frame, out),
        StatsSection::Settings => {
            let mut options = server.options.clone();
            options.verbosity = server.log.verbosity();
            options.memory_bytes = server.cache.memory_limit();
            options.tuning = server.tuning().clone();
            options.tuning.detail = server.log.counts_prefixes();
            options.lru_crawler = server.crawler.is_enabled();
            for (name, text) in larder_options::settings(&options) {
                render::stat(out, name, text, frame);
            }
        }
        StatsSection::Sizes => render::stat(out, "sizes_status", "disabled", frame),
        StatsSection::Items | StatsSection::Slabs | StatsSection::CacheDump { .. } => {}
        StatsSection::Reset => {
            server.reset_counters();
            server.prefixes.reset();
            return Response::Reset;
        }
    }
    Response::EndOfStats
}

fn show_sizes(census: &Census, frame: &Frame<'_>, out: &mut Vec<u8>) {
    for (bytes, count) in census.sizes() {
        render::stat(out, bytes, count, frame);
    }
}

fn rows(server: &Server, section: Section, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let report = server.cache.report();
    for stat in section.rows().filter(|stat| is_shown(server, stat)) {
        match stat.source {
            Source::Counter(counter) => {
                render::stat(out, stat.name, server.counter(counter), frame);
            }
            Source::Gauge(gauge) => {
                render::stat(out, stat.name, gauge_text(server, &report, gauge), frame);
            }
            Source::Constant(text) => render::stat(out, stat.name, text, frame),
            Source::ClassCounter(_) | Source::ClassGauge(_) => {}
        }
    }
}

fn slabs(server: &Server, census: &Census, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let by_class = ByClass { census, server };
    by_class.show(Section::Slabs, frame, out);
    for stat in Section::SlabsTotal.rows() {
        let value = match stat.source {
            Source::Gauge(Gauge::ActiveClasses) => by_class.active_count(),
            _ => memory_used(&server.cache.report()),
        };
        render::stat(out, stat.name, value, frame);
    }
}

fn is_shown(server: &Server, stat: &Stat) -> bool {
    let options = &server.options;
    stat.conditions.iter().all(|condition| match condition {
        Condition::MaxconnsFast => options.maxconns_fast,
        Condition::IdleTimeout => options.idle_timeout_secs > 0,
        Condition::Tls => server.certificates.is_some(),
        Condition::TlsSessions => {
            server.certificates.as_ref().is_some_and(Certificates::has_sessions)
        }
        Condition::SlabReassign => options.slab_reassign,
        Condition::LruCrawler => server.crawler.is_enabled(),
        Condition::LruMaintainer => options.lru_maintainer,
        Condition::TemporaryTtl => options.tuning.temporary_ttl_secs.is_some(),
        Condition::Answers45 => options.answers_as == AnswersAs::V1_6_45,
        Condition::Answers18 => options.answers_as == AnswersAs::V1_6_18,
    })
}

/// Returns the value of a gauge.
fn gauge_text(server: &Server, report: &Report, gauge: Gauge) -> String {
    let options = &server.options;
    let now = server.cache.now();
    let number = match gauge {
        Gauge::Version => return WIRE_VERSION.to_owned(),
        Gauge::LarderVersion => return LARDER_VERSION.to_owned(),
        Gauge::LarderCommit => return LARDER_COMMIT.to_owned(),
        Gauge::RusageUser => return usage().0,
        Gauge::RusageSystem => return usage().1,
        Gauge::Pid => u64::from(std::process::id()),
        Gauge::UptimeSecs => u64::from(now.saturating_sub(server.started) + Epoch::FIRST_SECOND),
        Gauge::TimeSecs => server.cache.epoch().unix_of(now).unsigned_abs(),
        Gauge::ConnectionCountMax => options.connection_count_max as u64,
        Gauge::DescriptorsReserved => limits::descriptors_reserved(options) as u64,
        Gauge::MemoryBytesMax => server.cache.memory_limit(),
        Gauge::Accepting => u64::from(server.accepting.load(Relaxed)),
        Gauge::WorkerCount => options.worker_count as u64,
        Gauge::CertificatesAgeSecs => {
            server.certificates.as_ref().map_or(0, Certificates::age_secs)
        }
        Gauge::IndexPower => u64::from((report.groups * SLOTS_PER_GROUP).ilog2()),
        Gauge::BytesLive => report.live_bytes,
        Gauge::ItemsCurrent => report.items,
        Gauge::IndexBytes => report.index_bytes,
        Gauge::SegmentsFree => report.segments_free,
        Gauge::SegmentBytes => report.segment_bytes,
        Gauge::SegmentCount => report.segments,
        Gauge::PagesFree => pages_free(report),
        Gauge::Emptying => u64::from(report.segments_emptying > 0),
        Gauge::MemoryBytes => memory_used(report),
        Gauge::SegmentsIndex => report.segments_index,
        Gauge::SegmentsItems => report.segments_items,
        Gauge::SegmentsSmall => report.segments_small,
        Gauge::SegmentsGhost => report.segments_ghost,
        Gauge::SegmentsPinned => report.segments_pinned,
        Gauge::LivePercent => report.live_percent(),
        Gauge::EvictionAgeSecs => report.eviction_age_secs,
        Gauge::GroupCount => report.groups,
        Gauge::GroupOverflowCount => report.overflow_groups,
        // Only `slabs` shows it, after taking a census.
        Gauge::ActiveClasses => {
            ByClass { census: &server.censuses.at_once(), server }.active_count()
        }
    };
    number.to_string()
}

/// Returns the memory that is or was used, which the system has committed to the process, in whole
/// pages as memcached allocates it.
fn memory_used(report: &Report) -> u64 {
    (report.segments_used * report.segment_bytes).next_multiple_of(u64::from(PAGE_BYTES))
}

/// Returns the free part of that memory, in pages.
fn pages_free(report: &Report) -> u64 {
    let in_use = report.segments.saturating_sub(report.segments_free);
    report.segments_used.saturating_sub(in_use) * report.segment_bytes / u64::from(PAGE_BYTES)
}

/// Returns the processor time of the process, in user mode and in the kernel.
fn usage() -> (String, String) {
    let text = |time: TimeVal| format!("{}.{:06}", time.tv_sec(), time.tv_usec());
    getrusage(UsageWho::RUSAGE_SELF)
        .map(|usage| (text(usage.user_time()), text(usage.system_time())))
        .unwrap_or_else(|_| ("0.000000".to_owned(), "0.000000".to_owned()))
}

/// Slots per group, for memcached's measure of the index.
const SLOTS_PER_GROUP: u64 = 15;
