//! The size of a compressed value, for values that the traces do not contain.

use std::fmt;

use anyhow::Result;

use crate::codec;
use crate::corpus::Corpus;

/// The number of classes of sizes: a class ends at a power of two.
const CLASSES: usize = 32;

/// Values below this size are not compressed, in bytes.
const VALUE_BYTES_MIN: usize = 64;

/// The part of a value that is left after compression.
#[derive(Clone)]
pub(crate) enum Ratio {
    /// The same part of each value.
    Fixed(f64),
    /// The part by class of sizes.
    BySize(Box<[f64; CLASSES]>),
}

impl Ratio {
    /// Measures the ratio of each class of sizes on the records of a corpus.
    pub(crate) fn of_records(corpus: &Corpus) -> Result<Self> {
        let mut bytes = [(0, 0); CLASSES];
        for pair in codec::pairs(corpus)? {
            let (before, after) = &mut bytes[class_of(pair.before)];
            (*before, *after) = (*before + pair.before, *after + pair.after);
        }
        // A class without records takes the ratio of the class below.
        let mut last = 1.0;
        Ok(Self::BySize(Box::new(bytes.map(|(before, after)| {
            last = if before > 0 { after as f64 / before as f64 } else { last };
            last
        }))))
    }

    /// Returns the bytes of a compressed value; `value_bytes` if it is not compressed.
    pub(crate) fn compressed_bytes(&self, value_bytes: usize) -> usize {
        let ratio = match self {
            _ if value_bytes < VALUE_BYTES_MIN => 1.0,
            Self::Fixed(ratio) => *ratio,
            Self::BySize(ratios) => ratios[class_of(value_bytes)],
        };
        (value_bytes as f64 * ratio).ceil() as usize
    }
}

fn class_of(value_bytes: usize) -> usize {
    (value_bytes.max(1).ilog2() as usize).min(CLASSES - 1)
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(ratio) => write!(out, "{ratio:.2}"),
            Self::BySize(ratios) => {
                let shown = (6..16).map(|class| format!("{} B {:.2}", 1 << class, ratios[class]));
                write!(out, "{}", shown.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
