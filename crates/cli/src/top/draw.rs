//! Lays the tables out on a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline};

use super::board::{Board, Kind, Table};
use super::memory::{Cell, Usage};

/// Draws the board. `error` is why there is no newer sample.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, error: Option<&str>) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let (words, colour) = match error {
        Some(error) => (error, Color::Red),
        None if board.is_ready => (board.state.as_str(), Color::Green),
        None => (board.state.as_str(), Color::Yellow),
    };
    let state = Span::styled(format!(" {words} "), Style::new().fg(colour).reversed());
    let title = Line::from(vec![state, Span::raw(format!(" {}", board.title))]);
    frame.render_widget(title, top);
    let help = Line::styled("q quits", Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(help, bottom);
    if middle.width >= TWO_COLUMNS_MIN {
        let [left, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(middle);
        stack(frame, board, left, LEFT);
        stack(frame, board, right, RIGHT);
    } else {
        stack(frame, board, middle, NARROW);
    }
}

/// A part of the screen.
#[derive(Clone, Copy, Debug)]
enum Part {
    History,
    Table(Kind),
    Map,
}

/// Draws parts from the top down. Those for which there is no room are left out; the last one may
/// be cut off.
fn stack(frame: &mut Frame<'_>, board: &Board, mut area: Rect, parts: &[Part]) {
    for part in parts {
        let inside = area.width.saturating_sub(2);
        let Some(height) = height(board, *part, inside) else { continue };
        let height = height.saturating_add(2).min(area.height);
        if height < PART_LINES_MIN {
            continue;
        }
        let [part_area, rest] =
            Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area);
        draw_part(frame, board, *part, part_area);
        area = rest;
    }
}

/// Returns how many lines a part has; `None` if there is nothing to show.
fn height(board: &Board, part: Part, width: u16) -> Option<u16> {
    let lines = match part {
        Part::History => 3,
        Part::Table(kind) => table(board, kind)?.lines().len(),
        Part::Map if board.map.cells.is_empty() => return None,
        Part::Map => board.map.cells.len().div_ceil(usize::from(width.max(1))).min(MAP_LINES_MAX),
    };
    u16::try_from(lines).ok()
}

fn table(board: &Board, kind: Kind) -> Option<&Table> {
    board.tables.iter().find(|table| table.kind == kind)
}

fn draw_part(frame: &mut Frame<'_>, board: &Board, part: Part, area: Rect) {
    let block = |title: String| {
        let dim = Style::new().add_modifier(Modifier::DIM);
        Block::bordered().border_style(dim).title(Span::styled(title, Style::new().bold()))
    };
    match part {
        Part::History => {
            let width = usize::from(area.width.saturating_sub(2));
            let skipped = board.history.len().saturating_sub(width);
            let history: Vec<u64> = board.history.iter().skip(skipped).copied().collect();
            let most = history.iter().max().copied().unwrap_or_default();
            let title = format!(" Requests per second, up to {most} ");
            let line = Sparkline::default().data(history).style(Style::new().fg(Color::Cyan));
            frame.render_widget(line.block(block(title)), area);
        }
        Part::Table(kind) => {
            let Some(table) = table(board, kind) else { return };
            let lines = table.lines().into_iter().map(Line::raw).collect::<Vec<_>>();
            let text = Paragraph::new(lines).block(block(format!(" {} ", table.title)));
            frame.render_widget(text, area);
        }
        Part::Map => draw_map(frame, board, area, block),
    }
}

fn draw_map(
    frame: &mut Frame<'_>,
    board: &Board,
    area: Rect,
    block: impl Fn(String) -> Block<'static>,
) {
    let width = usize::from(area.width.saturating_sub(2)).max(1);
    let lines = usize::from(area.height.saturating_sub(2));
    let map = board.map.binned(width * lines);
    let title = match map.segments_per_cell {
        1 => " Segments ".to_owned(),
        several => format!(" {several} segments a cell "),
    };
    let span = |cell: &Cell| Span::styled(cell.symbol(), Style::new().fg(colour(cell.usage())));
    let lines: Vec<Line<'_>> =
        map.cells.chunks(width).map(|cells| cells.iter().map(span).collect()).collect();
    frame.render_widget(Paragraph::new(lines).block(block(title)), area);
}

fn colour(usage: Usage) -> Color {
    match usage {
        Usage::Main => Color::Green,
        Usage::Small => Color::Cyan,
        Usage::Index => Color::Blue,
        Usage::Ghost => Color::Magenta,
        Usage::Free => Color::DarkGray,
    }
}

/// The narrowest terminal with two columns.
const TWO_COLUMNS_MIN: u16 = 96;

/// A border and a line.
const PART_LINES_MIN: u16 = 3;

const MAP_LINES_MAX: usize = 16;

const LEFT: &[Part] = &[
    Part::History,
    Part::Table(Kind::Summary),
    Part::Table(Kind::Requests),
    Part::Table(Kind::Evictions),
    Part::Table(Kind::Disk),
    Part::Table(Kind::HotByBytes),
];

const RIGHT: &[Part] = &[
    Part::Table(Kind::Connections),
    Part::Table(Kind::Memory),
    Part::Map,
    Part::Table(Kind::Latency),
    Part::Table(Kind::HotByRate),
];

