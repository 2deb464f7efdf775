//! `larder bench`.
//!
//! ```text
//! options ─▶ Plan (measure) ─▶ Load, one a thread ─▶ Tally, Series ─▶ report: text, JSON, html
//!                               │      schedule: when
//!                               │      ask: what (draw, sizes), in which protocol (dialect)
//!                               └▶ Pipeline: Channel (plain, tls, datagrams), what waits (pending)
//! ```
//!
//! Files in reading order: [`options`], [`sizes`], [`draw`]; [`measure`], [`load`], [`schedule`]; [`ask`],
//! [`dialect`], [`pipeline`], [`opener`], [`channel`], [`tls`], [`login`], [`datagrams`], [`pending`]; [`tally`], [`series`], [`effort`],
//! [`stop`], [`pin`]; [`live`], [`report`], [`json`], [`html`], [`plot`], [`units`]; [`compare`] runs several
//! servers in turn.

mod ask;
mod channel;
mod compare;
mod datagrams;
mod dialect;
mod draw;
mod effort;
mod html;
mod json;
mod live;
mod load;
mod login;
mod measure;
mod opener;
mod options;
mod pending;
mod pin;
mod pipeline;
mod plot;
mod report;
mod schedule;
mod series;
mod sizes;
mod stop;
mod tally;
mod tls;
mod units;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::outcome::Outcome;
use live::Live;
use measure::Plan;
pub(crate) use options::Arguments;
use options::Verb;
use report::Report;
use stop::Stop;

/// Runs `larder bench`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    if let Some(Verb::Compare(arguments)) = &arguments.verb {
        return compare::run(arguments);
    }
    let load = &arguments.load;
    load.check()?;
    let stop = Stop::on_signals(false)?;
    let plan = Plan::new(load, &stop, None)?;
    if load.insecure {
        eprintln!(
            "larder: warning: --insecure accepts any certificate: whoever answers may be anybody"
        );
    }
    let page = arguments.html.as_deref().map(create).transpose()?;
    let mut live = Live::new("");
    let at = || format!("bench at {}", load.server.server);
    live.say("storing all keys");
    plan.store_keys().with_context(at)?;
    let measured = plan.measure(&mut live).with_context(at)?;
    let report = Report::new(load, &measured, stop.is_asked());
    let mut output = std::io::stdout();
    match arguments.json {
        true => writeln!(output, "{}", report.json())?,
        false => write!(output, "{}", report.text())?,
    }
    if let Some(mut page) = page {
        page.write_all(html::page(&report).as_bytes()).context("cannot write the report")?;
    }
    if let Some(reason) = &measured.tally.failed {
        return Err(plan.failure(reason)).with_context(at);
    }
    Ok(if measured.tally.is_sound() { Outcome::Done } else { Outcome::Missed })
}

/// Before anything is measured: that it cannot be written should not be said after an hour.
fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}
