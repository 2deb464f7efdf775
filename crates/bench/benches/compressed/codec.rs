//! Compresses the values of a corpus, and measures the bytes and the time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zstd::bulk::{Compressor, Decompressor};

use crate::corpus::Corpus;

/// Sizes of the dictionaries that are compared, in bytes.
const DICTIONARIES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// Time that a measurement of one pass is repeated for.
const PASSES: Duration = Duration::from_millis(100);

/// The smallest saving, in bytes, for which a value is stored compressed.
const SAVED_BYTES_MIN: usize = 16;

/// A way to compress.
#[derive(Clone, Copy)]
struct Method {
    level: i32,
    /// `None` without a dictionary.
    dictionary_bytes: Option<usize>,
}

/// The test values of a prefix, and their dictionary, which is empty without one.
struct Prefix<'v> {
    values: Vec<&'v [u8]>,
    dictionary: Vec<u8>,
}

/// The bytes of a value before and after.
pub(crate) struct Pair {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

pub(crate) fn print_head() {
    println!(
        "| values | bytes, mean | level | dictionary | bytes left | compressed | ns to compress | \
         ns to decompress |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    );
}

/// Prints a row for each method.
pub(crate) fn print(corpus: &Corpus) -> Result<()> {
    let mut methods = vec![Method { level: 1, dictionary_bytes: None }];
    methods.extend(DICTIONARIES.map(|bytes| Method { level: 1, dictionary_bytes: Some(bytes) }));
    methods.push(Method { level: 3, dictionary_bytes: Some(DICTIONARIES[1]) });
    for method in methods {
        print_row(corpus, method)?;
    }
    Ok(())
}

/// Returns the sizes of the test values, compressed with a dictionary of 16 KiB at level 1.
pub(crate) fn pairs(corpus: &Corpus) -> Result<Vec<Pair>> {
    let method = Method { level: 1, dictionary_bytes: Some(DICTIONARIES[1]) };
    let mut pairs = Vec::new();
    for prefix in prefixes(corpus, method)? {
        let mut compressor = compressor(&prefix, method)?;
        for value in &prefix.values {
            let after = kept_bytes(value.len(), compressor.compress(value)?.len());
            pairs.push(Pair { before: value.len(), after });
        }
    }
    Ok(pairs)
}

fn print_row(corpus: &Corpus, method: Method) -> Result<()> {
    let (mut count, mut before, mut after, mut compressed) = (0, 0, 0, 0);
    let (mut compressing, mut decompressing) = (0.0, 0.0);
    for prefix in prefixes(corpus, method)? {
        let mut compressor = compressor(&prefix, method)?;
        let mut decompressor = Decompressor::with_dictionary(&prefix.dictionary)?;
        let frames = prefix.values.iter().map(|value| compressor.compress(value));
        let frames = frames.collect::<Result<Vec<_>, _>>()?;
        for (value, frame) in prefix.values.iter().zip(&frames) {
            ensure!(decompressor.decompress(frame, value.len())? == *value, "a value has changed");
            let kept = kept_bytes(value.len(), frame.len());
            (before, after) = (before + value.len(), after + kept);
            compressed += usize::from(kept < value.len());
        }
        count += frames.len();
        let longest = prefix.values.iter().map(|value| value.len()).max().unwrap_or(0);
        let mut out = Vec::with_capacity(zstd::zstd_safe::compress_bound(longest));
        compressing += total_ns(|| {
            for value in &prefix.values {
                out.clear();
                black_box(compressor.compress_to_buffer(black_box(*value), &mut out)?);
            }
            Ok(())
        })?;
        decompressing += total_ns(|| {
            for frame in &frames {
                out.clear();
                black_box(decompressor.decompress_to_buffer(black_box(frame), &mut out)?);
            }
            Ok(())
        })?;
    }
    let dictionary =
        method.dictionary_bytes.map_or("none".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    println!(
        "| {} | {} | {} | {dictionary} | {:.2} | {:.0} % | {:.0} | {:.0} |",
        corpus.name,
        before / count.max(1),
        method.level,
        share(after, before),
        100.0 * share(compressed, count),
        compressing / count as f64,
        decompressing / count as f64
    );
    Ok(())
}

/// Returns the bytes that the cache stores: a value that saves too little stays as it is.
fn kept_bytes(before: usize, compressed: usize) -> usize {
    let saved = before.saturating_sub(compressed);
    if saved >= SAVED_BYTES_MIN.max(before / 8) { compressed } else { before }
}

fn compressor(prefix: &Prefix<'_>, method: Method) -> Result<Compressor<'static>> {
    let mut compressor = Compressor::with_dictionary(method.level, &prefix.dictionary)?;
    // The cache knows the dictionary from the key, the length from the record, and checks nothing.
    compressor.include_dictid(false)?;
    compressor.include_contentsize(false)?;
    compressor.include_checksum(false)?;
    Ok(compressor)
}

/// Trains the dictionary of each prefix on the values with even positions. The others are the test
/// values.
fn prefixes(corpus: &Corpus, method: Method) -> Result<Vec<Prefix<'_>>> {
    let prefix = |values: &'_ Vec<Vec<u8>>| -> Result<Vec<u8>> {
        let Some(bytes) = method.dictionary_bytes else { return Ok(Vec::new()) };
        let samples: Vec<&[u8]> = values.iter().step_by(2).map(Vec::as_slice).collect();
        zstd::dict::from_samples(&samples, bytes).context("the samples make no dictionary")
    };
    let of = |values| {
        let dictionary = prefix(values)?;
        let values = values.iter().skip(1).step_by(2).map(Vec::as_slice).collect();
        Ok(Prefix { values, dictionary })
    };
    corpus.prefixes.iter().map(of).collect()
}

/// Returns the time of a pass over all values in nanoseconds: the least of several passes.
fn total_ns(mut pass: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    let mut least = Duration::MAX;
    loop {
        let start = Instant::now();
        pass()?;
        least = least.min(start.elapsed());
        if begun.elapsed() > PASSES || !larder_bench::is_measuring() {
            return Ok(least.as_nanos() as f64);
        }
    }
}
