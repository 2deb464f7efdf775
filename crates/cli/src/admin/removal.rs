//! `larder delete --prefix`.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write, stderr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hyper::Method;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use larder_loadgen::argument::{counted, were};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::client::{Ask, Client};
use super::json::{number, prefix_body, text, whole};
use crate::outcome::Outcome;

/// Removes the items whose keys begin with a prefix, and shows the progress.
pub(crate) fn run(client: &Client, prefix: &OsStr) -> Result<Outcome> {
    let is_interrupted = catch_signals()?;
    let mut begin = Ask::change(Method::POST, PATH);
    begin.body = Some(prefix_body(prefix.as_bytes()));
    let id = whole(&client.json(&begin)?, "id")?;
    let path = format!("{PATH}/{id}");
    let bar = stderr().is_terminal().then(bar);
    let ended = follow(client, &path, &is_interrupted, bar.as_ref());
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let ended = ended.with_context(|| format!("the removal {id} may still run"))?;
    report(&ended, is_interrupted.load(Ordering::Relaxed))
}

/// Waits for the end of the removal and returns its last state. A signal cancels the removal.
fn follow(
    client: &Client,
    path: &str,
    is_interrupted: &AtomicBool,
    bar: Option<&ProgressBar>,
) -> Result<Value> {
    let mut period = PERIOD_MIN;
    let mut is_cancelled = false;
    loop {
        let ask = if is_interrupted.load(Ordering::Relaxed) && !is_cancelled {
            is_cancelled = true;
            Ask::change(Method::DELETE, path)
        } else {
            Ask::get(path)
        };
        let state = client.json(&ask)?;
        if text(&state, "state")? != "running" {
            return Ok(state);
        }
        if let Some(bar) = bar {
            let removed = counted(whole(&state, "removed")?, "item");
            show_share(bar, number(&state, "progress")?, format!("{removed} removed"));
        }
        sleep(period);
        period = (period * 2).min(PERIOD_MAX);
    }
}

fn report(ended: &Value, is_interrupted: bool) -> Result<Outcome> {
    let (removed, secs) = (whole(ended, "removed")?, number(ended, "secs")?);
    match text(ended, "state")? {
        "done" => {
            writeln!(std::io::stdout(), "{} removed, in {secs:.1} s", counted(removed, "item"))?;
            Ok(Outcome::Done)
        }
        "cancelled" => {
            let by = if is_interrupted { "" } else { " by another command" };
            let removed = were(removed, "item");
            eprintln!("larder: cancelled{by}: {removed} removed, the others remain");
            Ok(Outcome::Missed)
        }
        "failed" => bail!(
            "the removal failed after {}: a process that shares the cache is suspended; end or \
             resume it, and repeat the removal",
            counted(removed, "item")
        ),
        other => bail!("the removal has an unknown state, {}", other.escape_default()),
    }
}

/// Returns a flag that the first signal sets. The second signal ends the tool.
pub(crate) fn catch_signals() -> Result<Arc<AtomicBool>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, is_interrupted.clone())?;
        flag::register(signal, is_interrupted.clone())?;
    }
    Ok(is_interrupted)
}

/// Shows the finished fraction, from 0 to 1, and a message after it.
pub(crate) fn show_share(bar: &ProgressBar, share: f64, message: String) {
    bar.set_position((share * BAR_STEPS as f64) as u64);
    bar.set_message(message);
}

/// Returns a progress bar on stderr.
pub(crate) fn bar() -> ProgressBar {
    let bar = ProgressBar::new(BAR_STEPS);
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let style = ProgressStyle::with_template("[{bar:30}] {percent:>3} %  {msg}");
    bar.set_style(style.expect("the template is valid").progress_chars("=> "));
    bar
}

const PATH: &str = "/api/v1/delete-prefix";

/// The number of steps of the progress bar.
const BAR_STEPS: u64 = 1000;

/// Time between the first two queries of the server: short, because most removals are short.
const PERIOD_MIN: Duration = Duration::from_millis(10);
const PERIOD_MAX: Duration = Duration::from_millis(160);
