//! Overwrites in place: a store of a value that fits exactly where the old value is.
//!
//! An item that is stored again and again writes one record after the other, and each of them makes
//! the last one garbage, which costs memory and work to reclaim. So after a few stores the item's
//! record becomes *overwritable*: it has a version, also in a cache without cas tokens, and readers
//! check the version after their copy. The next stores of a value with the same fields and the same
//! length of the record overwrite the value in this record.
//!
//! If a process is killed during an overwrite, the value is a mixture of two. The process that
//! repairs the region removes the item.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Deadline;
use larder_stats::Counter;

use crate::engine::Engine;
use crate::error::Stuck;
use crate::index::find::Found;
use crate::index::removal::Reason;
use crate::ops::condition::Condition;
use crate::ops::publish::{Life, Verdict};
use crate::ops::request::{StoreRequest, Stored};
use crate::process::op::Op;
use crate::process::thread_slot::InPlace;
use crate::segment::record::{Draft, Form, Header, INITIAL_FREQ_MAX};
use crate::segment::slot::Slot;

/// Items with at least this freq receive an overwritable record: they were stored or read at least
/// twice before. The freq is in the slot, so most other stores need not load the record first.
const FREQ_MIN: u64 = INITIAL_FREQ_MAX;

/// A slot that probably names the item of a hash, as it was before the group was locked.
#[derive(Clone, Copy)]
pub(crate) struct OldSlot {
    pub(crate) hash: u64,
    /// The offset of the slot.
    pub(crate) at: usize,
    pub(crate) slot: Slot,
}

impl Engine {
    /// True if the record of the next store over the item of this slot should be overwritable.
    pub(crate) fn is_worth_overwriting(
        &self,
        old: Option<Slot>,
        condition: &Condition<'_>,
        form: Form,
    ) -> bool {
        old.is_some_and(|old| old.freq() >= FREQ_MIN)
            && form == Form::Plain
            && matches!(condition, Condition::Requested(_))
            // See `is_fixed`.
            && self.journal().is_none()
    }

    /// True if the record that a slot names can probably be overwritten by this value.
    #[inline]
    pub(crate) fn may_overwrite(&self, old: Slot, key: &[u8], value: &[u8]) -> bool {
        if old.freq() < FREQ_MIN {
            return false;
        }
        let header = Header::load(self.region().memory(), self.segments().record_at(old));
        header.is_overwritable()
            && header.fits(key.len())
            && header.has_place_for_value(value.len())
    }

    /// Stores a value in the record of the key's item. Returns `None` if the value needs a new
    /// record. `old` probably names the item.
    pub(crate) fn overwrite(
        &self,
        op: &Op<'_>,
        request: &StoreRequest<'_>,
        old: &OldSlot,
        value: &[u8],
        condition: &Condition<'_>,
    ) -> Result<Option<Stored>, Stuck> {
        // Held while the slot is compared and the record is written.
        let _locked = match self.index().try_lock(op.thread, old.hash) {
            Some(locked) => locked,
            None => self.index().lock(op, old.hash)?,
        };
        let Some(found) = self.index().find_again(old.at, old.slot, request.key) else {
            return Ok(None);
        };
        if !found.header.is_overwritable() || self.index().death(&found, op.now).is_some() {
            return Ok(None);
        }
        let verdict = self.evaluate_condition(condition, Some(&found), Some(&found));
        match verdict {
            Verdict::Store | Verdict::StoreStale => {}
            Verdict::Not(stored) => return Ok(Some(stored)),
            Verdict::Changed => return Ok(None),
        }
        let header = header_over(&found, request, value, condition);
        let stream = self.segments().stream(found.slot.segment());
        let wanted = self.segments().stream_of(stream.pool, request.deadline, op.now);
        // Segments hold items of similar TTL.
        if !found.header.has_place_for(header) || wanted != stream || self.is_fixed(&found) {
            return Ok(None);
        }
        // Before the change, because listeners receive the old value.
        self.index().report_removal(&found, Reason::Replaced);
        let life = self.liveness(header, condition, &verdict, Some(&found));
        let life = Life { header: life.header.with_used(op.now), ..life };
        let cas = self.update_value(op.thread, &found, request.version, InPlace::Overwrite, || {
            self.write_over(&found, request, value, &life);
        });
        self.bump(op.thread, Counter::BytesWritten, header.record_bytes() as u64);
        self.bump(op.thread, Counter::ItemsTotal, 1);
        Ok(Some(Stored::Stored { cas, value_bytes: value.len() }))
    }

    /// Writes the value, the fields and the header of an overwrite, and the item's freq.
    #[inline]
    fn write_over(&self, found: &Found, request: &StoreRequest<'_>, value: &[u8], life: &Life) {
        let (header, record_at) = (life.header, found.record_at);
        self.region().memory().write(record_at + header.value_at(), value);
        if let Some(at) = header.flags_at() {
            self.region().half(record_at + at).store(request.flags, Relaxed);
        }
        self.index().set_deadline(found, Some(life.deadline.unwrap_or(request.deadline)));
        self.index().set_header(found, header);
        // An unchanged slot is not written, so that its cache line stays shared by readers.
        let slot = self.index().slot(found.slot_at);
        if slot.freq() != life.freq {
            self.index().set_slot(found.slot_at, slot.with_freq(life.freq));
        }
    }
}

/// Returns the header of a record with the new value and the fields of the found one. A deadline
/// field stays, even for "never".
#[inline]
fn header_over(
    found: &Found,
    request: &StoreRequest<'_>,
    value: &[u8],
    condition: &Condition<'_>,
) -> Header {
    let keeps = found.header.deadline_at().is_some();
    let deadline = condition.deadline_field(request).or(keeps.then_some(Deadline::NEVER));
    let draft = Draft {
        key: request.key,
        hash: 0,
        flags: request.flags,
        deadline,
        versioned: true,
        value,
        form: found.header.form_of_overwrite(),
    };
    draft.header()
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
