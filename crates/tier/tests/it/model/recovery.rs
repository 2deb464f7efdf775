//! Recovery: reads the log at a start.

use super::address::{Address, LEASED, Number};
use super::disk::{Disk, Extent, Header, Manifest, Record, Unit, Value};
use super::region::{KEYS, Region, Slot, Use};
use super::rules::{Rule, Rules};
use super::spec::Items;
use super::world::{Phase, Step, Successors, World};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Recovery {
    Begin,
    Read,
    EraseAbove(Survey),
    SyncAbove(Survey),
    VoidCut(Survey),
    SyncCut(Survey),
    NoteEnd(Survey),
    Serve(Survey),
}

/// The lease of a region.
pub(crate) fn granted(lease: Number, rules: Rules) -> Number {
    if rules.keep(Rule::LeaseBeforeNumber) { lease } else { Number::MAX }
}

/// The result of reading the log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Survey {
    /// The segments in the order of their numbers.
    segments: Vec<(Extent, Header)>,
    /// The first position without a valid unit, as segment and unit.
    cut: Option<(usize, u8)>,
}

pub(crate) fn steps(world: &World, recovery: &Recovery, rules: Rules, next: &mut Successors) {
    let mut world = world.clone();
    let (what, then) = match recovery.clone() {
        Recovery::Begin => begin(&mut world, rules),
        Recovery::Read => match read(&mut world, rules) {
            Ok(survey) => ("reads the log", Recovery::EraseAbove(survey)),
            Err(fault) => {
                world.fail(fault);
                ("reads the log", Recovery::Begin)
            }
        },
        Recovery::EraseAbove(survey) => {
            if rules.keep(Rule::EraseAboveCut) {
                survey.erase_above(&mut world.disk);
            }
            ("erases the segments above the cut", Recovery::SyncAbove(survey))
        }
        Recovery::SyncAbove(survey) => {
            if rules.keep(Rule::AboveBeforeCut) {
                world.disk.sync();
            }
            ("syncs them", Recovery::VoidCut(survey))
        }
        Recovery::VoidCut(survey) => {
            if !rules.keep(Rule::EndAfterSync) {
                survey.note_end(&mut world.disk, rules);
            }
            if rules.keep(Rule::VoidAtCut) {
                survey.void_cut(&mut world.disk);
            }
            ("voids the unit at the cut", Recovery::SyncCut(survey))
        }
        Recovery::SyncCut(survey) => {
            if rules.keep(Rule::SyncBeforeServing) {
                world.disk.sync();
            }
            ("syncs it", Recovery::NoteEnd(survey))
        }
        Recovery::NoteEnd(survey) => {
            survey.note_end(&mut world.disk, rules);
            ("notes the end of the log", Recovery::Serve(survey))
        }
        Recovery::Serve(survey) => {
            serve(&mut world, &survey, rules);
            next.push((Step::of("recovery", "serves"), world));
            return;
        }
    };
    world.phase = Phase::Recovering(Box::new(then));
    next.push((Step::of("recovery", what), world));
}

fn begin(world: &mut World, rules: Rules) -> (&'static str, Recovery) {
    let manifest = world.disk.manifest();
    let lease = manifest.lease + LEASED;
    let durable = rules.keep(Rule::ManifestIsDurable);
    world.disk.replace_manifest(Manifest { lease, ..manifest }, durable);
    ("leases numbers", Recovery::Read)
}

fn read(world: &mut World, rules: Rules) -> Result<Survey, String> {
    if rules.keep(Rule::ReadAroundCache) {
        world.disk.drop_cache();
    }
    Survey::of(&world.disk)
}

impl Survey {
    fn of(disk: &Disk) -> Result<Self, String> {
        let with_header = |extent| disk.header(extent).map(|header| (extent, header));
        let mut segments: Vec<_> = (0..disk.extents()).filter_map(with_header).collect();
        segments.sort_unstable_by_key(|(_, header)| header.number);
        for pair in segments.windows(2) {
            if pair[1].1.previous != pair[0].1.number {
                return Err(format!("a segment is missing before {:?}: corruption", pair[1].1));
            }
        }
        let mut survey = Self { segments, cut: None };
        survey.find_cut(disk)?;
        Ok(survey)
    }

