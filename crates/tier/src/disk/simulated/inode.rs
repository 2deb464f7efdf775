//! A simulated file.
//!
//! Each page has two images. The *cached* one is in the kernel's page cache: writes change it, and
//! reads return it. The *platter* has the one that survives a power loss. A sync copies the cached
//! image to the platter. All changes of the file since the last sync are kept, so that a simulated
//! power loss can choose which of them survive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fault::Fates;
use crate::disk::{PAGE_BYTES, Page};

/// The length that a device writes atomically, in bytes.
const SECTOR_BYTES: usize = 512;
const SECTORS: usize = PAGE_BYTES / SECTOR_BYTES;

/// The bytes of a page.
pub(super) type Image = Arc<[u8; PAGE_BYTES]>;

/// A write of a page that is not synced.
#[derive(Debug)]
struct Version {
    /// The number of the change. Writes and changes of the length share one sequence.
    change: u64,
    image: Image,
}

/// A page that the file system has allocated.
#[derive(Debug)]
struct PageState {
    platter: Image,
    cached: Image,
    /// The writes since the page was last synced.
    unsynced: Vec<Version>,
}

/// A change of length that is not synced.
#[derive(Clone, Copy, Debug)]
struct LengthChange {
    change: u64,
    from: u64,
    to: u64,
}

impl LengthChange {
    /// True if the change truncates the file inside or before this page.
    fn cuts(&self, page: u64) -> bool {
        self.to < self.from && page >= self.to / PAGE_BYTES as u64
    }
}

/// A file of a simulated disk.
#[derive(Debug)]
pub(super) struct Inode {
    zero: Image,
    pages: BTreeMap<u64, PageState>,
    /// The pages with unsynced writes.
    dirty: BTreeSet<u64>,
    /// The pages whose last sync failed. As on Linux, they count as clean, so later syncs do not
    /// write them: the cache has the new bytes, and the platter does not.
    given_up: BTreeSet<u64>,
    len: u64,
    /// The changes of the length since the last sync.
    lengths: Vec<LengthChange>,
    /// The number of changes of the file so far.
    changes: u64,
}

