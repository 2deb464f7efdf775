//! Signed numbers: a sum, and a comparison with a new value.
//!
//! The value is the decimal text of an i64, without padding. A number of 0 or more is stored in a
//! number record, as in [`arithmetic`](crate::ops::arithmetic), and changes in place while its text
//! has the same length. A negative number is stored as a text, and each change of it writes a
//! record.

use crate::engine::Engine;
use crate::error::StoreError;
use crate::index::find::Found;
use crate::ops::condition::Replace;
use crate::ops::request::Stored;
use crate::ops::update_value::UpdatedValue;
use crate::process::op::Op;
use crate::process::operation::Operation;

/// A change of a signed number.
///
/// ```
/// use larder_engine::{SignedChange, SignedRequest};
/// let request = SignedRequest::new(b"balance", SignedChange::Add(-5));
/// assert_eq!(request.flags_mask, 0, "any item whose value is a number");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The change.
    pub change: SignedChange,
    /// The bits of the item's flags that are compared with `flags`.
    pub flags_mask: u32,
    /// The flags that the item must have, within `flags_mask`.
    pub flags: u32,
}

/// The kinds of changes of a signed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedChange {
    /// Adds, and wraps around at 2⁶³.
    Add(i64),
    /// Stores `new` if the number is `old`.
    Swap {
        /// The number that the item must have.
        old: i64,
        /// The number to store.
        new: i64,
    },
}

/// The outcome of a change of a signed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// The new number.
    Number(i64),
    /// The item has another number, and was not changed.
    Differs(i64),
    /// No item has the key.
    NotFound,
    /// The item's value is not a number, or its flags differ.
    NonNumeric,
}

impl<'a> SignedRequest<'a> {
    /// Returns a request for an item whose flags do not matter.
    pub const fn new(key: &'a [u8], change: SignedChange) -> Self {
        Self { key, change, flags_mask: 0, flags: 0 }
    }

    fn accepts(&self, flags: u32) -> bool {
        (flags ^ self.flags) & self.flags_mask == 0
    }
}

impl SignedChange {
    /// Returns the number after the change, or `None` if it is not the expected one.
    fn of(self, number: i64) -> Option<i64> {
        match self {
            Self::Add(delta) => Some(number.wrapping_add(delta)),
            Self::Swap { old, new } => (number == old).then_some(new),
        }
    }
}

