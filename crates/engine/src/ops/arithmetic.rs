//! Arithmetic on items whose value is a number.

pub(crate) mod signed;

use larder_item::{Deadline, Direction, Meta, Number};

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::ops::condition::Replace;
use crate::ops::request::Stored;
use crate::ops::update_value::UpdatedValue;
use crate::process::op::Op;
use crate::process::operation::Operation;

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
    /// The cas token to give to the item, as in
    /// [`StoreRequest::version`](crate::StoreRequest::version).
    pub version: Option<u64>,
    /// The new deadline of the item, or `None` to keep its deadline.
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
    /// first change converts the item to a number record. Later changes update this record in
    /// place, with one store.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if memory for the new record is missing.
    pub fn arithmetic(
        &self,
        operation: &Operation<'_>,
        counting: &ArithmeticRequest<'_>,
    ) -> Result<Arithmetic, StoreError> {
        let op = &self.op_of(operation);
        self.segments().flush_if_due(op.now);
        self.update_or_replace(
            op,
            counting.key,
            Arithmetic::NotFound,
            |found| self.arithmetic_in_place(op, counting, found),
            |found| self.arithmetic_anew(op, counting, found),
        )
    }

    /// Changes a number record in place if the text of the new number has the same length and, if a
    /// new deadline is given, the record has a deadline field. The caller holds the lock of the
    /// item's group.
    fn arithmetic_in_place(
        &self,
        op: &Op<'_>,
        counting: &ArithmeticRequest<'_>,
        found: &Found,
    ) -> UpdatedValue<Arithmetic> {
        if counting.cas.is_some_and(|cas| cas != self.index().cas(found)) {
            return UpdatedValue::Done(Arithmetic::Exists);
        }
        let shown_bytes = found.header.shown_bytes();
        let has_room = found.header.deadline_at().is_some()
            || counting.deadline.is_none_or(|deadline| deadline == Deadline::NEVER);
        if !found.header.is_number() || !has_room || self.is_fixed(found) {
            return UpdatedValue::NotHere;
        }
        let moved = self.index().number(found).moved(counting.direction, counting.delta);
        if moved.text_over(shown_bytes).len() != shown_bytes {
            return UpdatedValue::NotHere;
        }
        self.set_number(op, found, moved.0, counting.version, counting.deadline);
        let meta = self.index().meta(found, shown_bytes, op.now);
        UpdatedValue::Done(Arithmetic::Number { number: moved.0, meta })
    }

    /// Writes a record with the changed number. Returns `None` if the item changed during the call.
    fn arithmetic_anew(
        &self,
        op: &Op<'_>,
        counting: &ArithmeticRequest<'_>,
        found: &Found,
    ) -> Option<Result<Arithmetic, StoreError>> {
        let version = self.index().version(found);
        if counting.cas.is_some_and(|cas| self.index().cas_of(version) != cas) {
            return self.is_settled(found, version).then_some(Ok(Arithmetic::Exists));
        }
        if found.header.is_large() {
            return self.index().is_still_there(found).then_some(Ok(Arithmetic::NonNumeric));
        }
        let old = self.value_of(found)?;
        let before = self.index().meta(found, old.len(), op.now);
        let Ok(number) = Number::parse(&old) else {
            return Some(Ok(Arithmetic::NonNumeric));
        };
        let moved = number.moved(counting.direction, counting.delta);
        // If many spaces follow the digits, the value stays a text.
        let text = moved.text_over(old.len());
        let over = Replace {
            found,
            origin: self.origin(found, version, &old),
            version: counting.version,
            deadline: counting.deadline,
            // Same as in memcached, where a longer number is a new item.
            keeps_identity: text.len() == old.len(),
        };
        let stored = self.replace_by_number(op, counting.key, &over, Some(moved.0), &text)?;
        Some(stored.map(|stored| match stored {
            Stored::Stored { cas, .. } => Arithmetic::Number {
                number: moved.0,
                meta: Meta { cas, value_bytes: text.len(), seen: op.now, ..over.meta(before) },
            },
            _ => Arithmetic::NotFound,
        }))
    }
}
