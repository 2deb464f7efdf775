//! Lays the tables out on a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline, Wrap};

use super::board::Board;
use super::layout::{self, Part};
use super::memory::{Cell, Usage};
use crate::units;

/// The view that the user has selected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    /// The page of tables, modulo the number of pages.
    pub(super) page: isize,
    /// True to show the hot keys in place of a page of tables.
    pub(super) is_hot: bool,
}

/// Draws the board. `error` is the reason if the last attempt to take a sample failed.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, view: View, error: Option<&str>) {
    let area = frame.area();
    let error_lines = error.map_or(0, |error| {
        let lines = error.chars().count().div_ceil(usize::from(area.width.max(1)));
        u16::try_from(lines).map_or(ERROR_LINES_MAX, |lines| lines.min(ERROR_LINES_MAX))
    });
    let [failure, top, middle, bottom] = Layout::vertical([
        Constraint::Length(error_lines),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    if let Some(error) = error {
        let style = Style::new().fg(Color::Red).reversed();
        frame.render_widget(Paragraph::new(error).style(style).wrap(Wrap { trim: true }), failure);
    }
    frame.render_widget(title(board, top.width, error.is_some()), top);
    let pages = layout::pages(board, middle);
    let page = view.page.rem_euclid(pages.len().max(1) as isize) as usize;
    let parts = match view.is_hot {
        true => layout::hot_page(board, middle),
        false => pages.get(page).cloned().unwrap_or_default(),
    };
    for (part, place) in parts {
        draw_part(frame, board, part, place);
    }
    let help = match (view.is_hot, pages.len()) {
        (true, _) => "q quits   h all tables".to_owned(),
        (false, ..2) => "q quits   h hot keys".to_owned(),
        (false, all) => format!("q quits   h hot keys   Tab next page ({} of {all})", page + 1),
    };
    frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), bottom);
}

/// Returns the first line: the state of the server, and the longest title that fits.
fn title(board: &Board, width: u16, is_old: bool) -> Line<'_> {
    let state = match is_old {
        true => " no answer ".to_owned(),
        false => format!(" {} ", board.state),
    };
    let colour = match (is_old, board.is_ready) {
        (true, _) => Color::Red,
        (false, true) => Color::Green,
        (false, false) => Color::Yellow,
    };
    let room = usize::from(width).saturating_sub(state.chars().count() + 1);
    let title = match board.title.chars().count() <= room {
        true => board.title.clone(),
        false => shortened(&board.short_title, room),
    };
    let state = Span::styled(state, Style::new().fg(colour).reversed());
    Line::from(vec![state, Span::raw(format!(" {title}"))])
}

