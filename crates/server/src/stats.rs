//! The answers of `stats`: the rows of the tables with the values of this server.

mod by_class;
mod connections;

use std::os::fd::RawFd;
use std::sync::atomic::Ordering::Relaxed;

use larder::Report;
use larder_item::{Deadline, Epoch};
use larder_options::AnswersAs;
use larder_protocol::{ClientError, Frame, Response, StatsSection, WIRE_VERSION, render, text};
use larder_stats::{Condition, Gauge, Section, Source, Stat};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::certificates::Certificates;
use crate::classes::{ItemSize, PAGE_BYTES};
use crate::{Server, limits};
use by_class::Census;

/// Appends the statistics of a section. `asker` is the descriptor of the connection that asks.
pub(crate) fn answer(
    server: &Server,
    section: StatsSection,
    asker: RawFd,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
) -> Response {
    match section {
        StatsSection::General => rows(server, Section::General, frame, out),
        StatsSection::Items => Census::take(server).show(server, Section::Items, frame, out),
        StatsSection::Slabs => slabs(server, frame, out),
        StatsSection::Connections => connections::show(server, asker, frame, out),
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
        StatsSection::Sizes => sizes(server, frame, out),
        StatsSection::CacheDump { class, items_max } => {
            if !server.options.dump {
                return ClientError::DumpNotAllowed.into();
            }
            if let Ok(class) = u8::try_from(class) {
                dump(server, class, items_max, out);
            }
        }
        StatsSection::Reset => {
            server.reset_counters();
            server.prefixes.reset();
            return Response::Reset;
        }
    }
    Response::EndOfStats
}

fn sizes(server: &Server, frame: &Frame<'_>, out: &mut Vec<u8>) {
    if !server.options.track_sizes {
        return render::stat(out, "sizes_status", "disabled", frame);
    }
    for (bytes, count) in by_class::sizes(server) {
        render::stat(out, bytes, count, frame);
    }
}

/// Lists live items of a class, among those that it gets to see.
fn dump(server: &Server, class: u8, items_max: u32, out: &mut Vec<u8>) {
    let epoch = server.cache.epoch();
    let mut items_left = if items_max == 0 { u32::MAX } else { items_max };
    let bytes_max = out.len() + DUMP_BYTES_MAX;
    let mut looks_left = DUMP_LOOKS_MAX;
    server.cache.dump(|item| {
        looks_left -= 1;
        if server.classes.class_of(ItemSize::new(item.key.len(), &item.meta)) != class {
            return looks_left > 0;
        }
        let exptime = match item.meta.deadline {
            Deadline::NEVER => 0,
            Deadline(second) => epoch.unix_of(second),
        };
        text::render::dumped_item(out, &item.key, item.meta.value_bytes, exptime);
        items_left -= 1;
        items_left > 0 && looks_left > 0 && out.len() < bytes_max
    });
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

fn slabs(server: &Server, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let census = Census::take(server);
    census.show(server, Section::Slabs, frame, out);
    for stat in Section::SlabsTotal.rows() {
        let value = match stat.source {
            Source::Gauge(Gauge::ActiveClasses) => census.active_count(server),
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

/// The value of a gauge.
fn gauge_text(server: &Server, report: &Report, gauge: Gauge) -> String {
    let options = &server.options;
    let now = server.cache.now();
    let number = match gauge {
        Gauge::Version => return WIRE_VERSION.to_owned(),
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
        // Only `slabs` asks, and has counted.
        Gauge::ActiveClasses => Census::take(server).active_count(server),
    };
    number.to_string()
}

/// Memory that holds something, or did: the system has given it to the process. In whole pages, as memcached takes
/// it.
fn memory_used(report: &Report) -> u64 {
    (report.segments_used * report.segment_bytes).next_multiple_of(u64::from(PAGE_BYTES))
}

/// The part of it that holds nothing.
fn pages_free(report: &Report) -> u64 {
    let in_use = report.segments.saturating_sub(report.segments_free);
    report.segments_used.saturating_sub(in_use) * report.segment_bytes / u64::from(PAGE_BYTES)
}

/// The processor time of the process, in user mode and in the kernel.
fn usage() -> (String, String) {
    let text = |time: TimeVal| format!("{}.{:06}", time.tv_sec(), time.tv_usec());
    getrusage(UsageWho::RUSAGE_SELF)
        .map(|usage| (text(usage.user_time()), text(usage.system_time())))
        .unwrap_or_else(|_| ("0.000000".to_owned(), "0.000000".to_owned()))
}

/// Slots of an index group, for memcached's measure of the index.
const SLOTS_PER_GROUP: u64 = 15;

/// memcached shows no more in one dump.
const DUMP_BYTES_MAX: usize = 2 * 1024 * 1024;

/// So many items are looked at for it: the worker serves nobody else meanwhile.
const DUMP_LOOKS_MAX: u32 = 30_000;
