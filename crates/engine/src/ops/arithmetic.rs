//! Arithmetic on items whose value is a number.

pub(crate) mod signed;

use larder_item::{Deadline, Direction, Meta, Number};

use crate::engine::Engine;
use crate::error::StoreError;
use crate::ops::condition::Replace;
use crate::ops::request::Stored;
use crate::ops::update_value::UpdatedValue;
use crate::process::operation::Operation;
use crate::segment::record::Form;

/// An increment or a decrement.
///
/// ```
/// # use larder_engine::ArithmeticRequest;
/// # use larder_item::Direction;
/// let counting = ArithmeticRequest { cas: Some(7), ..ArithmeticRequest::new(b"hits", Direction::Increment, 1) };
/// assert_eq!((counting.version, counting.deadline), (None, None));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ArithmeticRequest<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The direction.
    pub direction: Direction,
    /// The amount.
    pub delta: u64,
    /// The cas token that the item must have, if any.
    pub cas: Option<u64>,
    /// The cas token that the item gets, as in
    /// [`StoreRequest::version`](crate::StoreRequest::version).
    pub version: Option<u64>,
    /// The deadline that the item gets, or `None` to keep its own.
    pub deadline: Option<Deadline>,
}

impl<'a> ArithmeticRequest<'a> {
    /// Returns a request without conditions.
    pub const fn new(key: &'a [u8], direction: Direction, delta: u64) -> Self {
        Self { key, direction, delta, cas: None, version: None, deadline: None }
    }
}

/// The outcome of an increment or a decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// The new state of the item.
    Number {
        /// The new number.
        number: u64,
        /// The item's metadata after the change.
        meta: Meta,
    },
    /// No item has the key.
    NotFound,
    /// The item's value is not a number.
    NonNumeric,
    /// The item has another cas token.
    Exists,
}

impl Engine {
    /// Increments or decrements a number (memcached's protocol, section "Increment/Decrement"). The
    /// first change converts the item to a number record, which later changes update in place, with
    /// one store.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if memory for the new record is missing.
    pub fn arithmetic(
        &self,
        operation: &Operation<'_>,
        counting: &ArithmeticRequest<'_>,
    ) -> Result<Arithmetic, StoreError> {
        let (op, now) = (&self.op_of(operation), operation.now);
        self.segments().flush_if_due(now);
        if let UpdatedValue::Done(done) = self.count_in_place(op, counting)? {
            return Ok(done);
        }
        let key = counting.key;
        self.rework(op, key, |engine, found| {
            let Some(found) = found else {
                return Some(Ok(Arithmetic::NotFound));
            };
            let version = engine.index().version(found);
            if counting.cas.is_some_and(|cas| version != cas) {
                return engine.is_settled(found, version).then_some(Ok(Arithmetic::Exists));
            }
            if found.header.is_large() {
                return engine.index().is_still_there(found).then_some(Ok(Arithmetic::NonNumeric));
            }
            let old = engine.value_of(found)?;
            let before = engine.index().meta(found, old.len(), now);
            let Ok(number) = Number::parse(&old) else {
                return Some(Ok(Arithmetic::NonNumeric));
            };
            let moved = number.moved(counting.direction, counting.delta);
            let text = moved.text_over(old.len());
            let over = Replace {
                found,
                origin: engine.origin(found, version, &old),
                version: counting.version,
                deadline: counting.deadline,
                // As in memcached, where a longer number is another item.
                keeps_identity: text.len() == old.len(),
            };
            let stored = match Form::number(text.len()) {
                Some(form) => engine.replace(op, key, &over, &moved.0.to_le_bytes(), form)?,
                // A long run of spaces follows the digits: such a value stays a text.
                None => engine.replace(op, key, &over, &text, Form::Plain)?,
            };
            Some(stored.map(|stored| match stored {
                Stored::Stored { cas, .. } => Arithmetic::Number {
                    number: moved.0,
                    meta: Meta { cas, value_bytes: text.len(), seen: now, ..over.meta(before) },
                },
                _ => Arithmetic::NotFound,
            }))
        })
    }
}
