//! Trains dictionaries.

use zstd::zstd_safe::train_from_buffer;

use super::codec::{Dictionary, compress, set_number};

/// The length of all samples together, in bytes. zstd recommends a hundred times the length of the
/// dictionary, but half a MiB is enough for 16 KiB: the values of a cache are similar.
pub(crate) const SAMPLE_BYTES_MAX: usize = 512 << 10;
/// One in this many samples is not used for training. It judges the result.
const JUDGES: usize = 8;
/// A new dictionary must save at least this much, in percent.
const GAIN_PERCENT: usize = 5;

/// Trains a dictionary with a number. Returns `None` if the samples do not suffice, or if they do
/// not become shorter than with the `current` dictionary.
///
/// Cost: about 150 ms of processor time and 20 MiB of memory.
pub(crate) fn train(
    samples: &[Vec<u8>],
    dictionary_bytes: usize,
    number: u8,
    current: Option<&Dictionary>,
) -> Option<Vec<u8>> {
    let is_judge = |index: usize| index % JUDGES == JUDGES - 1;
    let judges = || samples.iter().enumerate().filter(|(index, _)| is_judge(*index));
    let mut bytes = Vec::new();
    let mut lengths = Vec::new();
    for (_, sample) in samples.iter().enumerate().filter(|(index, _)| !is_judge(*index)) {
        bytes.extend_from_slice(sample);
        lengths.push(sample.len());
    }
    let mut trained = Vec::with_capacity(dictionary_bytes);
    train_from_buffer(&mut trained, &bytes, &lengths).ok()?;
    set_number(&mut trained, number);
    let dictionary = Dictionary::new(trained.clone());
    let length = |sample: &[u8], dictionary| {
        compress(sample, dictionary).map_or(sample.len(), |frame| frame.stored().len())
    };
    let total =
        |dictionary| -> usize { judges().map(|(_, sample)| length(sample, dictionary)).sum() };
    let (before, after) = (total(current), total(Some(&dictionary)));
    (after * 100 <= before * (100 - GAIN_PERCENT)).then_some(trained)
}
