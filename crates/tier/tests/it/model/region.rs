//! The region: the state of the items and of the log in memory.

use super::address::{Address, Number, RECORDS};
use super::disk::{Dictionary, Disk, Extent, Header, Record, Unit, Value};
use super::rules::{Rule, Rules};

pub(crate) const KEYS: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Slot {
    #[default]
    Empty,
    Memory {
        value: Value,
        home: Address,
    },
    /// The item is on disk. Like the real slot, this contains no segment number; the extent map has
    /// it.
    Disk {
        extent: Extent,
        unit: u8,
        place: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State {
    Reserved,
    Complete,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Reservation {
    pub(crate) record: Record,
    pub(crate) state: State,
}

/// A unit in memory. It is kept until it is synced.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Buffer {
    pub(crate) number: Number,
    pub(crate) unit: u8,
    pub(crate) extent: Extent,
    /// The memory frame of the unit. It is reused after the unit is synced.
    pub(crate) frame: u8,
    /// The header to write with the first unit of a segment.
    header: Option<Header>,
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) sealed: bool,
    pub(crate) written: bool,
}

impl Buffer {
    pub(crate) fn is_complete(&self) -> bool {
        self.reservations.iter().all(|reservation| reservation.state == State::Complete)
    }

    fn end(&self) -> Address {
        Address::end_of(self.number, self.unit)
    }
}

/// The state of an extent in the region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Use {
    Free,
    Segment(Number),
    /// Freed. The erased header is not durable yet.
    Erasing,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Region {
    /// The number of units in a segment.
    units: u8,
    pub(crate) slots: [Slot; KEYS],
    pub(crate) extents: Vec<Use>,
    pub(crate) buffers: Vec<Buffer>,
    /// The segment to which records are appended: 0 before the first.
    pub(crate) current: Number,
    /// The highest segment number that is leased, as stored in the region.
    pub(crate) lease: Number,
    /// The number of the next segment.
    pub(crate) next_number: Number,
    /// The number of units of the current segment that have begun.
    pub(crate) begun: u8,
    pub(crate) synced: Address,
    pub(crate) flush: Address,
    pub(crate) delay: Address,
    /// The last address logged for each key.
    pub(crate) logged: [Address; KEYS],
    /// The dictionary of new records.
    pub(crate) dictionary: Dictionary,
    /// A dictionary that is written but not yet used.
    pub(crate) trained: Option<Trained>,
}

/// How far a new dictionary is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Trained {
    /// Its file is written.
    Written(Dictionary),
    /// The manifest names it.
    Named(Dictionary),
}

impl Region {
    pub(crate) fn empty(disk: &Disk) -> Self {
        let (extents, units) = (disk.extents(), disk.units());
        Self {
            units,
            slots: [Slot::Empty; KEYS],
            extents: vec![Use::Free; usize::from(extents)],
            buffers: Vec::new(),
            current: 0,
            lease: 0,
            next_number: 1,
            begun: units,
            synced: Address::NONE,
            flush: Address::NONE,
            delay: Address::NONE,
            logged: [Address::NONE; KEYS],
            dictionary: Dictionary::default(),
            trained: None,
        }
    }

    /// Returns the address after the last unit of a segment.
    pub(crate) fn end_of(&self, number: Number) -> Address {
        Address::end_of(number, self.units - 1)
    }

    /// True if a record can be reserved. Clients leave the last free extent to reclaim.
    pub(crate) fn has_room(&self, of_client: bool) -> bool {
        let joins = self
            .buffers
            .last()
            .is_some_and(|last| !last.sealed && last.reservations.len() < RECORDS);
        let free = self.extents.iter().filter(|used| **used == Use::Free).count();
        let begins = free > usize::from(of_client) && self.next_number <= self.lease;
        joins || self.begun < self.units || begins
    }

    /// Reserves space for a record. The caller has checked [`Region::has_room`].
    pub(crate) fn reserve(&mut self, record: Record, state: State) -> Address {
        let full = |last: &Buffer| last.sealed || last.reservations.len() == RECORDS;
        if self.buffers.last().is_none_or(full) {
            self.begin_unit();
        }
        let last = self.buffers.last_mut().unwrap();
        last.reservations.push(Reservation { record, state });
        Address::new(last.number, last.unit, last.reservations.len() - 1)
    }

