//! Items that expire in the same second and had the same TTL, and the size by which some of them are known.

use larder_bench::mix;

/// The TTLs, in seconds; items without any are stored too.
pub(crate) const TTLS: [u32; 3] = [20, 300, 3600];
/// Items stored in a second, for each TTL; and those without any.
pub(crate) const ITEMS_A_SECOND: [u32; 3] = [16, 12, 8];
pub(crate) const ITEMS_A_SECOND_FOR_EVER: u32 = 4;

/// The seconds in which cohorts die that are looked for: no other items have their sizes.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    /// The first of them.
    pub(crate) begin: u32,
    /// How many there are, [`SAMPLES_MAX`] at most.
    pub(crate) samples: u32,
}

impl Schedule {
    /// The second in which the cohorts of a sample die.
    pub(crate) fn deadline(&self, sample: u32) -> u32 {
        self.begin + sample * GAP_SECS
    }

    /// The bytes of a value that dies at `deadline` and had `TTLS[ttl]`; `chance` decides where its cohort is
    /// not looked for.
    pub(crate) fn value_bytes(&self, deadline: u32, ttl: usize, chance: u64) -> usize {
        let since = deadline.checked_sub(self.begin).filter(|since| since.is_multiple_of(GAP_SECS));
        match since.map(|since| since / GAP_SECS).filter(|sample| *sample < self.samples) {
            Some(sample) => sampled_value_bytes(sample, ttl),
            None => other_value_bytes(chance),
        }
    }
}

/// The bytes of the values of the cohort that dies with a sample and had `TTLS[ttl]`.
pub(crate) fn sampled_value_bytes(sample: u32, ttl: usize) -> usize {
    // In no order, so that samples are not of larger and larger items.
    let place = (sample as usize * TTLS.len() + ttl) * STRIDE % SIZES;
    VALUE_BYTES_MIN + 2 * STEP_BYTES * place
}

/// The bytes of a value that is in no cohort that is looked for, drawn by chance: as large as those on average.
pub(crate) fn other_value_bytes(chance: u64) -> usize {
    VALUE_BYTES_MIN + STEP_BYTES + 2 * STEP_BYTES * (mix(chance) % SIZES as u64) as usize
}

pub(crate) const VALUE_BYTES_MAX: usize = VALUE_BYTES_MIN + 2 * STEP_BYTES * SIZES;
const VALUE_BYTES_MIN: usize = 64;
/// The cache counts its items by steps of so many bytes.
const STEP_BYTES: usize = 32;
/// The sizes of cohorts that are looked for.
const SIZES: usize = SAMPLES_MAX as usize * TTLS.len();
pub(crate) const SAMPLES_MAX: u32 = 30;
const GAP_SECS: u32 = 40;
/// Has no divisor in common with [`SIZES`], so that no two cohorts share a size.
const STRIDE: usize = 37;
