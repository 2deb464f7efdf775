//! The snapshot of the catalog, which has the position of each item in the log. A clean stop writes
//! the snapshot to the file INDEX, and the next start reads it instead of the log.

use std::collections::VecDeque;

use zerocopy::IntoBytes;

use crate::disk::{Directory, DiskError, File, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{SegmentNumber, SnapshotHeader};
use crate::log::Extent;
use crate::store::catalog::{Catalog, Location};
use crate::store::extents::Extents;
use crate::store::shared::Shared;
use crate::tier::Tier;

/// Name of the file in the directory.
const FILE_NAME: &str = "INDEX";
const NEW_NAME: &str = "INDEX.new";
/// The number of pages per read or write.
const PAGES: usize = 256;
const WORD_BYTES: usize = 8;
/// The number of words per segment.
const SEGMENT_WORDS: u64 = 3;

/// The content of a snapshot.
pub(in crate::store) struct Snapshot {
    pub(in crate::store) header: SnapshotHeader,
    pub(in crate::store) catalog: Catalog,
    pub(in crate::store) extents: Extents,
    pub(in crate::store) segments: VecDeque<(Extent, SegmentNumber)>,
}

/// Writes the snapshot of a closed store, durably. All records in it are already durable.
pub(in crate::store) fn write<D: Directory>(
    shared: &Shared<D::File>,
    tier: &Tier<D>,
) -> Result<(), DiskError> {
    let file = tier.directory().create(NEW_NAME)?;
    let written = write_to(file, shared, tier);
    if written.is_err() {
        // The disk may be full. The incomplete file is useless, so its space is freed.
        let _ = tier.directory().create(NEW_NAME).and_then(|file| file.set_len(0));
    }
    written?;
    tier.directory().rename(NEW_NAME, FILE_NAME)?;
    tier.directory().sync()
}

fn write_to<D: Directory>(
    file: D::File,
    shared: &Shared<D::File>,
    tier: &Tier<D>,
) -> Result<(), DiskError> {
    // Each change of the catalog holds the head lock, and checks under it that the store is not
    // closed.
    let (segments, delay) = {
        let head = shared.head();
        (head.segments().clone(), head.delay())
    };
    let mut writer =
        Writer { file, pages: zeroed_pages(PAGES), at: 0, first: 1, body: Body::new() };
    for (extent, number) in &segments {
        let [items, bytes, live] = shared.extents.counts(*extent).map(u64::from);
        writer.push(number.stored())?;
        writer.push(u64::from(*extent) | items << 32)?;
        writer.push(bytes | live << 32)?;
    }
    shared.catalog.visit(|words| {
        writer.push(words.len() as u64)?;
        words.iter().try_for_each(|word| writer.push(*word))
    })?;
    let lost = shared.extents.lost();
    writer.push(lost.len() as u64)?;
    lost.iter().try_for_each(|location| writer.push(location.word()))?;
    let (file, Body { words, checksum }) = writer.finish()?;
    let header = SnapshotHeader {
        uuid: tier.manifest().uuid,
        epoch: tier.manifest().epoch,
        segments: segments.len() as u32,
        words,
        stamp_unix_secs: shared.now(),
        due_unix_secs: shared.due_unix_secs(),
        due_at: delay.map(|delay| delay.at),
        version_max: shared.version_max.load(std::sync::atomic::Ordering::Relaxed),
        checksum: checksum.finalize(),
    };
    file.write_pages(0, std::slice::from_ref(&*header.encode()))?;
    file.sync_data()
}

/// Opens the snapshot of the last stop and reads its header. Returns `None` if that stop was not
/// clean, or the file is not valid for this directory.
fn open<D: Directory>(tier: &Tier<D>) -> Result<Option<(D::File, SnapshotHeader)>, DiskError> {
    let manifest = tier.manifest();
    if !manifest.clean {
        return Ok(None);
    }
    let Some(file) = tier.directory().open(FILE_NAME)? else { return Ok(None) };
    let mut page = zeroed_pages(1);
    if file.len()? < PAGE_BYTES as u64 {
        return Ok(None);
    }
    file.read_pages(0, &mut page)?;
    let header = SnapshotHeader::decode(&page[0]).filter(|header| {
        let is_ours = header.uuid == manifest.uuid && header.epoch == manifest.epoch;
        is_ours && header.segments <= manifest.extents
    });
    Ok(header.map(|header| (file, header)))
}

/// Reads the header of the snapshot of the last stop. Returns `None` under the same conditions as
/// [`read`].
pub(in crate::store) fn header<D: Directory>(
    tier: &Tier<D>,
) -> Result<Option<SnapshotHeader>, DiskError> {
    Ok(open(tier)?.map(|(_, header)| header))
}

/// Reads the snapshot of the last stop. Returns `None` if that stop was not clean, or the file is
/// not valid for this directory.
pub(in crate::store) fn read<D: Directory>(
    tier: &Tier<D>,
    catalog_bytes_max: u64,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Option<Snapshot>, DiskError> {
    let Some((file, header)) = open(tier)? else { return Ok(None) };
    let len = header.pages().and_then(|pages| pages.checked_mul(PAGE_BYTES as u64));
    if len.is_none_or(|len| file.len().is_ok_and(|found| found < len)) {
        return Ok(None);
    }
    let body = Body { words: header.words, checksum: crc32fast::Hasher::new() };
    let mut reader = Reader { file, pages: Vec::new(), at: 0, first: 1, body, progress };
    let read = reader.snapshot(header, tier.log().extents(), catalog_bytes_max)?;
    let is_whole = reader.body.words == 0 && reader.body.checksum.finalize() == header.checksum;
    Ok(read.filter(|_| is_whole))
}

/// The words after the header.
struct Body {
    words: u64,
    checksum: crc32fast::Hasher,
}

impl Body {
    fn new() -> Self {
        Self { words: 0, checksum: crc32fast::Hasher::new() }
    }
}

struct Writer<F> {
    file: F,
    pages: Vec<Page>,
    /// The number of bytes in `pages`.
    at: usize,
    /// The page of the file at which `pages` begins.
    first: u64,
    body: Body,
}

impl<F: File> Writer<F> {
    fn push(&mut self, word: u64) -> Result<(), DiskError> {
        let at = self.at;
        self.pages.as_mut_bytes()[at..at + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
        self.body.words += 1;
        self.at += WORD_BYTES;
        if self.at == self.pages.as_bytes().len() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.body.checksum.update(&self.pages.as_bytes()[..self.at]);
        let pages = self.at.div_ceil(PAGE_BYTES);
        self.file.write_pages(self.first, &self.pages[..pages])?;
        self.first += pages as u64;
        self.at = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<(F, Body), DiskError> {
        let filled = self.at;
        self.pages.as_mut_bytes()[filled..].fill(0);
        self.flush()?;
        // Truncates the rest of a longer file that a crash left.
        self.file.set_len(self.first * PAGE_BYTES as u64)?;
        Ok((self.file, self.body))
    }
}

struct Reader<'a, F> {
    file: F,
    pages: Vec<Page>,
    /// The offset of the next word in `pages`.
    at: usize,
    /// The page of the file after `pages`.
    first: u64,
    /// Counts the remaining words.
    body: Body,
    progress: &'a mut dyn FnMut(usize, usize),
}

impl<F: File> Reader<'_, F> {
    /// Reads the snapshot. Returns `None` if its content is invalid.
    fn snapshot(
        &mut self,
        header: SnapshotHeader,
        extents_max: u32,
        catalog_bytes_max: u64,
    ) -> Result<Option<Snapshot>, DiskError> {
        let (extents, catalog) = (Extents::new(extents_max), Catalog::new(catalog_bytes_max));
        let mut segments = VecDeque::new();
        if u64::from(header.segments) * SEGMENT_WORDS > header.words {
            return Ok(None);
        }
        for _ in 0..header.segments {
            let (number, place, sizes) = (self.word()?, self.word()?, self.word()?);
            let extent = place as u32;
            let Some(number) = SegmentNumber::from_stored(number) else { return Ok(None) };
            let is_later = segments.back().is_none_or(|(_, last)| *last < number);
            if !is_later || extent >= extents_max || extents.is_used(extent) {
                return Ok(None);
            }
            let counts = [(place >> 32) as u32, sizes as u32, (sizes >> 32) as u32];
            extents.restore(extent, number, counts);
            segments.push_back((extent, number));
        }
        for partition in 0..catalog.partitions() {
            (self.progress)(partition, catalog.partitions());
            let entries = self.word()?;
            if entries > self.body.words {
                return Ok(None);
            }
            catalog.reserve(partition, entries as usize);
            for _ in 0..entries {
                let word = self.word()?;
                if !catalog.restore(partition, word, |extent| extents.is_used(extent)) {
                    return Ok(None);
                }
            }
        }
        for _ in 0..self.word()?.min(self.body.words) {
            let location = Location::of_word(self.word()?);
            if !extents.is_used(location.extent()) {
                return Ok(None);
            }
            extents.note_lost(location);
        }
        Ok(Some(Snapshot { header, catalog, extents, segments }))
    }

    /// Returns the next word, or 0 after the last one.
    fn word(&mut self) -> Result<u64, DiskError> {
        if self.body.words == 0 {
            return Ok(0);
        }
        if self.at == self.pages.as_bytes().len() {
            let left = self.body.words * WORD_BYTES as u64;
            let pages = left.div_ceil(PAGE_BYTES as u64).min(PAGES as u64) as usize;
            self.pages = zeroed_pages(pages);
            self.file.read_pages(self.first, &mut self.pages)?;
            let filled = (pages * PAGE_BYTES).min(usize::try_from(left).unwrap_or(usize::MAX));
            self.body.checksum.update(&self.pages.as_bytes()[..filled]);
            self.first += pages as u64;
            self.at = 0;
        }
        let mut word = [0; WORD_BYTES];
        word.copy_from_slice(&self.pages.as_bytes()[self.at..self.at + WORD_BYTES]);
        self.at += WORD_BYTES;
        self.body.words -= 1;
        Ok(u64::from_le_bytes(word))
    }
}
