//! Tables of the page, and their cells.

use std::fmt::Write;

use crate::response::Response;
use crate::text::render;

/// A command.
pub(super) struct CommandRow {
    pub(super) form: &'static str,
    /// Separated by ` / `; empty: no reply.
    pub(super) replies: &'static str,
    pub(super) meaning: &'static str,
}

/// Appends a table row. Escapes bars, which would end the cell.
pub(super) fn push_row(page: &mut String, cells: &[&str]) {
    for cell in cells {
        write!(page, "| {} ", cell.replace('|', "\\|")).expect("writing to a String cannot fail");
    }
    page.push_str("|\n");
}

pub(super) fn push_commands(page: &mut String, rows: &[CommandRow]) {
    for row in rows {
        push_row(page, &[&code(row.form), &replies(row.replies), row.meaning]);
    }
}

pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

pub(super) fn replies(replies: &str) -> String {
    if replies.is_empty() {
        return "none".to_owned();
    }
    replies.split(" / ").map(code).collect::<Vec<_>>().join(" · ")
}

/// Returns an error as written on the wire, without its line end.
pub(super) fn words(error: &Response) -> String {
    let mut line = Vec::new();
    render::response(&mut line, error);
    String::from_utf8_lossy(&line).trim_end().to_owned()
}