    fn units(&self, disk: &Disk) -> impl Iterator<Item = (usize, Extent, Number, u8)> {
        let segments = self.segments.iter().enumerate();
        let units = disk.units();
        segments.flat_map(move |(at, (extent, header))| {
            (0..units).map(move |unit| (at, *extent, header.number, unit))
        })
    }

    fn find_cut(&mut self, disk: &Disk) -> Result<(), String> {
        let mut through = disk.manifest().durable;
        let mut cut = None;
        let mut shut = None;
        for (at, extent, number, unit) in self.units(disk) {
            match disk.unit(extent, unit, number) {
                _ if shut == Some(at) || disk.summary(extent, number).is_some() => {}
                Some(found) if found.is_void() => shut = Some(at),
                Some(found) => through = through.max(found.synced_through),
                None if cut.is_none() => cut = Some((at, number, unit)),
                None => {}
            }
        }
        if let Some((at, number, unit)) = cut {
            if Address::new(number, unit, 0) < through {
                let cut = Address::new(number, unit, 0);
                return Err(format!(
                    "no good unit at {cut:?}, durable up to {through:?}: corruption"
                ));
            }
            self.cut = Some((at, unit));
        } else if self.end() < through {
            return Err(format!("the log ends at {:?}, durable up to {through:?}", self.end()));
        }
        Ok(())
    }

    /// Returns the end of the log after the cut is void.
    fn end(&self) -> Address {
        let last = self.kept().last();
        last.map_or(Address::NONE, |(_, header)| Address::new(header.number + 1, 0, 0))
    }

    fn note_end(&self, disk: &mut Disk, rules: Rules) {
        let manifest = disk.manifest();
        let durable = manifest.durable.max(self.end());
        let is_durable = rules.keep(Rule::ManifestIsDurable);
        disk.replace_manifest(Manifest { durable, ..manifest }, is_durable);
    }

    fn erase_above(&self, disk: &mut Disk) {
        let Some((cut_at, _)) = self.cut else { return };
        for (extent, _) in self.segments.iter().skip(cut_at + 1) {
            disk.erase(*extent);
        }
    }

    fn void_cut(&self, disk: &mut Disk) {
        let Some((at, unit)) = self.cut else { return };
        let (extent, header) = self.segments[at];
        if unit == 0 {
            disk.erase(extent);
        } else {
            disk.write_unit(extent, unit, void(header.number));
        }
    }

    /// Returns the segments that are kept.
    fn kept(&self) -> &[(Extent, Header)] {
        match self.cut {
            Some((at, unit)) => &self.segments[..at + usize::from(unit > 0)],
            None => &self.segments,
        }
    }
}

fn void(number: Number) -> Unit {
    Unit { number, synced_through: Address::NONE, records: Vec::new() }
}

/// The state from the records below the cut: the newest record of each key.
struct Found {
    region: Region,
    items: Items,
    newest: [Address; KEYS],
}

impl Found {
    fn read(disk: &Disk, survey: &Survey, rules: Rules) -> Self {
        let region = Region::empty(disk);
        let mut found = Self { region, items: Items::default(), newest: [Address::NONE; KEYS] };
        let cut = survey.cut.map(|(at, unit)| (survey.segments[at].1.number, unit));
        for (extent, header) in survey.kept() {
            found.region.extents[usize::from(*extent)] = Use::Segment(header.number);
            found.region.delay = found.region.delay.max(header.delay);
            if let Some(units) = disk.summary(*extent, header.number) {
                for (unit, content) in (0..).zip(units) {
                    found.unit(content, *extent, unit);
                }
                continue;
            }
            let below_cut = |unit: &u8| cut.is_none_or(|cut| (header.number, *unit) < cut);
            for unit in (0..disk.units()).filter(below_cut) {
                let Some(content) = disk.unit(*extent, unit, header.number) else { continue };
                if content.is_void() && rules.keep(Rule::VoidShuts) {
                    break;
                }
                found.unit(content, *extent, unit);
            }
        }
        found.bury();
        found
    }

