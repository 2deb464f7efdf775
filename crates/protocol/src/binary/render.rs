//! Outcomes to bytes.

use std::fmt::Display;

use larder_item::Meta;

use super::Frame;
use crate::Response;

/// Appends what stands before a hit's value.
pub fn hit_head(_out: &mut Vec<u8>, _key: &[u8], _meta: &Meta, _frame: &Frame<'_>) {}

/// Appends the answer to a command.
pub fn response(_out: &mut Vec<u8>, _response: &Response, _frame: &Frame<'_>) {}

/// Appends one statistic.
pub fn stat(_out: &mut Vec<u8>, _name: impl Display, _value: impl Display, _frame: &Frame<'_>) {}
