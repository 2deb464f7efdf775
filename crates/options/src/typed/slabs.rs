//! The size classes that statistics show.

use crate::given::values::Values;
use crate::table::Id;
use crate::table::kind::{KIBIBYTE, MEBIBYTE};

/// The size classes that statistics show: those of a memcached with the same options. Larder's
/// memory has no classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Slabs {
    /// `-f`: growth factor from one class to the next.
    pub growth_factor: f64,
    /// `-n`: bytes of key, value and flags in the smallest class.
    pub min_bytes: u32,
    /// `-o slab_chunk_max`: the largest class in bytes. If given, it divides the largest item and 1
    /// MiB.
    pub chunk_bytes_max: u32,
    /// `-o slab_sizes`: all classes except the largest, ascending, in bytes. If empty, the growth
    /// factor determines the classes.
    pub sizes: Vec<u32>,
}

impl Slabs {
    pub(crate) fn new(values: &Values) -> Self {
        Self {
            growth_factor: values.real(Id::SlabGrowthFactor),
            min_bytes: values.unsigned(Id::SlabMinSize),
            chunk_bytes_max: chunk_bytes_max(values),
            sizes: values.sizes(Id::SlabSizes).to_vec(),
        }
    }
}

/// Returns the largest class. memcached 1.6.45 expects `slab_chunk_max` in KiB, older versions in
/// bytes. The number is in bytes if it is above 1024, or if as KiB it would exceed the largest
/// item.
fn chunk_bytes_max(values: &Values) -> u32 {
    let item_bytes_max = values.bytes(Id::MaxItemSize);
    let bytes = match values.number(Id::SlabChunkMax).and_then(|number| u64::try_from(number).ok())
    {
        Some(number) if number <= 1024 && number * KIBIBYTE <= item_bytes_max => number * KIBIBYTE,
        Some(number) => number,
        None => {
            let wishes_one_mebibyte = [Id::NoModern, Id::NoChunkedItems];
            let is_wished = wishes_one_mebibyte.iter().any(|id| values.switch(*id));
            if is_wished && item_bytes_max <= MEBIBYTE { MEBIBYTE } else { MEBIBYTE / 2 }
        }
    };
    u32::try_from(bytes).expect("the row allows no more than 1 MiB")
}
