//! Looking at what is stored, item by item.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use larder_item::{Meta, Second};
use larder_region::layout::global;

use crate::Engine;

/// An item as a dump shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// The item's key.
    pub key: Vec<u8>,
    /// What is known of it.
    pub meta: Meta,
}

impl Engine {
    /// Shows live items to `visit` until it says no. In no particular order; items stored or moved meanwhile
    /// may be shown or not, and one may be shown twice.
    pub fn dump(&self, now: Second, mut visit: impl FnMut(Dumped) -> bool) {
        for group in 0..self.memory.word(global::GROUPS).load(Acquire) {
            for found in self.linked(group) {
                if found.sequence == 0 || self.death(&found, now).is_some() {
                    continue;
                }
                let value_bytes = match found.header.is_large() {
                    false => found.header.value_bytes(),
                    true => {
                        self.memory.word(found.record_at + found.header.value_at()).load(Relaxed)
                            as usize
                    }
                };
                let dumped = Dumped { key: self.key(&found), meta: self.meta(&found, value_bytes) };
                let unchanged = found.slot.is_of(found.sequence)
                    && self.slot(found.slot_at).is_same(found.slot)
                    && self.is_still_there(&found);
                if unchanged && !visit(dumped) {
                    return;
                }
            }
        }
    }
}
