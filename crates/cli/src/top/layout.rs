//! Decides which tables share a page, and where they are.

use std::collections::VecDeque;

use ratatui::layout::{Constraint, Layout, Rect};

use super::board::{Board, Kind};

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The chart of requests per second.
    History,
    /// A table of the board.
    Table(Kind),
    /// The map of segments.
    Map,
}

/// Parts that share a page, and their areas.
pub(super) type Page = Vec<(Part, Rect)>;

/// Distributes the parts over as many pages as they need. A table that does not fit completely
/// moves to the next page. Lists of keys and the map use the remaining space.
pub(super) fn pages(board: &Board, area: Rect) -> Vec<Page> {
    let columns: Vec<Rect> = match area.width >= TWO_COLUMNS_MIN {
        true => halves(area, true).to_vec(),
        false => vec![area],
    };
    let lists: &[&[Part]] = if columns.len() == 2 { &[LEFT, RIGHT] } else { &[NARROW] };
    let is_there = |part: &Part| lines(board, *part, columns[0].width).is_some();
    let mut left: Vec<VecDeque<Part>> =
        lists.iter().map(|parts| parts.iter().copied().filter(is_there).collect()).collect();
    let mut pages = Vec::new();
    while area.height >= PART_LINES_MIN && left.iter().any(|parts| !parts.is_empty()) {
        let columns = columns.iter().zip(&mut left);
        pages.push(columns.flat_map(|(column, parts)| fill(board, *column, parts)).collect());
    }
    pages
}

/// Returns the areas of the lists of hot keys on a separate page.
pub(super) fn hot_page(board: &Board, area: Rect) -> Page {
    let parts = [Kind::HotByRate, Kind::HotByBytes].map(Part::Table);
    match parts.map(|part| lines(board, part, area.width).is_some()) {
        [true, true] => {
            let halves = halves(area, area.width >= TWO_COLUMNS_MIN);
            parts.into_iter().zip(halves).collect()
        }
        // The only table contains the reason why there are no keys.
        [true, false] => vec![(parts[0], area)],
        _ => Vec::new(),
    }
}

fn halves(area: Rect, side_by_side: bool) -> [Rect; 2] {
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    match side_by_side {
        true => Layout::horizontal(halves).areas(area),
        false => Layout::vertical(halves).areas(area),
    }
}

/// Takes the parts that fit in a column, but at least one, and returns their areas.
fn fill(board: &Board, column: Rect, parts: &mut VecDeque<Part>) -> Page {
    let mut room = column.height;
    let mut taken: Vec<(Part, u16, u16)> = Vec::new();
    let mut rest = VecDeque::new();
    for part in parts.drain(..) {
        let most = lines(board, part, column.width).unwrap_or(0).saturating_add(BORDERS);
        let least = if is_flexible(part) { most.min(FLEXIBLE_LINES_MIN) } else { most };
        if least <= room || taken.is_empty() {
            let least = least.min(room);
            room -= least;
            taken.push((part, least, most));
        } else {
            rest.push_back(part);
        }
    }
    *parts = rest;
    let mut top = column.y;
    let mut places = Page::new();
    for (part, least, most) in taken {
        let more = most.saturating_sub(least).min(room);
        room -= more;
        places.push((part, Rect { y: top, height: least + more, ..column }));
        top += least + more;
    }
    places
}

fn is_flexible(part: Part) -> bool {
    matches!(part, Part::Map | Part::Table(Kind::HotByRate | Kind::HotByBytes))
}

/// Returns the number of lines of a part inside its border; `None` if the part is empty.
fn lines(board: &Board, part: Part, width: u16) -> Option<u16> {
    let inside = usize::from(width.saturating_sub(BORDERS).max(1));
    let lines = match part {
        Part::History => HISTORY_LINES,
        Part::Table(kind) => board.table(kind)?.lines().len(),
        Part::Map if board.map.cells.is_empty() => return None,
        Part::Map => board.map.cells.len().div_ceil(inside).min(MAP_LINES_MAX),
    };
    u16::try_from(lines).ok()
}

/// The narrowest terminal with two columns.
pub(super) const TWO_COLUMNS_MIN: u16 = 96;

const BORDERS: u16 = 2;

/// A border and a line.
const PART_LINES_MIN: u16 = 3;

/// A border, a heading and three keys.
const FLEXIBLE_LINES_MIN: u16 = 6;

const HISTORY_LINES: usize = 3;
const MAP_LINES_MAX: usize = 16;

const LEFT: &[Part] = &[
    Part::Table(Kind::Summary),
    Part::Table(Kind::Requests),
    Part::Table(Kind::HotByRate),
    Part::History,
    Part::Table(Kind::Evictions),
    Part::Table(Kind::Disk),
    Part::Table(Kind::Near),
    Part::Table(Kind::Origins),
];

const RIGHT: &[Part] = &[
    Part::Table(Kind::Latency),
    Part::Table(Kind::Memory),
    Part::Table(Kind::Connections),
    Part::Table(Kind::Followers),
    Part::Map,
    Part::Table(Kind::HotByBytes),
];

const NARROW: &[Part] = &[
    Part::Table(Kind::Summary),
    Part::Table(Kind::Requests),
    Part::Table(Kind::HotByRate),
    Part::Table(Kind::Near),
    Part::Table(Kind::Origins),
    Part::Table(Kind::Followers),
    Part::Table(Kind::Latency),
    Part::Table(Kind::Evictions),
    Part::History,
    Part::Table(Kind::Disk),
    Part::Table(Kind::Connections),
    Part::Table(Kind::Memory),
    Part::Map,
    Part::Table(Kind::HotByBytes),
];
