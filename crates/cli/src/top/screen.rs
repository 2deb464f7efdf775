//! The terminal of `larder top`: its events, and how it ends.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, sleep};
use std::time::Instant;

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::is_raw_mode_enabled;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::PERIOD;
use super::board::Board;
use super::draw::{View, draw};
use super::sample::{Sample, Sampler};

/// An event while the screen is shown.
enum Event {
    /// A sample has arrived, or the attempt to take one failed.
    Sampled(Box<Result<Sample>>),
    /// The size of the terminal has changed.
    Resized,
    /// The user selects another view.
    Turned(Turn),
    /// The user ends the tool.
    Quit,
    /// A signal ends the tool.
    Signal(i32),
    /// A thread has ended that must run as long as the tool.
    Lost(&'static str),
}

/// The view that a key selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Another page of tables: the next page, or with -1 the previous one.
    Pages(isize),
    /// The hot keys, or the tables again.
    HotKeys,
}

/// Shows the server until the user ends it.
pub(super) fn run(sampler: Sampler, first: Sample) -> Result<()> {
    let (sender, events) = channel();
    // The signal handlers are installed before the terminal changes, so that every signal after
    // that restores the terminal.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let of_signals = sender.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            // The receiver is gone when the tool ends.
            let _ = of_signals.send(Event::Signal(signal));
        }
    });
    // This also restores the terminal after a panic of any thread.
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let of_samples = sender.clone();
    thread::spawn(move || take_samples(sampler, of_samples));
    thread::spawn(move || read_keys(&sender));
    let mut board = Board::default();
    board.show(first);
    let ended = show(&mut terminal, &mut board, &events);
    let shown = terminal.show_cursor();
    let restored = restore().and(shown);
    if let Some(signal) = ended? {
        // The caller learns by which signal the tool ended.
        emulate_default_handler(signal)?;
    }
    restored.context("cannot restore the terminal: use reset")
}

/// Restores the terminal, unless a panic of another thread has already restored it. Restoring it
/// twice would move the cursor back over the message of the panic.
fn restore() -> io::Result<()> {
    match is_raw_mode_enabled() {
        Ok(false) => Ok(()),
        Ok(true) | Err(_) => ratatui::try_restore(),
    }
}

/// Draws after each event until an event ends the tool. Returns the signal if a signal ended it.
fn show(
    terminal: &mut DefaultTerminal,
    board: &mut Board,
    events: &Receiver<Event>,
) -> Result<Option<i32>> {
    let mut error: Option<String> = None;
    let mut view = View::default();
    loop {
        terminal.draw(|frame| draw(frame, board, view, error.as_deref()))?;
        match events.recv()? {
            Event::Sampled(sample) => match *sample {
                Ok(sample) => {
                    error = None;
                    board.show(sample);
                }
                // The server may come back, so the last numbers remain on the screen.
                Err(reason) => error = Some(format!("{reason:#}")),
            },
            Event::Resized => {}
            Event::Turned(Turn::HotKeys) => view.is_hot = !view.is_hot,
            Event::Turned(Turn::Pages(by)) => {
                view = View { page: view.page.wrapping_add(by), is_hot: false };
            }
            Event::Quit => return Ok(None),
            Event::Signal(signal) => return Ok(Some(signal)),
            Event::Lost(what) => anyhow::bail!("the thread that {what} has ended"),
        }
    }
}

/// Takes a sample each second.
fn take_samples(mut sampler: Sampler, events: Sender<Event>) {
    let _guard = Guard { events: events.clone(), what: "takes samples" };
    let mut due = Instant::now();
    loop {
        due += PERIOD;
        sleep(due.saturating_duration_since(Instant::now()));
        // Samples that a slow server delayed are skipped.
        due = due.max(Instant::now() - PERIOD);
        if events.send(Event::Sampled(Box::new(sampler.sample()))).is_err() {
            return;
        }
    }
}

fn read_keys(events: &Sender<Event>) {
    let _guard = Guard { events: events.clone(), what: "reads keys" };
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) if ends(&key) => Event::Quit,
            Ok(event::Event::Key(key)) => match turn(&key) {
                Some(turn) => Event::Turned(turn),
                None => continue,
            },
            Ok(event::Event::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            // The terminal was closed.
            Err(_) => Event::Quit,
        };
        let is_last = matches!(event, Event::Quit);
        if events.send(event).is_err() || is_last {
            // The tool ends; the guard's event arrives after this one.
            return;
        }
    }
}

fn ends(key: &KeyEvent) -> bool {
    let is_control_c =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let is_end = matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc);
    key.kind == KeyEventKind::Press && (is_end || is_control_c)
}

fn turn(key: &KeyEvent) -> Option<Turn> {
    let turn = match key.code {
        KeyCode::Char('h' | 'H') => Turn::HotKeys,
        KeyCode::Tab | KeyCode::Right | KeyCode::Down | KeyCode::PageDown => Turn::Pages(1),
        KeyCode::BackTab | KeyCode::Left | KeyCode::Up | KeyCode::PageUp => Turn::Pages(-1),
        _ => return None,
    };
    (key.kind == KeyEventKind::Press).then_some(turn)
}

/// Reports the end of a thread, also after a panic.
struct Guard {
    events: Sender<Event>,
    what: &'static str,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Without a receiver the tool has ended.
        let _ = self.events.send(Event::Lost(self.what));
    }
}