/// Returns a line of at most `width` characters. The end of a shortened line shows that characters
/// are missing.
fn shortened(line: &str, width: usize) -> String {
    match line.chars().count() <= width {
        true => line.to_owned(),
        false => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn draw_part(frame: &mut Frame<'_>, board: &Board, part: Part, area: Rect) {
    let block = |title: String| {
        let dim = Style::new().add_modifier(Modifier::DIM);
        Block::bordered().border_style(dim).title(Span::styled(title, Style::new().bold()))
    };
    match part {
        Part::History => draw_history(frame, board, area, block),
        Part::Table(kind) => {
            let Some(table) = board.table(kind) else { return };
            let inside = usize::from(area.width.saturating_sub(2));
            let lines = table.lines().into_iter().map(|line| Line::raw(shortened(&line, inside)));
            let text = Paragraph::new(lines.collect::<Vec<_>>());
            frame.render_widget(text.block(block(format!(" {} ", table.title))), area);
        }
        Part::Map => draw_map(frame, board, area, block),
    }
}

fn draw_history(
    frame: &mut Frame<'_>,
    board: &Board,
    area: Rect,
    block: impl Fn(String) -> Block<'static>,
) {
    let width = usize::from(area.width.saturating_sub(2));
    let skipped = board.history.len().saturating_sub(width);
    let history: Vec<u64> = board.history.iter().skip(skipped).copied().collect();
    let secs = history.len();
    let most = history.iter().max().copied().unwrap_or_default();
    let none = match secs {
        0 => "the first rate appears in a second".to_owned(),
        _ => format!("no requests in the last {}", units::duration(secs as f64)),
    };
    if most == 0 {
        let text = Paragraph::new(none).block(block(" Requests per second ".to_owned()));
        frame.render_widget(text, area);
        return;
    }
    let (most, time) = (units::count(most as f64), units::duration(secs as f64));
    let title = format!(" Requests per second, at most {most} in {time} ");
    let line = Sparkline::default().data(history).style(Style::new().fg(Color::Cyan));
    frame.render_widget(line.block(block(title)), area);
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

/// The lines of an error. Enough to show the remedy at its end.
const ERROR_LINES_MAX: u16 = 3;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell as Symbol;
    use serde_json::{Value, json};

    use super::*;
    use crate::top::board::Kind;
    use crate::top::sample::Sample;

    fn sample(time_ms: u64, gets: u64) -> Sample {
        let stats = json!({ "pid": 7, "uptime": 300, "cmd_get": gets, "get_hits": gets / 4,
            "cmd_set": 0, "cmd_touch": 0, "delete_hits": 0, "delete_misses": 0, "incr_hits": 0,
            "incr_misses": 0, "decr_hits": 0, "decr_misses": 0,
            "curr_connections": 3, "max_connections": 1024, "threads": 4 });
        let cells: Vec<Value> = (0..300).map(|_| json!([1, 0, 0, 0, 0, 90])).collect();
        Sample {
            status: json!({ "time_ms": time_ms, "stats": stats, "silent_secs": 0,
                "larder": { "larder_version": "1.2.3\u{1b}]0;v\u{7}", "larder_commit": 1234567 },
                "latency": { "bounds_secs": [1e-6, 2e-6],
                    "counts": { "get": [gets, 0, 0], "set": [0, 0, 0] } },
                "segments": { "segments_per_cell": 1, "cells": cells } }),
            hot: Ok(json!({ "by_bytes": [], "by_rate": [
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

    const HOT: View = View { page: 0, is_hot: true };

    /// Draws the board and returns the lines of the terminal.
    fn drawn(
        board: &Board,
        (width, height): (u16, u16),
        view: View,
        error: Option<&str>,
    ) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, board, view, error)).unwrap();
        let cells = terminal.backend().buffer().content();
        let lines = cells.chunks(usize::from(width).max(1));
        lines.map(|cells| cells.iter().map(Symbol::symbol).collect()).collect()
    }

    /// Draws all pages.
    fn all_pages(board: &Board, size: (u16, u16)) -> Vec<String> {
        let of_page = |page| drawn(board, size, View { page, is_hot: false }, None);
        let first = of_page(0);
        let help = first.last().unwrap();
        let count = help
            .split(" of ")
            .nth(1)
            .map_or(1, |rest| rest.split(')').next().unwrap().parse().unwrap());
        (0..count).flat_map(of_page).collect()
    }

    #[track_caller]
    fn assert_shows(lines: &[String], words: &[&str]) {
        for word in words {
            let is_shown = lines.iter().any(|line| line.contains(word));
            assert!(is_shown, "{word:?} is missing:\n{}", lines.join("\n"));
        }
    }

    #[test]
    fn a_large_terminal_shows_every_table_on_one_page() {
        let lines = drawn(&board(), (120, 60), View::default(), None);
        assert_shows(
            &lines,
            &[
                " draining  larderd 1.2.3\\u{1b}]0;v\\u{7} (1234567), process 7",
                " at unix:/a, up 5 min",
                "Requests per second, at most 500 in 1 s",
                "hit ratio              25.0 %",
                "get             500  25.0 %   2000",
                "3 of 1024",
                "████████",
                "get  ≤ 1 µs",
                r"9.5  1  \x1b]0;title\x07\x0a\xe2\x80\x8fx",
                r"–  –  \xff\x00",
                "none yet: few requests were sampled recently",
                "q quits   h hot keys  ",
            ],
        );
        assert!(lines.iter().all(|line| line.chars().count() == 120), "{lines:?}");
    }

    /// Samples with the longest possible numbers, including those of a disk.
    fn busy() -> Board {
        let of = |time_ms: u64, number: u64| {
            let mut sample = with_disk(sample(time_ms, number), false);
            for (part, names) in [("stats", STATS), ("larder", LARDER)] {
                let rows = sample.status[part].as_object_mut().unwrap();
                rows.extend(names.iter().map(|name| ((*name).to_owned(), json!(number))));
            }
            sample.status["stats"]["get_hits"] = json!(number);
            // Nine years, and 500 processors.
            sample.status["larder"]["eviction_age_secs"] = json!(300_000_000);
            sample.status["larder"]["evicted_age_secs"] = json!(number as f64 * 2e8);
            for (name, at_once) in [("rusage_user", 250), ("rusage_system", 250)] {
                sample.status["stats"][name] = json!(time_ms / 1000 * at_once);
            }
            sample.status["tier"]["durability"] = json!("interval=60000");
            sample.status["larder"]["near_state"] = json!("copies");
            sample.status["latency"]["bounds_secs"] = json!([0.524_288, 1]);
            sample.status["silent_secs"] = json!(0.0099);
            sample.address = "unix:/run/larder/a-longer-name-of-a-folder/admin.sock".to_owned();
            let key = |number: u32| {
                json!({ "key": format!("user:{number:0>240}"),
                "per_sec": 1e12, "error_per_sec": 1e12,
                "bytes_per_sec": 9e12, "error_bytes_per_sec": 9e12 })
            };
            let keys: Vec<_> = (0..20).map(key).collect();
            sample.hot = Ok(json!({ "by_bytes": keys, "by_rate": keys }));
            sample.ready = json!({ "reasons": [] });
            sample
        };
        let mut board = Board::default();
        board.show(of(1000, 1_099_511_627_776));
        board.show(of(2000, 2_198_923_255_552));
        board
    }

    const STATS: &[&str] = &[
        "cmd_get",
        "cmd_set",
        "cmd_touch",
        "touch_hits",
        "delete_hits",
        "delete_misses",
        "incr_hits",
        "incr_misses",
        "decr_hits",
        "decr_misses",
        "cas_hits",
        "cas_misses",
        "cas_badval",
        "cmd_meta",
        "cmd_flush",
        "curr_items",
        "bytes",
        "limit_maxbytes",
        "bytes_read",
        "bytes_written",
        "evictions",
        "evicted_unfetched",
        "reclaimed",
        "curr_connections",
        "max_connections",
        "total_connections",
        "rejected_connections",
        "threads",
        "rusage_user",
        "rusage_system",
    ];

    const LARDER: &[&str] = &[
        "ghost_hits",
        "store_no_memory",
        "evicted_age_secs",
        "eviction_age_secs",
        "segments",
        "segment_bytes",
        "segments_items",
        "segments_small",
        "segments_index",
        "segments_ghost",
        "segments_free",
        "segments_pinned",
        "tier_items",
        "tier_size_bytes",
        "tier_live_bytes",
        "tier_live_bytes_max",
        "tier_index_bytes",
        "tier_index_bytes_max",
        "tier_dirty_bytes",
        "tier_written_bytes",
        "tier_syncs",
        "tier_reads",
        "tier_items_evicted",
        "tier_items_dropped",
        "tier_items_unreadable",
        "near_fetches",
        "near_passed",
        "near_changes",
        "near_dropped",
        "near_unreachable",
        "near_unanswered",
        "near_streams_lost",
        "followers",
        "follower_fetches",
        "follower_changes",
        "follower_flushes",
        "follower_overflows",
    ];

    #[test]
    fn every_number_is_whole_on_a_page_of_each_size() {
        for board in [board(), busy()] {
            for size in [(80, 24), (96, 24), (100, 34), (120, 40), (200, 60)] {
                let lines = all_pages(&board, size);
                for table in &board.tables {
                    let is_hot = matches!(table.kind, Kind::HotByRate | Kind::HotByBytes);
                    for line in table.lines().iter().filter(|_| !is_hot) {
                        let whole = format!("│{} ", line.trim_end());
                        let is_shown = |shown: &String| {
                            shown.contains(&whole) || shown.contains(&whole.replace(' ', "│"))
                        };
                        let is_shown = lines.iter().any(is_shown)
                            || lines.iter().any(|shown| shown.contains(&format!("│{line}│")));
                        assert!(is_shown, "{size:?} lacks {line:?}:\n{}", lines.join("\n"));
                    }
                }
                assert_shows(&lines, &["Requests per second", "Hot keys by requests"]);
            }
        }
    }

    #[test]
    fn a_key_shows_the_hot_keys_on_the_smallest_terminal() {
        for (size, keys) in [((80, 24), 16), ((100, 34), 40), ((120, 40), 40)] {
            let first = drawn(&busy(), size, View::default(), None);
            assert_shows(&first, &["h hot keys", " serving ", "requests per second"]);
            assert!(!first[0].contains("1234567"), "no room for the commit: {first:?}");
            let lines = drawn(&busy(), size, HOT, None);
            assert_shows(&lines, &["Hot keys by requests", "Hot keys by bytes", "h all tables"]);
            let shown: usize = lines.iter().map(|line| line.matches("user:0").count()).sum();
            assert_eq!(shown, keys, "{size:?}:\n{}", lines.join("\n"));
            // Keys are cut off visibly.
            assert_eq!(lines.iter().map(|line| line.matches("0…│").count()).sum::<usize>(), keys);
        }
    }

    #[test]
    fn a_server_without_work_is_shown_as_such() {
        let mut board = Board::default();
        let mut idle = |time_ms: u64| {
            let mut idle = sample(time_ms, 0);
            idle.hot = Ok(json!({ "by_bytes": [], "by_rate": [] }));
            for name in STATS {
                idle.status["stats"][name] = json!(0);
            }
            board.show(idle);
            let lines = all_pages(&board, (80, 24));
            assert!(!lines.iter().any(|line| line.contains("up to 0")), "{lines:?}");
            (lines, drawn(&board, (80, 24), HOT, None))
        };
        let (lines, _) = idle(1000);
        assert_shows(&lines, &["the first rate appears in a second"]);
        idle(2000);
        let (lines, hot) = idle(3000);
        assert_shows(&lines, &["no requests in the last 2 s"]);
        assert_shows(&hot, &["none yet: few requests were sampled recently"]);
        let mut hidden = sample(4000, 0);
        hidden.hot = Err("the server does not show keys: it runs with -X");
        board.show(hidden);
        assert_shows(&drawn(&board, (80, 24), HOT, None), &["it runs with -X"]);
        assert!(board.text().contains("Hot keys\n  the server does not show keys"));
    }

    #[test]
    fn narrow_and_tiny_terminals_show_what_fits() {
        let lines = drawn(&board(), (60, 24), View::default(), None);
        assert_shows(&lines, &["requests per second", "get             500  25.0 %   2000"]);
        assert!(lines.iter().all(|line| line.chars().count() == 60), "{lines:?}");
        for size in [(1, 1), (2, 2), (10, 3), (3, 40), (200, 4), (97, 5), (20, 9)] {
            for page in [-1, 0, 7, isize::MIN, isize::MAX] {
                drawn(&board(), size, View { page, is_hot: false }, Some("lost"));
            }
            drawn(&board(), size, HOT, None);
            drawn(&Board::default(), size, View::default(), None);
            drawn(&Board::default(), size, HOT, Some(""));
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
        let lines = all_pages(&board, (120, 40));
        let disk = [" Disk ", "mode                              store", "3.0 MiB of 9.0 MiB"];
        assert_shows(&lines, &disk);
        board.show(with_disk(sample(3000, 2000), true));
        let failed = [r" the disk has failed: cannot write /t/\u{1b}: no "];
        assert_shows(&drawn(&board, (120, 60), View::default(), None), &failed);
        board.show(sample(5000, 2000));
        let text = board.text();
        assert!(!text.contains("Disk") && text.contains("draining"), "{text}");
    }

    #[test]
    fn a_near_cache_and_an_origin_have_a_table() {
        let of = |time_ms: u64, rows: Value| {
            let mut sample = sample(time_ms, time_ms);
            let rows = rows.as_object().unwrap().clone();
            sample.status["larder"].as_object_mut().unwrap().extend(rows);
            sample
        };
        let near = |time_ms: u64, state: &str, is_fresh: bool| {
            let rows = json!({ "near_state": state, "near_fresh": u64::from(is_fresh),
                "near_origins": 1,
                "near_fetches": time_ms / 10, "near_passed": 0, "near_changes": time_ms / 20,
                "near_dropped": 0, "near_unreachable": 3, "near_unanswered": 4,
                "near_streams_lost": 2 });
            of(time_ms, rows)
        };
        let mut board = Board::default();
        board.show(near(1000, "copies", true));
        board.show(near(3000, "copies", true));
        let shown = [" Near cache ", "reports its changes", "100", "50", "7"];
        assert_shows(&all_pages(&board, (120, 40)), &shown);
        assert_shows(&all_pages(&board, (80, 24)), &shown[..2]);
        for (state, is_fresh, shown) in [
            ("copies", false, "late: copies unused"),
            ("passes", false, "reports no changes"),
            ("timed", true, "no changes: copies expire"),
            ("unreachable", false, "unreachable"),
            ("\u{1b}", false, "\\u{1b}"),
        ] {
            board.show(near(5000, state, is_fresh));
            assert_shows(&all_pages(&board, (120, 40)), &[shown]);
        }
        assert!(!board.text().contains("Followers") && !board.text().contains("Origins"));
        let mut several = near(6000, "mixed", true);
        several.status["larder"]["near_origins"] = json!(2);
        let of_two = |address: &str, state: &str, is_fresh: bool| {
            json!({ "address": address, "state": state, "share": 0.5, "fresh": is_fresh,
                "fetches": 77, "unreachable": 4, "unanswered": 5 })
        };
        several.status["origins"] =
            json!([of_two("a:1", "copies", true), of_two("b:2", "unreachable", false)]);
        board.show(several);
        let shown = [" Origins ", "1 of 2 usable", "b:2     unreachable", "50", "77", "9"];
        assert_shows(&all_pages(&board, (120, 40)), &shown);
        assert_shows(&all_pages(&board, (80, 24)), &shown);
        let origin = |number: u64| json!({ "followers": number, "follower_changes": 9 });
        board.show(of(7000, origin(2)));
        assert_shows(&all_pages(&board, (120, 40)), &[" Followers ", "near caches "]);
        board.show(of(9000, origin(0)));
        let text = board.text();
        assert!(!text.contains("Followers") && !text.contains("Near cache"), "{text}");
    }

    #[test]
    fn an_error_is_shown_over_the_last_numbers() {
        let error = "cannot connect to the admin listener 127.0.0.1:11212: Connection refused \
                     (os error 111); is larderd running with --admin-listen 127.0.0.1:11212?";
        let lines = drawn(&board(), (80, 24), View::default(), Some(error));
        let told: String = lines[..3].join(" ");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.starts_with(error), "{told}");
        assert_shows(&lines, &[" no answer  larderd 1.2.3", "requests per second"]);
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
