//! A set of slots of a locked chain that must move, for example in a split. Has a fixed size, so
//! that no memory is allocated while the group is locked.

use crate::index::Index;
use crate::index::chain::CHAIN_GROUPS_MAX;
use crate::index::group::{SECOND_LINE, SLOTS};
use crate::segment::slot::Slot;

/// One bit for each slot of a group.
type Marks = u16;

/// All slots of a group.
pub(crate) const ALL: Marks = (1 << SLOTS) - 1;
/// The slots of its first line.
const FIRST_LINE: Marks = (1 << SECOND_LINE) - 1;

/// The groups of a chain, and the selected slots in each of them.
#[derive(Clone)]
pub(crate) struct Selection {
    groups_at: [usize; CHAIN_GROUPS_MAX],
    marks: [Marks; CHAIN_GROUPS_MAX],
    groups: usize,
}

impl Selection {
    /// Selects the filled slots of a chain for which `wanted` returns true.
    pub(crate) fn of(
        index: &Index,
        chain: impl Iterator<Item = usize>,
        wanted: impl Fn(Slot) -> bool,
    ) -> Self {
        let mut selection =
            Self { groups_at: [0; CHAIN_GROUPS_MAX], marks: [0; CHAIN_GROUPS_MAX], groups: 0 };
        for group_at in chain.take(CHAIN_GROUPS_MAX) {
            let number = selection.groups;
            selection.groups_at[number] = group_at;
            for place in 0..SLOTS {
                let slot = index.slot(slot_at(group_at, place));
                selection.marks[number] |= Marks::from(!slot.is_empty() && wanted(slot)) << place;
            }
            selection.groups += 1;
        }
        selection
    }

    /// Returns the groups of the chain.
    pub(crate) fn groups(&self) -> &[usize] {
        &self.groups_at[..self.groups]
    }

    /// Returns the number of selected slots.
    pub(crate) fn count(&self) -> usize {
        self.marks.iter().map(|marks| marks.count_ones() as usize).sum()
    }

    /// Returns the places in one group of the chain, given its position in the chain, that are not
    /// selected.
    pub(crate) fn others(&self, number: usize) -> Marks {
        ALL & !self.marks[number]
    }

    /// Returns the selection without the slots in the first `groups` groups of the chain.
    pub(crate) fn behind(&self, groups: usize) -> Self {
        let mut rest = self.clone();
        rest.marks[..groups].fill(0);
        rest
    }

    /// Empties the selected slots.
    pub(crate) fn clear(&self, index: &Index) {
        for (group_at, marks) in self.groups().iter().zip(self.marks) {
            places(marks).for_each(|place| index.set_slot(slot_at(*group_at, place), Slot::EMPTY));
        }
    }

    /// Copies selected slots to the `free` places of a group, if possible in the same line as
    /// before, and removes the copied slots from the selection.
    pub(crate) fn copy_into(&mut self, index: &Index, group_at: usize, mut free: Marks) {
        for is_same_line in [true, false] {
            for number in 0..self.groups {
                for place in places(self.marks[number]) {
                    let fitting = if is_same_line { free & line_of(place) } else { free };
                    let Some(to) = places(fitting).next() else {
                        continue;
                    };
                    let slot = index.slot(slot_at(self.groups_at[number], place));
                    index.set_slot(slot_at(group_at, to), slot);
                    free &= !(1 << to);
                    self.marks[number] &= !(1 << place);
                }
            }
        }
    }
}

fn slot_at(group_at: usize, place: usize) -> usize {
    group_at + 8 + place * 8
}

/// Returns the places of a slot's line. Without the key, the line is the only known bit of the
/// hash.
fn line_of(place: usize) -> Marks {
    if place < SECOND_LINE { FIRST_LINE } else { ALL & !FIRST_LINE }
}

/// Returns the marked places, from the first to the last.
fn places(mut marks: Marks) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (marks != 0).then(|| marks.trailing_zeros() as usize);
        marks &= marks.wrapping_sub(1);
        place
    })
}
