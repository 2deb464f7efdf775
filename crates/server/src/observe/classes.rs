//! The size classes of a memcached server with the same options. Larder's memory has no classes:
//! items are stored wherever there is space in a segment. But tools read statistics by class, `me`
//! and dumps show an item's class and size, and operators compare two servers by them.

use larder_item::Meta;
use larder_options::Slabs;

/// memcached's size classes, numbered from 1.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    /// Class 1 comes first. The last class also contains the larger items, which are split.
    classes: Vec<SizeClass>,
    /// The class numbers of small items, by size in steps of 8 bytes. Read for every command.
    small: Vec<u8>,
    /// True if items carry cas tokens, which occupy memory in memcached.
    cas: bool,
}

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeClass {
    /// Length in bytes of a chunk, which contains an item or a part of one.
    pub(crate) chunk_bytes: u32,
    /// Number of chunks in a page.
    pub(crate) chunks_per_page: u32,
}

/// The properties of an item that determine its size in a memcached server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemSize {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// True if the client's flags are not 0. Only then do they occupy memory.
    pub(crate) has_flags: bool,
}

impl ItemSize {
    /// Returns the size of an item with this key length and metadata.
    pub(crate) fn new(key_bytes: usize, meta: &Meta) -> Self {
        Self { key_bytes, value_bytes: meta.value_bytes, has_flags: meta.flags != 0 }
    }
}

impl Classes {
    /// Computes the classes from the options. `cas` is true if items carry cas tokens.
    pub(crate) fn new(slabs: &Slabs, cas: bool) -> Self {
        let mut sizes = if slabs.sizes.is_empty() {
            growing_sizes(slabs)
        } else {
            slabs.sizes.iter().map(|size| aligned(*size)).collect()
        };
        sizes.truncate(CLASS_COUNT_MAX - 1);
        sizes.push(slabs.chunk_bytes_max);
        let class = |chunk_bytes: u32| SizeClass {
            chunk_bytes,
            chunks_per_page: PAGE_BYTES / chunk_bytes.clamp(1, PAGE_BYTES),
        };
        let mut classes =
            Self { classes: sizes.into_iter().map(class).collect(), small: vec![], cas };
        let steps = (0..=SMALL_BYTES_MAX).step_by(STEP_BYTES);
        classes.small = steps.map(|bytes| classes.search(bytes as u64)).collect();
        classes
    }

    /// Returns all classes with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u8, SizeClass)> {
        (1..).zip(self.classes.iter().copied())
    }

    /// Returns the number of the last class.
    pub(crate) fn last(&self) -> u8 {
        u8::try_from(self.classes.len()).expect("there are at most 63")
    }

    /// Returns the bytes of an item as memcached counts them: header, cas token, key, flags, value
    /// and the terminators of both.
    #[inline]
    pub(crate) fn item_bytes(&self, size: ItemSize) -> u64 {
        (self.head_bytes(size) + size.value_bytes + LINE_END_BYTES) as u64
    }

    /// Returns the number of an item's class.
    #[inline]
    pub(crate) fn class_of(&self, size: ItemSize) -> u8 {
        self.class_of_bytes(self.item_bytes(size))
    }

    /// Calls `visit` with the class of each chunk that an item occupies. An item that does not fit
    /// into a single chunk occupies a chunk for its header, then full chunks of the last class,
    /// then a chunk for the rest.
    pub(crate) fn chunks_of(&self, size: ItemSize, mut visit: impl FnMut(u8)) {
        let chunk_bytes_max = u64::from(self.classes[self.classes.len() - 1].chunk_bytes);
        let bytes = self.item_bytes(size);
        if bytes <= chunk_bytes_max || chunk_bytes_max <= PIECE_HEADER_BYTES {
            return visit(self.class_of_bytes(bytes));
        }
        visit(self.class_of_bytes(self.head_bytes(size) as u64 + PIECE_HEADER_BYTES));
        let mut bytes_left = (size.value_bytes + LINE_END_BYTES) as u64;
        while bytes_left > 0 {
            let piece_bytes = (bytes_left + PIECE_HEADER_BYTES).min(chunk_bytes_max);
            visit(self.class_of_bytes(piece_bytes));
            bytes_left -= piece_bytes - PIECE_HEADER_BYTES;
        }
    }

    /// Returns the table in the format that memcached prints at startup with `-vv`.
    pub(crate) fn table(&self) -> String {
        let line = |(number, class): (u8, SizeClass)| {
            let SizeClass { chunk_bytes, chunks_per_page } = class;
            format!(
                "slab class {number:3}: chunk size {chunk_bytes:9} perslab {chunks_per_page:7}\n"
            )
        };
        self.numbered().map(line).collect()
    }

    #[inline]
    fn class_of_bytes(&self, bytes: u64) -> u8 {
        match self.small.get(bytes.div_ceil(STEP_BYTES as u64) as usize) {
            Some(number) => *number,
            None => self.search(bytes),
        }
    }

    fn search(&self, bytes: u64) -> u8 {
        let smaller = self.classes.partition_point(|class| u64::from(class.chunk_bytes) < bytes);
        u8::try_from(smaller + 1).map_or(self.last(), |number| number.min(self.last()))
    }

    /// Returns the bytes of an item without its value.
    #[inline]
    fn head_bytes(&self, size: ItemSize) -> usize {
        let cas_bytes = if self.cas { CAS_BYTES } else { 0 };
        let flags_bytes = if size.has_flags { FLAGS_BYTES } else { 0 };
        HEADER_BYTES + cas_bytes + size.key_bytes + KEY_END_BYTES + flags_bytes
    }
}