impl Inode {
    /// Returns an empty file. `zero` is a page of zeros that all files of the disk share.
    pub(super) fn new(zero: Image) -> Self {
        Self {
            zero,
            pages: BTreeMap::new(),
            dirty: BTreeSet::new(),
            given_up: BTreeSet::new(),
            len: 0,
            lengths: Vec::new(),
            changes: 0,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns how many pages the file system has allocated for the file.
    pub(super) fn allocated(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(super) fn is_allocated(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Returns how many of `count` pages from page `first` on are allocated.
    pub(super) fn allocated_in(&self, first: u64, count: u64) -> u64 {
        self.pages.range(first..first + count).count() as u64
    }

    /// Copies a page from the cache. Returns false if it begins at or after the end of the file.
    pub(super) fn read(&self, page: u64, target: &mut Page) -> bool {
        let image = self.pages.get(&page).map_or(&self.zero, |state| &state.cached);
        *target.bytes_mut() = **image;
        page * (PAGE_BYTES as u64) < self.len
    }

    /// Returns the bytes on the platter, up to the current length of the file.
    pub(super) fn platter(&self) -> Vec<u8> {
        let pages = 0..self.len.div_ceil(PAGE_BYTES as u64);
        let image = |page| self.pages.get(&page).map_or(&self.zero, |state| &state.platter);
        let mut bytes: Vec<u8> = pages.flat_map(|page| image(page).to_vec()).collect();
        bytes.truncate(usize::try_from(self.len).unwrap_or(usize::MAX));
        bytes
    }

    /// Writes a page into the cache.
    pub(super) fn write(&mut self, page: u64, image: Image) {
        let end = (page + 1) * PAGE_BYTES as u64;
        if end > self.len {
            self.change_length(end);
        }
        self.changes += 1;
        self.put(page, image);
    }

    pub(super) fn write_zeros(&mut self, page: u64) {
        self.write(page, Arc::clone(&self.zero));
    }

    /// Frees pages (a hole punch), which then read as zeros. A real file system may make this
    /// durable at any time, with or without a sync. Here it is durable immediately.
    pub(super) fn punch(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            self.pages.remove(&page);
            self.dirty.remove(&page);
            self.given_up.remove(&page);
        }
    }

    fn put(&mut self, page: u64, image: Image) {
        let zero = &self.zero;
        let state = self.pages.entry(page).or_insert_with(|| PageState {
            platter: Arc::clone(zero),
            cached: Arc::clone(zero),
            unsynced: Vec::new(),
        });
        state.cached = Arc::clone(&image);
        state.unsynced.push(Version { change: self.changes, image });
        self.dirty.insert(page);
        self.given_up.remove(&page);
    }

    fn change_length(&mut self, bytes: u64) {
        self.changes += 1;
        self.lengths.push(LengthChange { change: self.changes, from: self.len, to: bytes });
        self.len = bytes;
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        if bytes == self.len {
            return;
        }
        let is_cut = bytes < self.len;
        self.change_length(bytes);
        if is_cut {
            let cut: Vec<u64> =
                self.pages.range(bytes / PAGE_BYTES as u64..).map(|(page, _)| *page).collect();
            // Zeros the bytes after the new end. These versions have the number of the truncation,
            // so that a power loss keeps or loses both.
            for page in cut {
                let image = cut_image(&self.pages[&page].cached, page, bytes);
                self.put(page, image);
            }
        }
    }

    /// Writes all dirty pages to the platter, and makes the length durable.
    pub(super) fn sync(&mut self) {
        for page in std::mem::take(&mut self.dirty) {
            if let Some(state) = self.pages.get_mut(&page) {
                state.platter = Arc::clone(&state.cached);
                state.unsynced.clear();
            }
        }
        self.lengths.clear();
        self.free_cut_pages();
    }

    /// Simulates a sync that fails: marks all dirty pages clean, although the platter lacks their
    /// bytes. If `some`, a random part of the pages reaches the platter, complete or torn.
    pub(super) fn give_up_dirty_pages(&mut self, some: bool, rng: &mut fastrand::Rng) {
        let fates = if some { Fates::EVEN } else { Fates::ALL_LOST };
        for page in std::mem::take(&mut self.dirty) {
            if let Some(state) = self.pages.get_mut(&page) {
                state.platter = draw(&state.platter, &state.unsynced, fates, rng);
                state.unsynced.clear();
                self.given_up.insert(page);
            }
        }
    }

    /// Drops all clean pages from the cache, so that reads return the bytes on the platter. Only
    /// the pages whose sync failed differ.
    pub(super) fn drop_clean_pages(&mut self) {
        for page in std::mem::take(&mut self.given_up) {
            if let Some(state) = self.pages.get_mut(&page) {
                state.cached = Arc::clone(&state.platter);
            }
        }
    }

    /// Simulates a power loss: decides at random which unsynced changes survive, and drops the
    /// others. Changes of the length survive in order, up to a random one. `fates` has the
    /// probabilities for each page.
    pub(super) fn lose_power(&mut self, fates: Fates, rng: &mut fastrand::Rng) {
        let lengths = std::mem::take(&mut self.lengths);
        let (kept, lost) = lengths.split_at(rng.usize(..=lengths.len()));
        self.len = match (kept.last(), lost.first()) {
            (Some(last), _) => last.to,
            (None, Some(first)) => first.from,
            (None, None) => self.len,
        };
        for page in std::mem::take(&mut self.dirty) {
            let Some(state) = self.pages.get_mut(&page) else { continue };
            // After a truncation that survives, the page has only the writes that followed it. If a
            // truncation is lost, the writes that followed it are also lost.
            let begin = kept.iter().rfind(|length| length.cuts(page)).map(|length| length.change);
            let end = lost.iter().find(|length| length.cuts(page)).map(|length| length.change);
            let mut versions = std::mem::take(&mut state.unsynced);
            versions.retain(|version| end.is_none_or(|end| version.change < end));
            if let Some(begin) = begin {
                versions.retain(|version| version.change >= begin);
                // The first version is the page as the truncation left it.
                if !versions.is_empty() {
                    state.platter = versions.remove(0).image;
                }
            }
            state.platter = draw(&state.platter, &versions, fates, rng);
        }
        self.given_up.clear();
        for state in self.pages.values_mut() {
            state.cached = Arc::clone(&state.platter);
        }
        self.free_cut_pages();
    }

    /// Frees the pages after the end of the file, and zeros the last page from the end of the file
    /// on.
    fn free_cut_pages(&mut self) {
        drop(self.pages.split_off(&self.len.div_ceil(PAGE_BYTES as u64)));
        self.given_up.retain(|page| self.pages.contains_key(page));
        let last = self.len / PAGE_BYTES as u64;
        if let Some(state) = self.pages.get_mut(&last) {
            state.platter = cut_image(&state.platter, last, self.len);
            state.cached = cut_image(&state.cached, last, self.len);
        }
    }

    /// Inverts a bit in all copies of a page, including the unsynced ones. Returns false if the
    /// page is not allocated or is after the end of the file.
    pub(super) fn flip_bit(&mut self, bit: u64) -> bool {
        let byte = bit / 8;
        if byte >= self.len {
            return false;
        }
        let page = byte / PAGE_BYTES as u64;
        if let Some(state) = self.pages.get_mut(&page) {
            let unsynced = state.unsynced.iter_mut().map(|version| &mut version.image);
            for image in [&mut state.cached, &mut state.platter].into_iter().chain(unsynced) {
                Arc::make_mut(image)[byte as usize % PAGE_BYTES] ^= 1 << (bit % 8);
            }
        }
        self.pages.contains_key(&page)
    }
}

/// Returns the bytes of a page, with zeros after the end of the file.
fn cut_image(image: &Image, page: u64, len: u64) -> Image {
    let kept = len.saturating_sub(page * PAGE_BYTES as u64).min(PAGE_BYTES as u64) as usize;
    let mut image = Arc::clone(image);
    if image[kept..].iter().any(|byte| *byte != 0) {
        Arc::make_mut(&mut image)[kept..].fill(0);
    }
    image
}

/// Returns the bytes of a page after a power loss, chosen at random: the `old` bytes (lost), those
/// of one of the unsynced writes (kept), or some sectors of that write over an earlier state of the
/// page (torn).
fn draw(old: &Image, versions: &[Version], fates: Fates, rng: &mut fastrand::Rng) -> Image {
    let Fates { kept, lost, torn } = fates;
    let lot = rng.u32(..(kept + lost + torn).max(1));
    if versions.is_empty() || (kept..kept + lost).contains(&lot) {
        return Arc::clone(old);
    }
    let upper = rng.usize(..versions.len());
    let new = &versions[upper].image;
    if lot < kept {
        return Arc::clone(new);
    }
    let lower = rng.usize(..=upper);
    let base = if lower == 0 { old } else { &versions[lower - 1].image };
    let mut image = Arc::clone(base);
    let sectors = rng.u32(1..(1 << SECTORS) - 1);
    for sector in (0..SECTORS).filter(|sector| sectors >> sector & 1 == 1) {
        let bytes = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        Arc::make_mut(&mut image)[bytes.clone()].copy_from_slice(&new[bytes]);
    }
    image
}