/// Parses a number. Accepts spaces around it, which a decrement leaves, but no plus sign.
fn parse(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Returns the length of the decimal text of a number that is not negative.
fn text_bytes(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

impl Engine {
    /// Changes a signed number.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if memory for a new record is missing.
    pub fn signed(
        &self,
        operation: &Operation<'_>,
        request: &SignedRequest<'_>,
    ) -> Result<Signed, StoreError> {
        let op = &self.op_of(operation);
        self.segments().flush_if_due(op.now);
        self.update_or_replace(
            op,
            request.key,
            Signed::NotFound,
            |found| self.signed_in_place(op, request, found),
            |found| self.signed_anew(op, request, found),
        )
    }

    /// Changes a number record in place if the new number is not negative and its text has the same
    /// length. The caller holds the lock of the item's group.
    fn signed_in_place(
        &self,
        op: &Op<'_>,
        request: &SignedRequest<'_>,
        found: &Found,
    ) -> UpdatedValue<Signed> {
        if !request.accepts(self.index().flags(found)) {
            return UpdatedValue::Done(Signed::NonNumeric);
        }
        if !found.header.is_number() || self.is_fixed(found) {
            return UpdatedValue::NotHere;
        }
        let Ok(number) = i64::try_from(self.index().number(found).0) else {
            return UpdatedValue::Done(Signed::NonNumeric);
        };
        let Some(new) = request.change.of(number) else {
            return UpdatedValue::Done(Signed::Differs(number));
        };
        match u64::try_from(new) {
            Ok(word) if text_bytes(word) == found.header.shown_bytes() => {
                self.set_number(op, found, word, None, None);
                UpdatedValue::Done(Signed::Number(new))
            }
            _ => UpdatedValue::NotHere,
        }
    }

    /// Writes a record with the changed number. Returns `None` if the item changed during the call.
    fn signed_anew(
        &self,
        op: &Op<'_>,
        request: &SignedRequest<'_>,
        found: &Found,
    ) -> Option<Result<Signed, StoreError>> {
        let version = self.index().version(found);
        let settled = |outcome| self.is_settled(found, version).then_some(Ok(outcome));
        if found.header.is_large() || !request.accepts(self.index().flags(found)) {
            return settled(Signed::NonNumeric);
        }
        let old = self.value_of(found)?;
        let Some(number) = parse(&old) else {
            return settled(Signed::NonNumeric);
        };
        let Some(new) = request.change.of(number) else {
            return settled(Signed::Differs(number));
        };
        let text = new.to_string();
        let over = Replace {
            found,
            origin: self.origin(found, version, &old),
            version: None,
            deadline: None,
            keeps_identity: text.len() == old.len(),
        };
        let word = u64::try_from(new).ok();
        let stored = self.replace_by_number(op, request.key, &over, word, text.as_bytes())?;
        Some(stored.map(|stored| match stored {
            Stored::Stored { .. } => Signed::Number(new),
            _ => Signed::NotFound,
        }))
    }
}

#[cfg(test)]
mod tests {
    use larder_item::{Deadline, Direction, Second, StoreMode};
    use larder_stats::Counter;

    use super::*;
    use crate::fixtures::SMALL;
    use crate::ops::arithmetic::ArithmeticRequest;
    use crate::ops::request::StoreRequest;
    use crate::process::thread_slot::ThreadSlot;

    const NOW: Second = 10;

    struct Scene {
        engine: Engine,
        thread: ThreadSlot,
    }

    impl Scene {
        fn new(keeps_versions: bool) -> Self {
            let config = crate::open::Config { keeps_versions, ..SMALL };
            let engine = Engine::create(&config).unwrap();
            let thread = engine.register().unwrap();
            Self { engine, thread }
        }

        fn set(&self, value: &[u8], flags: u32) {
            let request = StoreRequest {
                flags,
                deadline: Deadline(NOW + 50),
                ..StoreRequest::new(b"n", StoreMode::Set)
            };
            self.engine.store(&Operation::new(&self.thread, NOW), &request, value).unwrap();
        }

        fn change(&self, change: SignedChange) -> Signed {
            let request =
                SignedRequest { flags_mask: 15, flags: 1, ..SignedRequest::new(b"n", change) };
            self.engine.signed(&Operation::new(&self.thread, NOW), &request).unwrap()
        }

        fn add(&self, delta: i64) -> Signed {
            self.change(SignedChange::Add(delta))
        }

        fn value(&self) -> String {
            let (value, meta) = self.engine.peek_value(b"n", NOW).unwrap();
            assert_eq!(meta.deadline, Deadline(NOW + 50));
            String::from_utf8(value).unwrap()
        }

        fn in_place(&self) -> u64 {
            self.engine.counter(Counter::AlteredInPlace)
        }
    }

    #[test]
    fn a_signed_number_goes_below_0_and_back_and_has_no_padding() {
        for keeps_versions in [false, true] {
            let scene = Scene::new(keeps_versions);
            assert_eq!(scene.add(1), Signed::NotFound);
            scene.set(b"8", 1 | 0x70);
            for (delta, text) in
                [(1, "9"), (1, "10"), (-1, "9"), (-9, "0"), (-1, "-1"), (-9, "-10"), (15, "5")]
            {
                assert_eq!(scene.add(delta), Signed::Number(text.parse().unwrap()));
                assert_eq!(scene.value(), text);
            }
            scene.engine.validate().unwrap();
        }
    }

    #[test]
    fn a_sum_wraps_at_the_ends_of_the_range() {
        let scene = Scene::new(false);
        scene.set(i64::MAX.to_string().as_bytes(), 1);
        assert_eq!(scene.add(1), Signed::Number(i64::MIN));
        assert_eq!(scene.value(), i64::MIN.to_string());
        assert_eq!(scene.add(-1), Signed::Number(i64::MAX));
        assert_eq!(scene.add(i64::MIN), Signed::Number(-1));
    }

    #[test]
    fn a_number_that_keeps_its_length_changes_in_place() {
        let scene = Scene::new(false);
        scene.set(b"100", 1);
        assert_eq!(scene.add(1), Signed::Number(101));
        let before = scene.in_place();
        for number in 102..200 {
            assert_eq!(scene.add(1), Signed::Number(number));
        }
        assert_eq!(scene.in_place() - before, 98);
        assert_eq!(scene.add(-100), Signed::Number(99));
        assert_eq!(scene.in_place() - before, 98);
    }

    #[test]
    fn a_swap_stores_only_over_the_number_that_it_names() {
        for (keeps_versions, old) in [(false, "7"), (true, "7"), (false, "-7"), (true, "-7")] {
            let scene = Scene::new(keeps_versions);
            let number: i64 = old.parse().unwrap();
            assert_eq!(scene.change(SignedChange::Swap { old: 0, new: 1 }), Signed::NotFound);
            scene.set(old.as_bytes(), 1);
            for _ in 0..2 {
                let differs = scene.change(SignedChange::Swap { old: 0, new: 1 });
                assert_eq!(differs, Signed::Differs(number));
                let swap = SignedChange::Swap { old: number, new: number };
                assert_eq!(scene.change(swap), Signed::Number(number));
            }
            let swap = SignedChange::Swap { old: number, new: -1000 };
            assert_eq!(scene.change(swap), Signed::Number(-1000));
            assert_eq!(scene.value(), "-1000");
        }
    }

    #[test]
    fn other_flags_and_other_values_are_no_signed_numbers() {
        let scene = Scene::new(true);
        for (value, flags) in [
            (&b"1"[..], 0),
            (b"1", 2),
            (b"", 1),
            (b"+1", 1),
            (b"1x", 1),
            (b"--1", 1),
            (b"1.5", 1),
            (b"9223372036854775808", 1),
            (b"18446744073709551615", 1),
            (&[b'1'; 100_000], 1),
        ] {
            scene.set(value, flags);
            assert_eq!(scene.add(1), Signed::NonNumeric, "{flags}");
            assert_eq!(scene.change(SignedChange::Swap { old: 1, new: 2 }), Signed::NonNumeric);
        }
        // An increment made this number record, whose number exceeds the range of signed numbers.
        scene.set(b"18446744073709551614", 1);
        let counting = ArithmeticRequest::new(b"n", Direction::Increment, 1);
        scene.engine.arithmetic(&Operation::new(&scene.thread, NOW), &counting).unwrap();
        assert_eq!(scene.add(1), Signed::NonNumeric);
    }

    #[test]
    fn signed_and_unsigned_changes_of_one_number_follow_each_other() {
        let scene = Scene::new(false);
        scene.set(b"10", 1);
        let counting = ArithmeticRequest::new(b"n", Direction::Decrement, 1);
        scene.engine.arithmetic(&Operation::new(&scene.thread, NOW), &counting).unwrap();
        assert_eq!(scene.value(), "9 ");
        assert_eq!(scene.add(0), Signed::Number(9));
        assert_eq!(scene.value(), "9");
    }
}
