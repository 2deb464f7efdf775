//! The tables of `larder top`, as text. A *sample* is the state of a server at one time, and a
//! *board* is everything that is shown of the last samples.

use std::collections::VecDeque;
use std::fmt::Write;

use serde_json::Value;

use super::change::Change;
use super::latency::Latency;
use super::memory::Map;
use super::sample::Sample;
use crate::admin::json::shown_key;
use crate::units;

/// The text to show: tables of the last sample and of its difference from the sample before.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) title: String,
    /// The title for narrow screens.
    pub(super) short_title: String,
    /// The state of the server: `serving`, `draining`.
    pub(super) state: String,
    pub(super) is_ready: bool,
    pub(super) tables: Vec<Table>,
    pub(super) map: Map,
    /// Requests per second, the oldest first.
    pub(super) history: VecDeque<u64>,
    last: Option<Sample>,
    /// The histograms of the last minute, all of one process.
    latencies: VecDeque<Latency>,
}

/// Rows under a title. The first cell of a row is its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) kind: Kind,
    pub(super) title: &'static str,
    /// The headings of the columns. A column without a heading has an empty cell.
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// Shown in place of the rows if the table is empty.
    note: &'static str,
}

/// The tables that a board can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Summary,
    Requests,
    Latency,
    Memory,
    Evictions,
    Disk,
    Near,
    Origins,
    Followers,
    Connections,
    HotByRate,
    HotByBytes,
}

impl Board {
    /// Shows a sample.
    pub(super) fn show(&mut self, now: Sample) {
        if self.last.as_ref().is_some_and(|last| last.pid() != now.pid()) {
            self.history.clear();
            self.latencies.clear();
        }
        let change = Change::between(self.last.as_ref(), &now);
        (self.state, self.is_ready) = state(&now);
        (self.title, self.short_title) = titles(&now);
        self.map = Map::of(&now.status);
        if let Some(rate) = change.rate(REQUESTS) {
            self.history.push_back(rate.round() as u64);
            let surplus = self.history.len().saturating_sub(HISTORY_MAX);
            self.history.drain(..surplus);
        }
        self.latencies.extend(Latency::of(&now.status));
        let surplus = self.latencies.len().saturating_sub(LATENCIES_MAX);
        self.latencies.drain(..surplus);
        self.tables = vec![summary(&change), requests(&change)];
        self.tables.extend(latency(&self.latencies));
        self.tables.extend([memory(&change), evictions(&change)]);
        self.tables.extend(disk(&change, &now));
        self.tables.extend(near(&change, &now));
        self.tables.extend(origins(&now));
        self.tables.extend(followers(&change));
        self.tables.push(connections(&change, &now));
        self.tables.extend(hot_tables(&now.hot));
        self.last = Some(now);
    }

    /// Returns a table; `None` if there is nothing to show in it.
    pub(super) fn table(&self, kind: Kind) -> Option<&Table> {
        self.tables.iter().find(|table| table.kind == kind)
    }

    /// Returns the tables as lines.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.title, self.state);
        for table in &self.tables {
            let _ = write!(text, "\n{}\n", table.title);
            for line in table.lines() {
                let _ = writeln!(text, "  {}", line.trim_end());
            }
        }
        text
    }
}

impl Table {
    /// Returns the rows with their columns aligned: the names to the left, numbers to the right.
    /// Keys are names in the last column.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.rows.is_empty() {
            return vec![self.note.to_owned()];
        }
        let head: Vec<String> = self.head.iter().map(|word| (*word).to_owned()).collect();
        let has_head = head.iter().any(|word| !word.is_empty());
        let all: Vec<&Vec<String>> =
            has_head.then_some(&head).into_iter().chain(&self.rows).collect();
        let width = |column: usize| {
            let cells = all.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let is_hot = matches!(self.kind, Kind::HotByRate | Kind::HotByBytes);
        let line = |row: &&Vec<String>| {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let is_name = if is_hot { column + 1 == widths.len() } else { column == 0 };
                let space = if column == 0 { "" } else { "  " };
                let _ = match is_name {
                    true => write!(line, "{space}{cell:width$}"),
                    false => write!(line, "{space}{cell:>width$}"),
                };
            }
            line
        };
        all.iter().map(line).collect()
    }
}

/// Returns the title, and a shorter title whose longest part is last.
fn titles(sample: &Sample) -> (String, String) {
    let of = |part: &str, name: &str| match &sample.status[part][name] {
        Value::String(text) => text.escape_default().to_string(),
        // A commit id that consists of digits is parsed as a number.
        Value::Number(number) => number.to_string(),
        _ => UNKNOWN.to_owned(),
    };
    let uptime = sample.status["stats"]["uptime"].as_f64();
    let uptime = shown(uptime, units::duration);
    let (version, commit) = (of("larder", "larder_version"), of("larder", "larder_commit"));
    let (pid, address) = (of("stats", "pid"), &sample.address);
    (
        format!("larderd {version} ({commit}), process {pid} at {address}, up {uptime}"),
        format!("larderd {version}, up {uptime}, process {pid} at {address}"),
    )
}

