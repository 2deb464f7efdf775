//! The rows of the table of statistics with the values of this server.

use larder::Report;
use larder_item::Epoch;
use larder_options::{LARDER_COMMIT, LARDER_VERSION};
use larder_protocol::{Frame, WIRE_VERSION, render};
use larder_stats::{Gauge, Section, Source};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::by_class::ByClass;
use super::shown::is_shown;
use crate::discovery::Discovery;
use crate::near::Near;
use crate::observe::census::Census;
use crate::observe::classes::PAGE_BYTES;
use crate::server::{self, Server};

/// Appends the number of items of each size.
pub(super) fn sizes(census: &Census, frame: &Frame<'_>, out: &mut Vec<u8>) {
    for (bytes, count) in census.sizes() {
        render::stat(out, bytes, count, frame);
    }
}

/// Appends the statistics of a section.
pub(super) fn section(server: &Server, section: Section, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let report = server.cache.report();
    for stat in section.rows().filter(|stat| is_shown(server, stat)) {
        match stat.source {
            Source::Counter(counter) => {
                render::stat(out, stat.name, server.counter(counter), frame);
            }
            Source::Gauge(gauge) => {
                render::stat(out, stat.name, gauge_text(server, &report, gauge), frame);
            }
            Source::TierGauge(gauge) => {
                let number = server.cache.tier().map_or(0, |tier| tier.gauge(gauge));
                render::stat(out, stat.name, number, frame);
            }
            Source::Constant(text) => render::stat(out, stat.name, text, frame),
            Source::ClassCounter(_) | Source::ClassGauge(_) => {}
        }
    }
}

/// Appends the statistics of the size classes, and their totals.
pub(super) fn slabs(server: &Server, census: &Census, frame: &Frame<'_>, out: &mut Vec<u8>) {
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

fn certificate_expiry_secs(server: &Server) -> u64 {
    server.access.certificates.as_ref().and_then(|of| of.expiry_secs()).unwrap_or(0)
}

fn near_state(server: &Server) -> &'static str {
    server.near.as_ref().map_or("", |near| near.state_name())
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
        Gauge::UptimeSecs => {
            u64::from(now.saturating_sub(server.life.started) + Epoch::FIRST_SECOND)
        }
        Gauge::TimeSecs => server.cache.epoch().unix_of(now).unsigned_abs(),
        Gauge::ConnectionCountMax => options.connection_count_max as u64,
        Gauge::DescriptorsReserved => server::descriptors_reserved(options) as u64,
        Gauge::MemoryBytesMax => server.cache.memory_limit(),
        Gauge::MemoryFollowed => u64::from(server.memory.is_followed()),
        Gauge::MemoryBoundBytes => server.memory.bound_bytes(),
        Gauge::Accepting => u64::from(server.connections.is_accepting()),
        Gauge::WorkerCount => options.worker_count as u64,
        Gauge::CertificatesAgeSecs => {
            server.access.certificates.as_ref().map_or(0, |certificates| certificates.age_secs())
        }
        Gauge::CertificateExpirySecs => certificate_expiry_secs(server),
        Gauge::NearState => return near_state(server).to_owned(),
        Gauge::NearOrigins => of_near(server, |near| near.origins().len() as u64),
        Gauge::NearOriginsUnreachable => origins_in(server, "unreachable"),
        Gauge::NearOriginsPassing => origins_in(server, "passes"),
        Gauge::NearOriginsLate => of_near(server, |near| near.late_count() as u64),
        Gauge::NearOriginsTimed => origins_in(server, "timed"),
        Gauge::NearStaleMaxMs => of_near(server, |near| near.stale_max().as_millis() as u64),
        Gauge::NearFresh => of_near(server, |near| near.fresh_count() as u64),
        Gauge::NearListedBytes => of_near(server, |near| near.listed_bytes() as u64),
        Gauge::NearListedBytesMax => options.listed_bytes(),
        Gauge::ClusterNodes => of_cluster(server, |of| of.list().map_or(0, |of| of.count() as u64)),
        Gauge::ClusterVersion => of_cluster(server, |of| of.list().map_or(0, |of| of.version())),
        Gauge::ClusterStale => of_cluster(server, |of| u64::from(of.is_stale())),
        Gauge::WarmPhase => server.warming.progress().0 as u64,
        Gauge::WarmStored => server.warming.progress().1.stored,
        Gauge::WarmRefused => server.warming.progress().1.refused,
        Gauge::WarmUndone => server.warming.progress().1.undone,
        Gauge::Followers => server.followers.count() as u64,
        Gauge::OutputBudgetBytes => server.connections.budget.bytes_max(),
        Gauge::OutputBudgetUsedBytes => server.connections.budget.held_bytes(),
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
        // Only `slabs` shows this row, after it has taken a census.
        Gauge::ActiveClasses => {
            ByClass { census: &server.upkeep.censuses.at_once(), server }.active_count()
        }
    };
    number.to_string()
}

/// Returns the memory that is or was used. The system has committed it to the process. It is
/// rounded to pages, because memcached allocates whole pages.
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

/// Returns a number of a near cache; 0 if this server owns its items.
fn of_near(server: &Server, number: impl FnOnce(&Near) -> u64) -> u64 {
    server.near.as_ref().map_or(0, |near| number(near))
}

/// Returns a number of the servers that clients discover; 0 if clients cannot discover servers.
fn of_cluster(server: &Server, number: impl FnOnce(&Discovery) -> u64) -> u64 {
    server.discovery.as_ref().map_or(0, |discovery| number(discovery))
}

/// Returns the number of origins of a near cache that are in this state.
fn origins_in(server: &Server, state: &str) -> u64 {
    let origins = server.near.as_ref().map(|near| near.origins()).unwrap_or_default();
    origins.iter().filter(|origin| origin.state_name() == state).count() as u64
}