const NARROW: &[Part] = &[
    Part::Table(Kind::Summary),
    Part::Table(Kind::Requests),
    Part::Table(Kind::Latency),
    Part::Table(Kind::HotByRate),
    Part::Table(Kind::Evictions),
    Part::Table(Kind::Disk),
    Part::Map,
    Part::Table(Kind::Connections),
    Part::Table(Kind::Memory),
    Part::Table(Kind::HotByBytes),
];

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell as Symbol;
    use serde_json::{Value, json};

    use super::*;
    use crate::top::sample::Sample;

    fn sample(time_ms: u64, gets: u64) -> Sample {
        let stats = json!({ "pid": 7, "uptime": 300, "cmd_get": gets, "get_hits": gets / 4,
            "curr_connections": 3, "max_connections": 1024, "threads": 4 });
        let cells: Vec<Value> = (0..300).map(|_| json!([1, 0, 0, 0, 0, 90])).collect();
        Sample {
            status: json!({ "time_ms": time_ms, "stats": stats, "silent_secs": 0,
                "larder": { "larder_version": "1.2.3\u{1b}]0;v\u{7}", "larder_commit": 1234567 },
                "latency": { "bounds_secs": [1e-6, 2e-6],
                    "counts": { "get": [gets, 0, 0], "set": [0, 0, 0] } },
                "segments": { "segments_per_cell": 1, "cells": cells } }),
            hot: Some(json!({ "by_bytes": [], "by_rate": [
                { "key": "\u{1b}]0;title\u{7}\n\u{200f}x", "per_sec": 9.5, "error_per_sec": 1 },
                { "key_base64": "/wA=", "per_sec": "?" }, null] })),
            ready: json!({ "reasons": ["draining"] }),
            address: "unix:/a".to_owned(),
        }
    }

    fn board() -> Board {
        let mut board = Board::default();
        board.show(sample(1000, 1000));
        board.show(sample(3000, 2000));
        board
    }

    /// Draws the board and returns the lines of the terminal.
    fn drawn(board: &Board, width: u16, height: u16, error: Option<&str>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, board, error)).unwrap();
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(usize::from(width).max(1));
        lines.map(|cells| cells.iter().map(Symbol::symbol).collect()).collect()
    }

    #[track_caller]
    fn assert_shows(lines: &[String], words: &[&str]) {
        for word in words {
            let is_shown = lines.iter().any(|line| line.contains(word));
            assert!(is_shown, "{word:?} is missing:\n{}", lines.join("\n"));
        }
    }

    #[test]
    fn a_wide_terminal_shows_every_table() {
        let lines = drawn(&board(), 120, 50, None);
        assert_shows(
            &lines,
            &[
                " draining  larderd 1.2.3\\u{1b}]0;v\\u{7} (1234567), process 7",
                " at unix:/a, up 5 min",
                "requests per second",
                "hit ratio              25.0 %",
                "get             500  25.0 %   2000",
                "3 of 1024",
                "████████",
                "get  ≤ 1 µs",
                r"9.5  1  \x1b]0;title\x07\x0a\xe2\x80\x8fx",
                r"–  –  \xff\x00",
                "q quits",
            ],
        );
        assert!(lines.iter().all(|line| line.chars().count() == 120), "{lines:?}");
    }

    #[test]
    fn narrow_and_tiny_terminals_show_what_fits() {
        let lines = drawn(&board(), 60, 24, None);
        assert_shows(&lines, &["requests per second", "get             500  25.0 %   2000"]);
        assert!(lines.iter().all(|line| line.chars().count() == 60), "{lines:?}");
        for (width, height) in [(1, 1), (2, 2), (10, 3), (3, 40), (200, 4), (97, 5)] {
            drawn(&board(), width, height, Some("lost"));
            drawn(&Board::default(), width, height, None);
        }
    }

    /// Adds a disk tier to a sample.
    fn with_disk(mut sample: Sample, has_failed: bool) -> Sample {
        let trouble = has_failed.then_some("cannot write /t/\u{1b}: no");
        sample.status["tier"] = json!({ "mode": "store", "durability": "sync",
            "trouble": trouble });
        let rows = json!({ "tier_failed": u64::from(has_failed), "tier_syncs": 40,
            "tier_live_bytes": 3 << 20, "tier_live_bytes_max": 9 << 20 });
        let rows = rows.as_object().unwrap().clone();
        sample.status["larder"].as_object_mut().unwrap().extend(rows);
        sample
    }

    #[test]
    fn a_disk_has_a_table_and_its_failure_the_first_line() {
        let mut board = Board::default();
        board.show(with_disk(sample(1000, 1000), false));
        assert_eq!(board.state, "draining");
        let lines = drawn(&board, 120, 60, None);
        assert_shows(&lines, &[" Disk ", "store, durability sync", "3.0 MiB of 9.0 MiB"]);
        board.show(with_disk(sample(3000, 2000), true));
        let failed = [r" the disk has failed: cannot write /t/\u{1b}: no "];
        assert_shows(&drawn(&board, 120, 60, None), &failed);
        board.show(sample(5000, 2000));
        let text = board.text();
        assert!(!text.contains("Disk") && text.contains("draining"), "{text}");
    }

    #[test]
    fn an_error_is_shown_over_the_last_numbers() {
        let lines = drawn(&board(), 120, 40, Some("cannot connect to the admin listener"));
        assert_shows(&lines, &[" cannot connect to the admin listener ", "3 of 1024"]);
    }

    #[test]
    fn the_text_has_the_same_numbers() {
        let text = board().text();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let state = "process 7 at unix:/a, up 5 min: draining";
        assert_shows(&lines, &[state, "  hit ratio", "25.0 %", r"\x1b]0;title\x07\x0a"]);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
    }
}