    /// Returns the last reserved address.
    pub(crate) fn reserved_up_to(&self) -> Address {
        let last = self.buffers.last();
        let of = |last: &Buffer| {
            Address::new(last.number, last.unit, last.reservations.len().saturating_sub(1))
        };
        last.map_or(Address::NONE, of)
    }

    fn begin_unit(&mut self) {
        let mut header = None;
        if self.begun == self.units {
            header = Some(Header {
                number: self.next_number,
                previous: self.current,
                delay: self.delay,
            });
            let free = self.extents.iter().position(|used| *used == Use::Free).unwrap();
            self.current = self.next_number;
            self.extents[free] = Use::Segment(self.current);
            self.next_number += 1;
            self.begun = 0;
        }
        let extent = self.extent_of(self.current).unwrap();
        let is_used = |frame: &u8| self.buffers.iter().any(|buffer| buffer.frame == *frame);
        let frame = (0..).find(|frame| !is_used(frame)).unwrap();
        self.buffers.push(Buffer {
            number: self.current,
            unit: self.begun,
            extent,
            frame,
            header,
            reservations: Vec::new(),
            sealed: false,
            written: false,
        });
        self.begun += 1;
    }

    pub(crate) fn extent_of(&self, number: Number) -> Option<Extent> {
        let at = self.extents.iter().position(|used| *used == Use::Segment(number))?;
        Some(at as Extent)
    }

