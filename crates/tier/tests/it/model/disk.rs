//! The disk. Each page has two contents: the content in the kernel's cache, and the content on the
//! platter, which survives a power loss.

use super::address::{Address, Number};

pub(crate) type Extent = u8;

/// The value of an item: the number of its write, and whether it expires when the clock strikes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Value {
    pub(crate) id: u8,
    pub(crate) expires: bool,
}

/// A dictionary: its number, and its content, which identifies the training. 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) number: u8,
    pub(crate) content: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Record {
    Item {
        key: u8,
        value: Value,
        /// The dictionary that compresses the value.
        dictionary: Dictionary,
    },
    Tombstone {
        key: u8,
    },
    Flush,
    /// A flush that is due when the clock strikes.
    Delay,
    Void,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Header {
    pub(crate) number: Number,
    pub(crate) previous: Number,
    /// The pending delayed flush, if any.
    pub(crate) delay: Address,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Unit {
    pub(crate) number: Number,
    pub(crate) synced_through: Address,
    /// Empty for a void unit, which closes its segment: it covers everything after it.
    pub(crate) records: Vec<Record>,
}

impl Unit {
    pub(crate) fn is_void(&self) -> bool {
        self.records.is_empty()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Content {
    #[default]
    Blank,
    /// A write that a power loss left incomplete.
    Torn,
    Header(Header),
    Unit(Unit),
    /// The summary of a segment: its units.
    Summary(Number, Vec<Unit>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Page {
    platter: Content,
    cache: Content,
    dirty: bool,
}

impl Page {
    fn write(&mut self, content: Content) {
        self.cache = content;
        self.dirty = true;
    }

    fn sync(&mut self) {
        if self.dirty {
            self.platter = self.cache.clone();
            self.dirty = false;
        }
    }
}

/// The fate of a page at a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Kept,
    Lost,
    Torn,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Manifest {
    /// The highest segment number that was leased.
    pub(crate) lease: Number,
    /// Everything below this address was durable at a stop or a start.
    pub(crate) durable: Address,
    /// The number of dictionaries that records may name.
    pub(crate) dictionaries: u8,
}

/// The file of a dictionary: the contents in the kernel's cache and on the platter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct DictionaryFile {
    cache: u8,
    platter: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Disk {
    /// The number of units in a segment.
    units: u8,
    /// The pages of all extents: a header, the units and a summary for each.
    pages: Vec<Page>,
    manifest: Manifest,
    durable_manifest: Manifest,
    /// The files of the dictionaries, from number 1 on.
    dictionaries: [DictionaryFile; DICTIONARIES],
    /// The number of dictionaries that were trained.
    trained: u8,
}

/// The maximum number of trainings in a scenario.
const DICTIONARIES: usize = 2;

impl Disk {
    pub(crate) fn new(extents: u8, units: u8) -> Self {
        let pages = usize::from(extents) * (usize::from(units) + 2);
        Self {
            units,
            pages: vec![Page::default(); pages],
            manifest: Manifest::default(),
            durable_manifest: Manifest::default(),
            dictionaries: Default::default(),
            trained: 0,
        }
    }

    /// Returns the dictionary with a number; its content is 0 if it has no file.
    pub(crate) fn dictionary(&self, number: u8) -> Dictionary {
        let at = usize::from(number).checked_sub(1);
        let file = at.map_or_else(DictionaryFile::default, |at| self.dictionaries[at]);
        Dictionary { number, content: file.cache }
    }

    /// Writes the file of a newly trained dictionary.
    pub(crate) fn write_dictionary(&mut self, number: u8, durable: bool) -> Dictionary {
        self.trained += 1;
        let file = &mut self.dictionaries[usize::from(number) - 1];
        file.cache = self.trained;
        if durable {
            file.platter = file.cache;
        }
        self.dictionary(number)
    }

    /// Returns this disk with each dictionary kept or lost.
    fn with_dictionaries_lost(self) -> Vec<Self> {
        let mut disks = vec![self];
        for at in 0..DICTIONARIES {
            let file = disks[0].dictionaries[at];
            if file.cache != file.platter {
                let mut lost = disks.clone();
                lost.iter_mut().for_each(|disk| disk.dictionaries[at].cache = file.platter);
                disks.extend(lost);
            }
        }
        for file in disks.iter_mut().flat_map(|disk| &mut disk.dictionaries) {
            file.platter = file.cache;
        }
        disks
    }

    pub(crate) fn units(&self) -> u8 {
        self.units
    }

    pub(crate) fn extents(&self) -> u8 {
        (self.pages.len() / (usize::from(self.units) + 2)) as u8
    }

    fn header_page(&self, extent: Extent) -> usize {
        usize::from(extent) * (usize::from(self.units) + 2)
    }

    fn unit_page(&self, extent: Extent, unit: u8) -> usize {
        self.header_page(extent) + 1 + usize::from(unit)
    }

    pub(crate) fn header(&self, extent: Extent) -> Option<Header> {
        match self.pages[self.header_page(extent)].cache {
            Content::Header(header) => Some(header),
            _ => None,
        }
    }

    fn summary_page(&self, extent: Extent) -> usize {
        self.unit_page(extent, self.units)
    }

    /// Returns the units in the summary of the segment, if it has one.
    pub(crate) fn summary(&self, extent: Extent, number: Number) -> Option<&[Unit]> {
        match &self.pages[self.summary_page(extent)].cache {
            Content::Summary(of, units) if *of == number => Some(units),
            _ => None,
        }
    }

    /// Returns the unit if it is complete and belongs to the segment.
    pub(crate) fn unit(&self, extent: Extent, unit: u8, number: Number) -> Option<&Unit> {
        match &self.pages[self.unit_page(extent, unit)].cache {
            Content::Unit(found) if found.number == number => Some(found),
            _ => None,
        }
    }

    /// Returns the records at the position of the unit, whatever segment they belong to.
    pub(crate) fn records(&self, extent: Extent, unit: u8) -> &[Record] {
        match &self.pages[self.unit_page(extent, unit)].cache {
            Content::Unit(found) => &found.records,
            _ => &[],
        }
    }

    pub(crate) fn write_header(&mut self, extent: Extent, header: Header) {
        let at = self.header_page(extent);
        self.pages[at].write(Content::Header(header));
    }

    pub(crate) fn erase(&mut self, extent: Extent) {
        let at = self.header_page(extent);
        self.pages[at].write(Content::Blank);
    }

    pub(crate) fn write_unit(&mut self, extent: Extent, unit: u8, content: Unit) {
        let at = self.unit_page(extent, unit);
        self.pages[at].write(Content::Unit(content));
    }

    /// Writes the summary of a segment whose units were written.
    pub(crate) fn write_summary(&mut self, extent: Extent, number: Number) {
        let units = (0..self.units).filter_map(|unit| self.unit(extent, unit, number));
        let summary = Content::Summary(number, units.cloned().collect());
        let at = self.summary_page(extent);
        self.pages[at].write(summary);
    }

    /// Performs a write that fails and leaves the unit incomplete.
    pub(crate) fn tear_unit(&mut self, extent: Extent, unit: u8) {
        let at = self.unit_page(extent, unit);
        self.pages[at].write(Content::Torn);
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.pages.iter().any(|page| page.dirty)
    }

    pub(crate) fn sync(&mut self) {
        self.pages.iter_mut().for_each(Page::sync);
    }

    /// Performs a sync that fails. The kernel reports the error once and then treats the pages as
    /// clean, although the platter lacks them.
    pub(crate) fn fail_sync(&mut self) {
        self.pages.iter_mut().for_each(|page| page.dirty = false);
    }

    /// Drops the pages that the kernel treats as clean from its cache.
    pub(crate) fn drop_cache(&mut self) {
        for page in self.pages.iter_mut().filter(|page| !page.dirty) {
            page.cache = page.platter.clone();
        }
    }

    pub(crate) fn manifest(&self) -> Manifest {
        self.manifest
    }

    /// Replaces the manifest with a rename, which a sync of the directory makes durable.
    pub(crate) fn replace_manifest(&mut self, manifest: Manifest, durable: bool) {
        self.manifest = manifest;
        if durable {
            self.durable_manifest = manifest;
        }
    }

    /// Returns all states of the disk that a power loss may leave.
    pub(crate) fn power_losses(&self) -> Vec<Self> {
        let mut disks = vec![self.clone()];
        for (at, page) in self.pages.iter().enumerate().filter(|(_, page)| page.dirty) {
            let same = page.cache == page.platter;
            let fates: &[Fate] =
                if same { &[Fate::Kept] } else { &[Fate::Kept, Fate::Lost, Fate::Torn] };
            disks = disks
                .iter()
                .flat_map(|disk| fates.iter().map(move |fate| disk.with_fate(at, *fate)))
                .collect();
        }
        for disk in &mut disks {
            disk.fail_sync();
            disk.drop_cache();
        }
        let mut old = Vec::new();
        if self.manifest != self.durable_manifest {
            for disk in &disks {
                let manifest = self.durable_manifest;
                old.push(Self { manifest, ..disk.clone() });
            }
        }
        for disk in &mut disks {
            disk.durable_manifest = disk.manifest;
        }
        disks.extend(old);
        disks.into_iter().flat_map(Self::with_dictionaries_lost).collect()
    }

    fn with_fate(&self, at: usize, fate: Fate) -> Self {
        let mut disk = self.clone();
        let page = &mut disk.pages[at];
        match fate {
            Fate::Kept => page.platter = page.cache.clone(),
            Fate::Lost => {}
            Fate::Torn => page.platter = Content::Torn,
        }
        disk
    }
}
