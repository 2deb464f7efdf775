//! Cohorts: items that expire in the same second and had the same TTL. A *sample* is a second,
//! together with the cohorts that expire in it, one for each TTL. Sampled cohorts have sizes that
//! no other item has, by which they are counted.

use larder_bench::mix;

/// The TTLs, in seconds. The load also stores items without a TTL.
pub(crate) const TTLS: [u32; 3] = [20, 300, 3600];
/// Items stored per second, for each TTL and without a TTL.
pub(crate) const ITEMS_A_SECOND: [u32; 3] = [16, 12, 8];
pub(crate) const ITEMS_A_SECOND_FOR_EVER: u32 = 4;

/// The seconds in which the sampled cohorts expire. No other items have the sizes of these cohorts.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    /// The first of these seconds.
    pub(crate) begin: u32,
    /// Number of samples, at most [`SAMPLES_MAX`].
    pub(crate) samples: u32,
}

impl Schedule {
    /// Returns the second in which the cohorts of a sample expire.
    pub(crate) fn deadline(&self, sample: u32) -> u32 {
        self.begin + sample * GAP_SECS
    }

    /// Returns the length of a value that expires at `deadline` and had `TTLS[ttl]`. If the cohort
    /// is not sampled, `chance` determines the length.
    pub(crate) fn value_bytes(&self, deadline: u32, ttl: usize, chance: u64) -> usize {
        let since = deadline.checked_sub(self.begin).filter(|since| since.is_multiple_of(GAP_SECS));
        match since.map(|since| since / GAP_SECS).filter(|sample| *sample < self.samples) {
            Some(sample) => sampled_value_bytes(sample, ttl),
            None => other_value_bytes(chance),
        }
    }
}

/// Returns the length of the values of the cohort that expires with a sample and had `TTLS[ttl]`.
pub(crate) fn sampled_value_bytes(sample: u32, ttl: usize) -> usize {
    // Permutes the sizes, so that later samples do not have larger ones.
    let place = (sample as usize * TTLS.len() + ttl) * STRIDE % SIZES;
    VALUE_BYTES_MIN + 2 * STEP_BYTES * place
}

/// Returns a random length for a value outside the sampled cohorts, with the same mean.
pub(crate) fn other_value_bytes(chance: u64) -> usize {
    VALUE_BYTES_MIN + STEP_BYTES + 2 * STEP_BYTES * (mix(chance) % SIZES as u64) as usize
}

pub(crate) const VALUE_BYTES_MAX: usize = VALUE_BYTES_MIN + 2 * STEP_BYTES * SIZES;
const VALUE_BYTES_MIN: usize = 64;
/// The step of the cache's list of sizes, in bytes.
const STEP_BYTES: usize = 32;
/// Number of sizes of sampled cohorts.
const SIZES: usize = SAMPLES_MAX as usize * TTLS.len();
pub(crate) const SAMPLES_MAX: u32 = 30;
const GAP_SECS: u32 = 40;
/// Coprime to [`SIZES`], so that no two cohorts share a size.
const STRIDE: usize = 37;