    pub(crate) fn number_of(&self, extent: Extent) -> Option<Number> {
        match self.extents[usize::from(extent)] {
            Use::Segment(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn reservation(&mut self, at: Address) -> Option<&mut Reservation> {
        let buffer = self
            .buffers
            .iter_mut()
            .find(|buffer| buffer.number == at.number() && buffer.unit == at.unit())?;
        buffer.reservations.get_mut(at.place())
    }

    /// Returns the buffer of a unit that is not yet synced.
    pub(crate) fn buffer(&self, at: Address) -> Option<&Buffer> {
        let is_of = |buffer: &&Buffer| buffer.number == at.number() && buffer.unit == at.unit();
        self.buffers.iter().find(is_of)
    }

    /// Returns the current content of a frame, whatever unit it belongs to.
    pub(crate) fn in_frame(&self, frame: u8) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.frame == frame)
    }

    pub(crate) fn complete(&mut self, at: Address) {
        if let Some(reservation) = self.reservation(at) {
            reservation.state = State::Complete;
        }
    }

    pub(crate) fn void(&mut self, at: Address) {
        if let Some(reservation) = self.reservation(at) {
            *reservation = Reservation { record: Record::Void, state: State::Complete };
        }
    }

    /// Returns the slot for a record in the log.
    pub(crate) fn disk_slot(&self, at: Address) -> Option<Slot> {
        let extent = self.extent_of(at.number())?;
        Some(Slot::Disk { extent, unit: at.unit(), place: at.place() as u8 })
    }

    /// Returns the address that a slot points to, if its segment still exists.
    pub(crate) fn home(&self, slot: Slot) -> Option<Address> {
        match slot {
            Slot::Empty => None,
            Slot::Memory { home, .. } => Some(home),
            Slot::Disk { extent, unit, place } => {
                let number = self.number_of(extent)?;
                Some(Address::new(number, unit, usize::from(place)))
            }
        }
    }

    /// True if the flush removed the item, according to the order of the log.
    pub(crate) fn is_flushed(&self, slot: Slot) -> bool {
        self.home(slot).is_some_and(|home| home < self.flush)
    }

    /// Returns the next unit that may be written.
    fn next_to_write(&self, rules: Rules) -> Option<usize> {
        let ready = |buffer: &Buffer| !buffer.reservations.is_empty() && buffer.is_complete();
        let waiting = |buffer: &&Buffer| !buffer.written;
        let at = if rules.keep(Rule::WriteInOrder) {
            let at = self.buffers.iter().position(|buffer| !buffer.written)?;
            ready(&self.buffers[at]).then_some(at)?
        } else {
            self.buffers.iter().position(|buffer| waiting(&buffer) && ready(buffer))?
        };
        let begins = self.buffers[at].header;
        let durable = begins.is_none_or(|header| {
            header.previous == 0 || Address::new(header.previous, 0, 0) < self.synced
        });
        (durable || !rules.keep(Rule::HeaderBeforeNext)).then_some(at)
    }

    /// Writes the next unit. Returns `false` if none is ready.
    pub(crate) fn write(&mut self, disk: &mut Disk, rules: Rules) -> bool {
        let Some(at) = self.next_to_write(rules) else { return false };
        let now_pending = self.delay;
        let buffer = &mut self.buffers[at];
        let records = buffer.reservations.iter().map(|reservation| reservation.record).collect();
        let unit = Unit { number: buffer.number, synced_through: self.synced, records };
        disk.write_unit(buffer.extent, buffer.unit, unit);
        if let Some(mut header) = buffer.header {
            if !rules.keep(Rule::HeaderAsBegun) {
                header.delay = now_pending;
            }
            if !rules.keep(Rule::HeadersRepeatDelay) {
                header.delay = Address::NONE;
            }
            disk.write_header(buffer.extent, header);
        }
        if rules.keep(Rule::SealBeforeWrite) || buffer.reservations.len() == RECORDS {
            buffer.sealed = true;
            buffer.written = true;
        }
        let end = buffer.end();
        if !rules.keep(Rule::AnswerAfterSync) {
            self.synced = end;
        }
        if !rules.keep(Rule::BuffersUntilSynced) {
            self.buffers.retain(|buffer| !buffer.written);
        }
        true
    }

    /// Writes the summary of a closed segment. Returns `false` if none is ready.
    pub(crate) fn summarize(&self, disk: &mut Disk, rules: Rules) -> bool {
        let segments = (0..).zip(&self.extents).filter_map(|(extent, used)| match used {
            Use::Segment(number) if *number != self.current => Some((extent, *number)),
            _ => None,
        });
        let is_written = |number| {
            let mut units = self.buffers.iter().filter(|buffer| buffer.number == number);
            units.all(|unit| unit.written)
        };
        let is_ready = |number| match rules.keep(Rule::SummaryAfterSync) {
            true => self.end_of(number) <= self.synced,
            false => is_written(number),
        };
        let has_none = |extent, number| disk.summary(extent, number).is_none();
        let mut ready = segments.filter(|(extent, number)| has_none(*extent, *number));
        let Some((extent, number)) = ready.find(|(_, number)| is_ready(*number)) else {
            return false;
        };
        disk.write_summary(extent, number);
        true
    }

    /// Fails to write the next unit. Returns `false` if none is ready.
    pub(crate) fn fail_write(&mut self, disk: &mut Disk, rules: Rules) -> bool {
        let Some(at) = self.next_to_write(rules) else { return false };
        let buffer = &mut self.buffers[at];
        disk.tear_unit(buffer.extent, buffer.unit);
        if !rules.keep(Rule::ErrorIsFinal) {
            buffer.sealed = true;
            buffer.written = true;
        }
        true
    }

    /// Marks all written units as durable.
    pub(crate) fn on_sync(&mut self, disk: &Disk, rules: Rules) {
        for at in 0..self.extents.len() {
            if self.extents[at] == Use::Erasing {
                self.extents[at] = Use::Free;
            }
        }
        if !rules.keep(Rule::SealBeforeWrite) {
            self.sync_open_unit(disk);
        }
        if !rules.keep(Rule::BuffersUntilSynced) {
            let begun = Address::end_of(self.current, self.begun.saturating_sub(1));
            let waiting =
                self.buffers.first().map(|buffer| Address::new(buffer.number, buffer.unit, 0));
            self.synced = self.synced.max(waiting.unwrap_or(begun));
        }
        while let Some(written) = self.buffers.iter().position(|buffer| buffer.written) {
            let buffer = self.buffers.remove(written);
            self.synced = self.synced.max(buffer.end());
        }
    }

    /// Without the rule about seals, the disk may have the open unit in its current state.
    fn sync_open_unit(&mut self, disk: &Disk) {
        let Some(open) = self.buffers.iter().find(|buffer| !buffer.written) else { return };
        let on_disk = disk.unit(open.extent, open.unit, open.number);
        let records = on_disk.map_or(0, |unit| unit.records.len());
        if records > 0 {
            self.synced = self.synced.max(Address::new(open.number, open.unit, records));
        }
    }
}
