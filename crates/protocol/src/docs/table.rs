//! Tables of the page, and their cells.

use std::fmt::Write;

use crate::permission::Right;
#[cfg(test)]
use crate::permission::{Permission, Scope};
use crate::response::Response;
use crate::text::render;

/// A command.
pub(super) struct CommandRow {
    pub(super) form: &'static str,
    /// Separated by ` / `; empty: no reply.
    pub(super) replies: &'static str,
    pub(super) meaning: &'static str,
    pub(super) needs: Needs,
}

/// The permission that a command needs, with `--users`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// None.
    Nothing,
    /// A right, and no access to items.
    Right(Right),
    /// A right for the items that the command names.
    OfKey(Right),
    /// A right for all items, so only a user without prefixes.
    OfAll(Right),
}

impl Needs {
    pub(super) const READ: Self = Self::OfKey(Right::Read);
    pub(super) const WRITE: Self = Self::OfKey(Right::Write);
    pub(super) const ADMIN: Self = Self::OfAll(Right::Admin);

    /// Returns the needs of a command with this permission.
    #[cfg(test)]
    pub(super) fn of(permission: Permission<'_>) -> Self {
        match (permission.right, permission.scope) {
            (None, _) => Self::Nothing,
            (Some(right), Scope::Nothing) => Self::Right(right),
            (Some(right), Scope::Key(_) | Scope::Prefix { .. }) => Self::OfKey(right),
            (Some(right), Scope::AllItems) => Self::OfAll(right),
        }
    }

    /// Returns the cell of the table.
    pub(super) fn cell(self) -> String {
        match self {
            Self::Nothing => "–".to_owned(),
            Self::Right(right) | Self::OfKey(right) => right.name().to_owned(),
            Self::OfAll(right) => format!("{}, all", right.name()),
        }
    }
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
        let cells = [&code(row.form), &replies(row.replies), &row.needs.cell(), row.meaning];
        push_row(page, &cells);
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
