//! Keys of a Zipf distribution.

use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand_distr::Zipf;

/// The numbers of keys, from which requests draw theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkewedKeys {
    count: u32,
    zipf: Option<Zipf<f64>>,
}

impl SkewedKeys {
    /// Creates `count` keys, of which a request draws the first most often. `skew` is the exponent
    /// of the distribution; with 0 all keys are equal.
    pub(crate) fn new(count: u32, skew: f64) -> Self {
        let zipf = (skew > 0.0)
            .then(|| Zipf::new(f64::from(count), skew).expect("both numbers are above 0"));
        Self { count, zipf }
    }

    /// Draws a key.
    pub(crate) fn draw(&self, random: &mut SmallRng) -> u32 {
        match &self.zipf {
            Some(zipf) => (zipf.sample(random) as u32 - 1).min(self.count - 1),
            None => {
                let word = rand::Rng::next_u64(random) >> 32;
                ((word * u64::from(self.count)) >> 32) as u32
            }
        }
    }
}

/// Returns a random number from 0 to below 1.
pub(crate) fn share(random: &mut SmallRng) -> f64 {
    (rand::Rng::next_u64(random) >> 11) as f64 / (1u64 << 53) as f64
}