    fn unit(&mut self, content: &Unit, extent: Extent, unit: u8) {
        for (place, record) in content.records.iter().enumerate() {
            let at = Address::new(content.number, unit, place);
            let slot = Slot::Disk { extent, unit, place: place as u8 };
            match *record {
                Record::Item { key, value, .. } => self.key(key, at, Some(value), slot),
                Record::Tombstone { key } => self.key(key, at, None, Slot::Empty),
                Record::Flush => self.region.flush = at,
                Record::Delay => self.region.delay = self.region.delay.max(at),
                Record::Void => {}
            }
        }
    }

    fn key(&mut self, key: u8, at: Address, value: Option<Value>, slot: Slot) {
        let key = usize::from(key);
        (self.newest[key], self.items.values[key], self.region.slots[key]) = (at, value, slot);
    }

    /// Applies the newest flush to the items before it, and to the delayed flush that it executes
    /// or cancels.
    fn bury(&mut self) {
        for (key, newest) in self.newest.iter().enumerate() {
            if *newest < self.region.flush {
                self.items.values[key] = None;
                self.region.slots[key] = Slot::Empty;
            }
        }
        if self.region.delay < self.region.flush {
            self.region.delay = Address::NONE;
        }
        self.items.delayed = self.region.delay != Address::NONE;
    }
}

fn serve(world: &mut World, survey: &Survey, rules: Rules) {
    if let Some(fault) = unreadable(&world.disk, survey) {
        world.fail(fault);
    }
    let found = Found::read(&world.disk, survey, rules);
    for slot in found.region.slots {
        if let Slot::Disk { extent, unit, .. } = slot
            && let Some(number) = found.region.number_of(extent)
            && world.disk.unit(extent, unit, number).is_none()
        {
            world.fail(format!("a summary names a record of a lost unit: {slot:?}"));
        }
    }
    finish(world, found.region, survey.kept(), rules);
    if let Err(fault) = world.spec.recover(found.items, world.struck) {
        world.fail(fault);
    }
}

/// Returns why a value of the log cannot be decompressed, or why a start is refused.
fn unreadable(disk: &Disk, survey: &Survey) -> Option<String> {
    let named = disk.manifest().dictionaries;
    let is_lost = |number: &u8| disk.dictionary(*number).content == 0;
    if let Some(lost) = (1..=named).find(is_lost) {
        return Some(format!("dictionary {lost} is lost, and the start is refused"));
    }
    let below_cut = |at: usize, unit: u8| survey.cut.is_none_or(|cut| (at, unit) < cut);
    let units = survey.units(disk).filter(|(at, _, _, unit)| below_cut(*at, *unit));
    let units = units.filter_map(|(_, extent, number, unit)| disk.unit(extent, unit, number));
    units.flat_map(|unit| &unit.records).find_map(|record| {
        let Record::Item { dictionary, .. } = *record else { return None };
        let is_known = dictionary.number <= named
            && disk.dictionary(dictionary.number).content == dictionary.content;
        (!is_known).then(|| format!("a value has {dictionary:?}, the disk has another one"))
    })
}

/// Resumes the region after the last segment that is kept.
fn finish(world: &mut World, mut region: Region, kept: &[(Extent, Header)], rules: Rules) {
    let last = kept.last().map_or(0, |(_, header)| header.number);
    region.current = last;
    region.next_number = last + 1;
    if rules.keep(Rule::NumbersAreNew) {
        // All numbers of earlier leases may have been used.
        region.next_number = world.disk.manifest().lease - LEASED + 1;
    }
    region.lease = granted(world.disk.manifest().lease, rules);
    region.dictionary = world.disk.dictionary(world.disk.manifest().dictionaries);
    if last > 0 {
        region.synced = region.end_of(last);
    }
    world.region = Some(region);
    world.phase = Phase::Running;
}
