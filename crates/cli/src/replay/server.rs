//! Replays a trace on a server.

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::text::client::{Reply, request};
use larder_protocol::{Command, StatsSection, Store};

use crate::connection::{Connection, unexpected};
use crate::exptime::exptime_of;
use crate::replay::Arguments;
use crate::replay::key::Key;
use crate::replay::pace::Pace;
use crate::replay::play::{Counts, Target, play};
use crate::replay::report::{Report, ratio};
use crate::stats;
use larder_loadgen::argument::Quoted;
use larder_loadgen::connect::dialer::Dialer;
use larder_loadgen::trace::Trace;

/// Replays a trace on a server, in real time, and compares its counters with those of the replay.
///
/// # Errors
/// The server is not empty, or a connection fails.
pub(crate) fn replay(trace: &Trace, dialer: &Dialer, arguments: &Arguments) -> Result<Report> {
    let mut connection = Connection::open(dialer)?;
    let address = dialer.address();
    if arguments.flush {
        flush(&mut connection)?;
    }
    let before = Statistics::ask(&mut connection)?;
    ensure!(
        arguments.flush || before.number("curr_items")? == 0,
        "{address} holds items, which would distort the counts; --flush removes them"
    );
    let limit = before.number("limit_maxbytes")?;
    if let Some(memory) = arguments.memory.filter(|memory| *memory != limit) {
        eprintln!("larder: {address} has {limit} bytes of memory; --memory {memory} has no effect");
    }
    if trace.has_ttls() {
        eprintln!("larder: TTLs of the trace run in real time on a server: few items will expire");
    }

    let counts = play_on(dialer, trace, arguments)?;
    let after = Statistics::ask(&mut connection)?;
    let mut report = Report::of(&counts, trace.request_count());
    let counted = |name| Ok::<_, anyhow::Error>(after.number(name)? - before.number(name)?);
    report.push("evictions", counted("evictions")?);
    report.push("items", after.number("curr_items")?);
    let item_memory_bytes = match after.number("segments_items") {
        Ok(segments) => {
            report.push("bytes_relocated", counted("bytes_relocated")?);
            segments * after.number("segment_bytes")?
        }
        // memcached reports no segments. Its items may use all of `limit`.
        Err(_) => limit,
    };
    report.push("live_share", ratio(after.number("bytes")?, item_memory_bytes));
    report.push("memory_bytes", limit);
    let mut agree = true;
    for (name, line, expected) in [
        ("cmd_get", "server_cmd_get", counts.gets),
        ("get_hits", "server_get_hits", counts.hits),
        ("get_misses", "server_get_misses", counts.misses()),
        ("cmd_set", "server_cmd_set", counts.sets - counts.sets_refused),
    ] {
        let counted = counted(name)?;
        report.push(line, counted);
        agree &= counted == expected;
    }
    report.push_check("agree", agree);
    Ok(report)
}

/// Distributes the connections over the threads. Each thread has at least one.
fn play_on(dialer: &Dialer, trace: &Trace, arguments: &Arguments) -> Result<Counts> {
    let thread_count = arguments.threads.min(arguments.connections);
    let pace = Pace::new(thread_count);
    std::thread::scope(|scope| {
        let start = |thread| {
            let walker = pace.walker(thread);
            let numbers = (thread..arguments.connections).step_by(thread_count as usize);
            scope.spawn(move || {
                let connections = numbers.map(|_| Connection::open(dialer));
                let mut target = Connections {
                    connections: connections.collect::<Result<_>>()?,
                    request: Vec::new(),
                };
                play(trace, &walker, &mut target)
            })
        };
        let threads: Vec<_> = (0..thread_count).map(start).collect();
        let mut counts = Counts::default();
        for thread in threads {
            counts += thread.join().expect("the replaying thread does not panic")?;
        }
        Ok(counts)
    })
}

/// The connections of one thread.
struct Connections {
    connections: Vec<Connection>,
    /// The last request, kept to reuse its memory.
    request: Vec<u8>,
}

impl Connections {
    /// Sends the request for this key and waits for the answer.
    fn ask(&mut self, key: &Key) -> Result<&mut Connection> {
        let index = key.connection(self.connections.len());
        let connection = &mut self.connections[index];
        connection.send(&self.request)?;
        Ok(connection)
    }
}

impl Target for Connections {
    /// A server has its own clock.
    fn begin_second(&mut self, _second: u32) {}

    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool> {
        self.request.clear();
        request::get(&mut self.request, &[key.text()], false, None)?;
        let connection = self.ask(key)?;
        match connection.reply()? {
            Reply::End => return Ok(false),
            Reply::Value(hit) => {
                ensure!(hit.key == key.text(), "the server answered with an item of another key");
                value.clear();
                value.extend_from_slice(hit.value);
            }
            other => return Err(unexpected(other)),
        }
        match connection.reply()? {
            Reply::End => Ok(true),
            other => Err(unexpected(other)),
        }
    }

    fn set(&mut self, key: &Key, value: &[u8], ttl_secs: u32) -> Result<bool> {
        let exptime = if ttl_secs == 0 { 0 } else { exptime_of(ttl_secs) };
        let head = Store { key: key.text(), exptime, value_bytes: value.len(), ..Store::PLAIN };
        self.request.clear();
        request::store(&mut self.request, &head, value, false)?;
        match self.ask(key)?.reply()? {
            Reply::Stored => Ok(true),
            Reply::Error(line) if line.starts_with(b"SERVER_ERROR") => Ok(false),
            other => Err(unexpected(other)),
        }
    }
}

fn flush(connection: &mut Connection) -> Result<()> {
    let mut asked = Vec::new();
    request::command(&mut asked, &Command::FlushAll { exptime: 0 }, false)?;
    connection.send(&asked)?;
    match connection.reply()? {
        Reply::Ok => Ok(()),
        other => Err(unexpected(other)).context("flush_all"),
    }
}

/// The statistics of a server at one time.
struct Statistics(Vec<stats::Line>);

impl Statistics {
    fn ask(connection: &mut Connection) -> Result<Self> {
        let mut lines = stats::ask(connection, StatsSection::General).context("stats")?;
        lines.extend(stats::ask(connection, StatsSection::Slabs).context("stats slabs")?);
        // memcached responds to this section with an error.
        lines.extend(stats::ask(connection, StatsSection::Larder).unwrap_or_default());
        Ok(Self(lines))
    }

    fn number(&self, name: &str) -> Result<u64> {
        let Some(line) = self.0.iter().find(|line| line.name == name) else {
            bail!("the server has no statistic {name}");
        };
        line.value.parse().with_context(|| {
            format!("the statistic {name} is {}, expected a number", Quoted::text(&line.value))
        })
    }
}
