//! Item sizes for traces without sizes.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::argument::Quoted;
use crate::mix::mix;

/// A distribution of item sizes by its quantiles.
#[derive(Debug)]
pub struct Sizes {
    /// Contains [`QUANTILE_COUNT`] quantiles.
    quantiles: Vec<u32>,
}

impl Sizes {
    /// The name of the default file, in the trace's folder.
    pub const FILE_NAME: &'static str = "sizes-kvcache_reg.txt";

    /// Reads a file of quantiles in bytes, one per line.
    ///
    /// # Errors
    /// Names the file and the line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("the trace has no sizes, and those of {} (see --sizes)", path.display())
        })?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let quantile = |(index, line): (usize, &str)| {
            let line = line.trim_ascii();
            line.parse().with_context(|| {
                format!("line {}: {} is not a number", index + 1, Quoted::text(line))
            })
        };
        let quantiles = text.lines().enumerate().map(quantile).collect::<Result<Vec<u32>>>()?;
        let found = quantiles.len();
        ensure!(found == QUANTILE_COUNT, "{found} lines, expected {QUANTILE_COUNT}");
        Ok(Self { quantiles })
    }

    /// Returns the size of the item with this id, key and value, in bytes: a pseudo-random quantile
    /// plus up to 63 bytes, so that there are more sizes than quantiles.
    pub fn item_bytes(&self, id: u32) -> u32 {
        let mixed = mix(u64::from(id));
        let quantile = self.quantiles[(mixed % QUANTILE_COUNT as u64) as usize];
        quantile.saturating_add(16 + ((mixed >> 40) % 48) as u32)
    }
}

const QUANTILE_COUNT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_chooses_the_quantile_and_the_remainder_of_a_size() {
        let text: String = (0..1024).map(|quantile| format!("{}\n", quantile * 100)).collect();
        let sizes = Sizes::parse(&text).unwrap();
        // mix(0) is 0xE220A8397B1DCDAF.
        assert_eq!(sizes.item_bytes(0), 0x1AF * 100 + 16 + 0xE220A8 % 48);
    }

    #[test]
    fn an_invalid_file_is_refused() {
        let message = |text: &str| format!("{:#}", Sizes::parse(text).unwrap_err());
        assert_eq!(message("1\n2\n"), "2 lines, expected 1024");
        assert!(message("1\nx\n").starts_with("line 2: \"x\" is not a number"));
    }
}