/// Returns the chunk sizes of all classes except the last. Each is larger than the previous one by
/// a constant factor.
fn growing_sizes(slabs: &Slabs) -> Vec<u32> {
    let largest = f64::from(slabs.chunk_bytes_max) / slabs.growth_factor;
    let mut sizes = Vec::new();
    let mut size = slabs.min_bytes.saturating_add(HEADER_BYTES as u32);
    while f64::from(size) < largest && sizes.len() < CLASS_COUNT_MAX - 1 {
        size = aligned(size);
        sizes.push(size);
        size = (f64::from(size) * slabs.growth_factor) as u32;
    }
    sizes
}

fn aligned(size: u32) -> u32 {
    size.checked_next_multiple_of(STEP_BYTES as u32).unwrap_or(u32::MAX)
}

/// Length in bytes of a page, which is divided into chunks of one class.
pub(crate) const PAGE_BYTES: u32 = 1 << 20;

/// The chunk size of every class but the last is a multiple of this.
const STEP_BYTES: usize = 8;

/// The class of a larger item is found by a search.
const SMALL_BYTES_MAX: usize = 8 << 10;

/// memcached's maximum number of classes.
const CLASS_COUNT_MAX: usize = 63;

/// Length of memcached's item header.
const HEADER_BYTES: usize = 48;
const CAS_BYTES: usize = 8;
const KEY_END_BYTES: usize = 1;
const FLAGS_BYTES: usize = 4;
/// memcached stores a value with its line end.
const LINE_END_BYTES: usize = 2;
/// Length of the header of each chunk of a split item.
const PIECE_HEADER_BYTES: u64 = 48;

#[cfg(test)]
mod tests {
    use larder_options::Options;

    use super::*;

    fn classes(map: &[(&str, &str)]) -> Classes {
        let (options, _) = Options::from_map(map.iter().copied()).unwrap();
        Classes::new(&options.slabs, options.cas)
    }

    fn shown(classes: &Classes) -> String {
        let words: Vec<_> = classes
            .numbered()
            .map(|(number, class)| {
                format!("{number} {}/{}", class.chunk_bytes, class.chunks_per_page)
            })
            .collect();
        words.join(" · ")
    }

    fn size(key_bytes: usize, value_bytes: usize) -> ItemSize {
        ItemSize { key_bytes, value_bytes, has_flags: false }
    }

    fn chunks(classes: &Classes, size: ItemSize) -> Vec<u8> {
        let mut chunks = Vec::new();
        classes.chunks_of(size, |class| chunks.push(class));
        chunks
    }