/// Returns the text of `/ready` or the error of a failed disk, and true if the server is ready and
/// its disk works.
fn state(sample: &Sample) -> (String, bool) {
    let has_failed = sample.status["larder"]["tier_failed"] == 1;
    if let Some(trouble) = sample.status["tier"]["trouble"].as_str().filter(|_| has_failed) {
        return (format!("the disk has failed: {}", trouble.escape_default()), false);
    }
    let reasons = sample.ready["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
    let reasons: Vec<_> = reasons
        .iter()
        .filter_map(Value::as_str)
        .map(|reason| reason.escape_default().to_string())
        .collect();
    match reasons.is_empty() {
        true => ("serving".to_owned(), true),
        false => (reasons.join(", "), false),
    }
}

fn shown(number: Option<f64>, unit: impl Fn(f64) -> String) -> String {
    number.filter(|number| number.is_finite()).map_or_else(|| UNKNOWN.to_owned(), unit)
}

fn count(number: Option<f64>) -> String {
    shown(number, units::count)
}

fn bytes(number: Option<f64>) -> String {
    shown(number, units::bytes)
}

fn percent(part: Option<f64>, whole: Option<f64>) -> String {
    let share = part.zip(whole).filter(|(_, whole)| *whole > 0.0);
    shown(share.map(|(part, whole)| 100.0 * part / whole), |share| format!("{share:.1} %"))
}

/// Returns a table of names and their values.
fn pairs(kind: Kind, title: &'static str, rows: Vec<(&str, String)>) -> Table {
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    Table { kind, title, head: vec!["", ""], rows, note: "" }
}

fn summary(change: &Change<'_>) -> Table {
    let total = |name| change.total(name);
    let rows = vec![
        ("requests per second", count(change.rate(REQUESTS))),
        ("hit ratio", percent(change.grown("get_hits"), change.grown("cmd_get"))),
        ("hit ratio since start", percent(total("get_hits"), total("cmd_get"))),
        ("items", count(total("curr_items"))),
        ("item bytes", format!("{} of {}", bytes(total("bytes")), bytes(total("limit_maxbytes")))),
        ("received per second", bytes(change.rate(&["bytes_read"]))),
        ("sent per second", bytes(change.rate(&["bytes_written"]))),
    ];
    pairs(Kind::Summary, "Summary", rows)
}

fn requests(change: &Change<'_>) -> Table {
    let row = |(name, all, hits): &(&str, &[&str], &[&str])| {
        let share = match hits.is_empty() {
            true => String::new(),
            false => percent(change.grown_all(hits), change.grown_all(all)),
        };
        vec![(*name).to_owned(), count(change.rate(all)), share, count(change.totals(all))]
    };
    let head = vec!["command", "per second", "hits", "total"];
    let rows = COMMANDS.iter().map(row).collect();
    Table { kind: Kind::Requests, title: "Requests", head, rows, note: "" }
}

fn latency(latencies: &VecDeque<Latency>) -> Option<Table> {
    let (first, now) = (latencies.front()?, latencies.back()?);
    let time = |bound: Option<Option<f64>>| match bound {
        Some(Some(secs)) => format!("≤ {}", units::duration(secs)),
        Some(None) => "> 1 s".to_owned(),
        None => UNKNOWN.to_owned(),
    };
    let rows = now.since(first, &[0.5, 0.99, 0.999, 1.0]).into_iter();
    let rows = rows.map(|(name, bounds)| {
        std::iter::once(name.to_owned()).chain(bounds.into_iter().map(time)).collect()
    });
    let head = vec!["", "median", "99 %", "99.9 %", "slowest"];
    let rows = rows.collect();
    Some(Table {
        kind: Kind::Latency,
        title: "Time of requests, last minute",
        head,
        rows,
        note: "",
    })
}

fn memory(change: &Change<'_>) -> Table {
    let total = |name| change.total(name);
    let segments = format!("{} of {}", count(total("segments")), bytes(total("segment_bytes")));
    let rows = vec![
        ("segments", segments),
        ("with items", count(total("segments_items"))),
        ("of the small pool", count(total("segments_small"))),
        ("live", shown(total("live_percent"), |live| format!("{live:.0} %"))),
        ("index", count(total("segments_index"))),
        ("ghost", count(total("segments_ghost"))),
        ("free", count(total("segments_free"))),
        ("pinned by readers", count(total("segments_pinned"))),
    ];
    pairs(Kind::Memory, "Memory", rows)
}

fn evictions(change: &Change<'_>) -> Table {
    let row = |(title, name): &(&str, &str)| {
        vec![(*title).to_owned(), count(change.rate(&[name])), count(change.total(name))]
    };
    let mut rows: Vec<_> = EVICTIONS.iter().map(row).collect();
    let evicted = change.grown("evictions").filter(|evicted| *evicted > 0.0);
    let age = change.grown("evicted_age_secs").zip(evicted).map(|(secs, items)| secs / items);
    let all = change.total("eviction_age_secs");
    let (now, all) = (shown(age, units::duration), shown(all, units::duration));
    rows.push(vec!["age when evicted".to_owned(), now, all]);
    let head = vec!["", "per second", "total"];
    Table { kind: Kind::Evictions, title: "Evictions", head, rows, note: "" }
}

/// Returns the table of a disk tier; `None` without a disk tier.
fn disk(change: &Change<'_>, now: &Sample) -> Option<Table> {
    let tier = &now.status["tier"];
    let mode = tier["mode"].as_str()?.escape_default().to_string();
    let durability = tier["durability"].as_str().unwrap_or(UNKNOWN);
    let durability = durability.escape_default().to_string();
    let total = |name| change.total(name);
    let of = |part, whole| match total(whole) {
        Some(whole) => format!("{} of {}", bytes(total(part)), bytes(Some(whole))),
        None => bytes(total(part)),
    };
    let rows = vec![
        ("mode", mode),
        ("durability", durability),
        ("items", count(total("tier_items"))),
        ("size of the log", bytes(total("tier_size_bytes"))),
        ("live bytes", of("tier_live_bytes", "tier_live_bytes_max")),
        ("index in memory", of("tier_index_bytes", "tier_index_bytes_max")),
        ("not on the disk yet", bytes(total("tier_dirty_bytes"))),
        ("written per second", bytes(change.rate(&["tier_written_bytes"]))),
        ("syncs per second", count(change.rate(&["tier_syncs"]))),
        ("reads per second", count(change.rate(&["tier_reads"]))),
        ("items evicted to it", count(total("tier_items_evicted"))),
        ("items dropped", count(total("tier_items_dropped"))),
        ("items unreadable", count(total("tier_items_unreadable"))),
    ];
    Some(pairs(Kind::Disk, "Disk", rows))
}

/// Returns the table of a near cache; `None` if the server owns its items.
fn near(change: &Change<'_>, now: &Sample) -> Option<Table> {
    let state = now.status["larder"]["near_state"].as_str()?.escape_default().to_string();
    let (fresh, all) = (change.total("near_fresh"), change.total("near_origins"));
    let is_fresh = fresh == all;
    let state = match &*state {
        "mixed" => format!("{} of {} usable", count(fresh), count(all)),
        "copies" if is_fresh => "reports its changes".to_owned(),
        "copies" => "late: copies unused".to_owned(),
        "passes" => "reports no changes".to_owned(),
        "timed" => "no changes: copies expire".to_owned(),
        _ => state,
    };
    // A read whose item was fetched ahead finds a copy, but no earlier request has left it.
    let (hits, ahead) = (change.grown("get_hits"), change.grown("near_ahead"));
    let hits = hits.zip(ahead).map(|(hits, ahead)| (hits - ahead).max(0.0));
    let rows = vec![
        (if all > Some(1.0) { "origins" } else { "origin" }, state),
        ("hit ratio", percent(hits, change.grown("cmd_get"))),
        ("fetched per second", count(change.rate(&["near_fetches"]))),
        ("passed to it per second", count(change.rate(&["near_passed"]))),
        ("changes per second", count(change.rate(&["near_changes"]))),
        ("copies dropped per second", count(change.rate(&["near_dropped"]))),
        ("failed requests", count(change.totals(&["near_unreachable", "near_unanswered"]))),
        ("streams lost", count(change.total("near_streams_lost"))),
    ];
    Some(pairs(Kind::Near, "Near cache", rows))
}

/// Returns the table of the origins of a near cache; `None` unless there are several.
fn origins(now: &Sample) -> Option<Table> {
    let mut origins: Vec<&Value> = now.status["origins"].as_array()?.iter().collect();
    if origins.len() < 2 {
        return None;
    }
    // Those with trouble first.
    origins.sort_by_key(|origin| origin["fresh"].as_bool());
    let row = |origin: &&Value| {
        let text =
            |name: &str| origin[name].as_str().unwrap_or(UNKNOWN).escape_default().to_string();
        let number = |name: &str| origin[name].as_f64();
        let failed = number("unreachable").zip(number("unanswered"));
        vec![
            text("address"),
            text("state"),
            percent(number("share"), Some(1.0)),
            count(number("fetches")),
            count(failed.map(|(unreachable, unanswered)| unreachable + unanswered)),
        ]
    };
    let rows = origins.iter().take(ORIGINS_MAX).map(row).collect();
    let head = vec!["origin", "state", "keys", "fetched", "failed"];
    Some(Table { kind: Kind::Origins, title: "Origins", head, rows, note: "" })
}

/// Returns the table of the near caches that follow the server; `None` without followers.
fn followers(change: &Change<'_>) -> Option<Table> {
    let number = change.total("followers").filter(|number| *number > 0.0)?;
    let rows = vec![
        ("near caches", count(Some(number))),
        ("items fetched per second", count(change.rate(&["follower_fetches"]))),
        ("changes sent per second", count(change.rate(&["follower_changes"]))),
        ("flushes sent", count(change.total("follower_flushes"))),
        ("because one was slow", count(change.total("follower_overflows"))),
    ];
    Some(pairs(Kind::Followers, "Followers", rows))
}

fn connections(change: &Change<'_>, now: &Sample) -> Table {
    let total = |name| change.total(name);
    let open =
        format!("{} of {}", count(total("curr_connections")), count(total("max_connections")));
    let processor = change.rate(&["rusage_user", "rusage_system"]);
    let silence = now.status["silent_secs"].as_f64();
    let rows = vec![
        ("open connections", open),
        ("accepted per second", count(change.rate(&["total_connections"]))),
        ("refused at the limit", count(total("rejected_connections"))),
        ("workers", count(total("threads"))),
        ("longest worker silence", shown(silence, units::duration)),
        ("processor time / second", shown(processor, units::duration)),
    ];
    pairs(Kind::Connections, "Connections and workers", rows)
}

fn hot_tables(hot: &Result<Value, &'static str>) -> Vec<Table> {
    let table = |kind, title, rows, note| {
        let head = vec!["per second", "±", "key"];
        Table { kind, title, head, rows, note }
    };
    let hot = match hot {
        Ok(hot) => hot,
        Err(reason) => return vec![table(Kind::HotByRate, "Hot keys", Vec::new(), *reason)],
    };
    let rows = |list: &str, columns: [Column; 2]| -> Vec<Vec<String>> {
        let rows = hot[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let row = |row: &Value| {
            let mut cells: Vec<_> =
                columns.iter().map(|(name, unit)| shown(row[*name].as_f64(), unit)).collect();
            cells.push(shown_key(row).unwrap_or_else(|_| UNKNOWN.to_owned()));
            cells
        };
        rows.iter().take(HOT_KEYS_MAX).map(row).collect()
    };
    let by_rate = rows("by_rate", [("per_sec", units::count), ("error_per_sec", units::count)]);
    let by_bytes =
        rows("by_bytes", [("bytes_per_sec", units::bytes), ("error_bytes_per_sec", units::bytes)]);
    vec![
        table(Kind::HotByRate, "Hot keys by requests", by_rate, NO_HOT_KEYS),
        table(Kind::HotByBytes, "Hot keys by bytes", by_bytes, NO_HOT_KEYS),
    ]
}

/// The most origins that are shown.
const ORIGINS_MAX: usize = 16;

/// The member of a hot key that a column shows, and the function that formats it.
type Column = (&'static str, fn(f64) -> String);

/// A command: its name, the counters of its requests, and those of its hits.
const COMMANDS: &[(&str, &[&str], &[&str])] = &[
    ("get", &["cmd_get"], &["get_hits"]),
    ("set", &["cmd_set"], &[]),
    ("touch", &["cmd_touch"], &["touch_hits"]),
    ("delete", &["delete_hits", "delete_misses"], &["delete_hits"]),
    ("incr", &["incr_hits", "incr_misses"], &["incr_hits"]),
    ("decr", &["decr_hits", "decr_misses"], &["decr_hits"]),
    ("cas", &["cas_hits", "cas_misses", "cas_badval"], &["cas_hits"]),
    ("meta", &["cmd_meta"], &[]),
    ("flush", &["cmd_flush"], &[]),
];

/// The counters of requests. Each request increments exactly one of them.
const REQUESTS: &[&str] = &[
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
];

const EVICTIONS: &[(&str, &str)] = &[
    ("evicted", "evictions"),
    ("evicted before any read", "evicted_unfetched"),
    ("expired", "reclaimed"),
    ("missed after eviction", "ghost_hits"),
    ("refused, no memory", "store_no_memory"),
];

/// Shown for an unknown number.
const UNKNOWN: &str = "–";

const NO_HOT_KEYS: &str = "none yet: few requests were sampled recently";

/// The length of the history in seconds. Each second has one column, and the widest terminals have
/// this many.
const HISTORY_MAX: usize = 600;

/// Percentiles cover the last minute.
const LATENCIES_MAX: usize = 61;

/// The maximum number of hot keys in a list. The server does not send more.
const HOT_KEYS_MAX: usize = 20;
