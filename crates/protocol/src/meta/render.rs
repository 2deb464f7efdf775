//! Outcomes to bytes.

use super::Frame;
use crate::{Response, Shown};

/// Appends what is known of an item.
pub fn shown(_out: &mut Vec<u8>, _shown: &Shown<'_>, _frame: &Frame<'_>) {}

/// Appends the answer to a command.
pub fn response(_out: &mut Vec<u8>, _response: &Response, _frame: &Frame<'_>) {}