    /// The output of memcached 1.6.18 with `-vv` and no other option.
    const DEFAULT: &str = "1 96/10922 · 2 120/8738 · 3 152/6898 · 4 192/5461 · 5 240/4369 · 6 304/3449 · \
         7 384/2730 · 8 480/2184 · 9 600/1747 · 10 752/1394 · 11 944/1110 · 12 1184/885 · 13 1480/708 · \
         14 1856/564 · 15 2320/451 · 16 2904/361 · 17 3632/288 · 18 4544/230 · 19 5680/184 · 20 7104/147 · \
         21 8880/118 · 22 11104/94 · 23 13880/75 · 24 17352/60 · 25 21696/48 · 26 27120/38 · 27 33904/30 · \
         28 42384/24 · 29 52984/19 · 30 66232/15 · 31 82792/12 · 32 103496/10 · 33 129376/8 · 34 161720/6 · \
         35 202152/5 · 36 252696/4 · 37 315872/3 · 38 394840/2 · 39 524288/2";

    #[test]
    fn the_classes_are_memcacheds() {
        assert_eq!(shown(&classes(&[])), DEFAULT);
        let no_modern = shown(&classes(&[("no_modern", "yes")]));
        let tail = "38 394840/2 · 39 493552/2 · 40 616944/1 · 41 771184/1 · 42 1048576/1";
        assert!(no_modern.ends_with(tail), "{no_modern}");
        let sizes = [("slab_sizes", "100-200-300-400-500"), ("slab_chunk_max", "8")];
        assert_eq!(
            shown(&classes(&sizes)),
            "1 104/10082 · 2 200/5242 · 3 304/3449 · 4 400/2621 · 5 504/2080 · 6 8192/128"
        );
        let few = classes(&[("slab_growth_factor", "2"), ("slab_min_size", "1024")]);
        assert!(shown(&few).starts_with("1 1072/978 · 2 2144/489 · "), "{}", shown(&few));
        let many = classes(&[("slab_growth_factor", "1.05")]);
        assert_eq!((many.numbered().count(), many.last()), (63, 63));
    }

    #[test]
    fn the_table_is_written_as_memcached_writes_it() {
        let table = classes(&[]).table();
        assert!(
            table.starts_with(
                "slab class   1: chunk size        96 perslab   10922\nslab class   2:"
            )
        );
        assert!(table.ends_with("slab class  39: chunk size    524288 perslab       2\n"));
    }

    #[test]
    fn an_item_has_the_size_that_memcached_gives_it() {
        let (with_cas, without) = (classes(&[]), classes(&[("disable_cas", "yes")]));
        let flagged = ItemSize { has_flags: true, ..size(3, 3) };
        assert_eq!((with_cas.item_bytes(size(3, 3)), without.item_bytes(size(3, 3))), (65, 57));
        assert_eq!(with_cas.item_bytes(flagged), 69);
        // Items of 96 bytes are in the first class. One more byte puts an item into the second.
        let value = 96 - 62;
        assert_eq!(
            (with_cas.class_of(size(3, value)), with_cas.class_of(size(3, value + 1))),
            (1, 2)
        );
        assert_eq!(
            (with_cas.class_of(size(1, 524_288 - 60)), with_cas.class_of(size(1, 1 << 19))),
            (39, 39)
        );
        assert_eq!(with_cas.class_of(size(250, 1 << 30)), 39);
    }

    #[test]
    fn an_item_larger_than_any_chunk_takes_several() {
        let classes = classes(&[]);
        assert_eq!(chunks(&classes, size(3, 3)), [1]);
        assert_eq!(chunks(&classes, size(3, 524_288 - 62)), [39]);
        // One byte more: 108 bytes for the header, and a chunk that is not quite full.
        assert_eq!(chunks(&classes, size(3, 524_288 - 61)), [2, 39]);
        assert_eq!(chunks(&classes, size(3, 600_000)), [2, 39, 31]);
        assert_eq!(chunks(&classes, size(3, (1 << 20) - 96 - 2)), [2, 39, 39]);
    }
}
