//! Standard error, to which all threads write whole lines.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic::{self, Location, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, fmt, thread};

use larder_options::{LogFormat, LogOptions, LogTime};
use rustix::fs::fstat;
use rustix::stdio;
use serde_json::{Map, Value};

use super::level::Level;
use super::limit::{Limits, Suppressed};
use super::line::{Form, Line};
use crate::clock::{Rfc3339, monotonic_us};

/// Sets the form of the lines. The first call counts. Lines before it have the default form.
pub(crate) fn begin(options: &LogOptions) {
    let is_journal = is_journal();
    let has_time = match options.time {
        LogTime::Auto => !is_journal,
        LogTime::Yes => true,
        LogTime::No => false,
    };
    let _ = FORM.set(Form { format: options.format, has_time, is_journal });
    if options.format == LogFormat::Json {
        panic::set_hook(Box::new(log_panic));
    }
}

/// Logs a panic as one line. The hook of the standard library writes several lines of text.
fn log_panic(panicked: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let mut message = format!("larderd: thread {name}: {panicked}");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        message += &format!("\n{backtrace}");
    }
    // Not limited, because this thread may have panicked while it held the limits.
    write(Level::Error, &message, &Map::new());
}

/// Limits the lines of each kind from now on, or no longer. A server limits them while it serves,
/// so that no line of its start and its stop is lost.
pub(crate) fn limit(is_limited: bool) {
    IS_LIMITED.store(is_limited, Relaxed);
    if !is_limited {
        report_suppressed(i64::MAX);
    }
}

/// Reports lines that were suppressed, once their period is over. Takes a few nanoseconds if there
/// are none.
pub(crate) fn tick() {
    if HAS_SUPPRESSED.load(Relaxed) {
        report_suppressed(monotonic_us());
    }
}

/// Logs a line, unless there were too many lines from the same place in the code.
#[track_caller]
pub(super) fn write_limited(
    level: Level,
    words: fmt::Arguments<'_>,
    members: impl FnOnce() -> Map<String, Value>,
) {
    if !IS_LIMITED.load(Relaxed) {
        return write(level, &words.to_string(), &members());
    }
    let now_us = monotonic_us();
    if HAS_SUPPRESSED.load(Relaxed) {
        report_suppressed(now_us);
    }
    let admitted = limits().admit(Location::caller(), level, now_us, || words.to_string());
    match admitted {
        Some(message) => write(level, &message, &members()),
        None => HAS_SUPPRESSED.store(true, Relaxed),
    }
}

/// Writes a line in one call, so that the lines of several threads do not mix. Ignores a failure,
/// because standard error may be closed.
pub(super) fn write(level: Level, message: &str, members: &Map<String, Value>) {
    let default = Form { format: LogFormat::Text, has_time: true, is_journal: false };
    let form = FORM.get().copied().unwrap_or(default);
    let line = form.write(&Line { at: Rfc3339::now(), level, message, members });
    let _ = io::stderr().write_all(line.as_bytes());
}

fn report_suppressed(now_us: i64) {
    // Cleared first: a line that is suppressed after this sets it again.
    HAS_SUPPRESSED.store(false, Relaxed);
    let (over, has_more) = {
        let mut limits = limits();
        (limits.take(now_us), limits.has_suppressed())
    };
    if has_more {
        HAS_SUPPRESSED.store(true, Relaxed);
    }
    for Suppressed { level, lines, example } in over {
        let members = Map::from_iter([("suppressed".to_owned(), lines.into())]);
        let message = format!("larderd: {lines} more lines like this were suppressed: {example}");
        write(level, &message, &members);
    }
}

/// True if standard error is a stream to the journal of systemd, which names the device and the
/// inode of the stream in this variable. A file to which a shell has redirected standard error
/// since then has another inode.
fn is_journal() -> bool {
    let Some(named) = env::var("JOURNAL_STREAM").ok() else { return false };
    let Some((device, inode)) = named.split_once(':') else { return false };
    fstat(stdio::stderr()).is_ok_and(|stat| {
        (device.parse(), inode.parse()) == (Ok::<u64, _>(stat.st_dev), Ok::<u64, _>(stat.st_ino))
    })
}

fn limits() -> MutexGuard<'static, Limits> {
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

static FORM: OnceLock<Form> = OnceLock::new();
static LIMITS: Mutex<Limits> = Mutex::new(Limits::new());
static IS_LIMITED: AtomicBool = AtomicBool::new(false);
/// True if lines were suppressed and not reported.
static HAS_SUPPRESSED: AtomicBool = AtomicBool::new(false);
