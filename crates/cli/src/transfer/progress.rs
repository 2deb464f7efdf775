//! The progress that the user sees during a transfer, and the rate limit.

use std::io::{IsTerminal, stderr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use larder_loadgen::argument::counted;

/// Reports the progress on stderr: a bar on a terminal, otherwise a line each second.
#[derive(Debug)]
pub(crate) struct Progress {
    verb: &'static str,
    started: Instant,
    /// The time of the last update.
    shown: Instant,
    /// `None` if stderr is not a terminal.
    bar: Option<ProgressBar>,
    is_quiet: bool,
}

/// The part of the work that is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub(crate) done: usize,
    pub(crate) total: usize,
}

impl Progress {
    /// Begins a transfer. `total` is the value of `at` in [`Progress::show`] at the end, if known.
    pub(crate) fn begin(verb: &'static str, total: Option<u64>, is_quiet: bool) -> Self {
        let is_shown = !is_quiet && stderr().is_terminal();
        let bar = is_shown.then(|| {
            let (bar, template) = match total {
                Some(total) => {
                    (ProgressBar::new(total), "[{bar:30}] {percent:>3} %, {eta} left  {msg}")
                }
                None => (ProgressBar::no_length(), "{spinner} {msg}"),
            };
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            let style = ProgressStyle::with_template(template).expect("the template is valid");
            bar.set_style(style.progress_chars("=> "));
            bar
        });
        let now = Instant::now();
        Self { verb, started: now, shown: now, bar, is_quiet }
    }

    /// Shows the progress if an update is due. `at` is the position relative to the total.
    pub(crate) fn show(&mut self, at: u64, items: u64, bytes: u64) {
        let period = Duration::from_millis(if self.bar.is_some() { 200 } else { 1000 });
        if self.is_quiet || self.shown.elapsed() < period {
            return;
        }
        self.shown = Instant::now();
        let text = self.text(items, bytes);
        match &self.bar {
            Some(bar) => {
                bar.set_position(at);
                bar.set_message(text);
            }
            None => eprintln!("larder: {text}"),
        }
    }

    /// Same as [`Self::show`], but with a total that was not known at the beginning.
    pub(crate) fn show_part(&mut self, part: Part, items: u64, bytes: u64) {
        self.bar.iter().for_each(|bar| bar.set_length(part.total as u64));
        self.show(part.done as u64, items, bytes);
    }

    /// Prints a line above the bar.
    pub(crate) fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("larder: {line}")),
            None => eprintln!("larder: {line}"),
        }
    }

    /// Removes the bar.
    pub(crate) fn clear(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Removes the bar and prints the last line.
    pub(crate) fn end(self, items: u64, bytes: u64, rest: &str) {
        let text = self.text(items, bytes);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if !self.is_quiet {
            eprintln!("larder: {text}{rest}");
        }
    }

    fn text(&self, items: u64, bytes: u64) -> String {
        let secs = self.started.elapsed().as_secs_f64();
        let per_second = |amount: f64| amount / secs.max(0.001);
        format!(
            "{} {}, {:.1} MB, in {secs:.1} s: {:.0} items/s, {:.1} MB/s",
            counted(items, "item"),
            self.verb,
            bytes as f64 / 1e6,
            per_second(items as f64),
            per_second(bytes as f64 / 1e6)
        )
    }
}

/// Limits the rate of items. Allows bursts of at most a tenth of a second.
#[derive(Debug)]
pub(crate) struct Pace {
    items_per_sec: Option<u32>,
    due: Instant,
}

impl Pace {
    /// Creates a pace of at most `items_per_sec`; `None` means no limit.
    pub(crate) fn new(items_per_sec: Option<u32>) -> Self {
        Self { items_per_sec, due: Instant::now() }
    }

    /// True if the rate is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.items_per_sec.is_some()
    }

    /// Returns how many items may be requested together.
    pub(crate) fn batch_max(&self, most: usize) -> usize {
        let of_rate = |rate: u32| (rate as usize / 10).clamp(1, most);
        self.items_per_sec.map_or(most, of_rate)
    }

    /// Waits until `items` more are due. Unused time does not accumulate.
    pub(crate) fn wait(&mut self, items: usize) {
        let Some(rate) = self.items_per_sec else { return };
        sleep(self.due.saturating_duration_since(Instant::now()));
        self.due = self.due.max(Instant::now()) + Duration::from_secs(1) * items as u32 / rate;
    }
}
