//! The worker's side of the hot keys: chooses a few commands at random, and passes their keys to
//! the collector.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use fastrand::Rng;
use rtrb::{Consumer, Producer};

use crate::observe::prefix_stats::Access;

/// How many commands a sample currently stands for; 0 while nothing is sampled. The collector sets
/// it, and all samplers read it.
pub(super) type Mean = AtomicU32;

/// Samples the commands of one thread. The cost of a command that is not sampled is one countdown.
pub(crate) struct Sampler {
    /// Commands to skip before the next sample.
    skipped: Cell<u32>,
    rest: RefCell<Rest>,
}

/// The state that only a sampled command needs.
struct Rest {
    mean: Arc<Mean>,
    /// The mean that the sampler currently uses, and the logarithm of the probability that a
    /// command is skipped.
    skipping: (u32, f64),
    random: Rng,
    ring: Producer<u8>,
}

/// A sampled command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub(super) key: &'a [u8],
    /// Bytes of the request and of its response.
    pub(super) bytes: u32,
    pub(super) access: Access,
    /// How many commands the sample stands for.
    pub(super) weight: u32,
}

/// The outcome for a sampled command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleResult {
    /// The collector will receive the sample.
    Passed,
    /// The sample was dropped because the ring is full.
    Lost,
    /// Sampling is currently off.
    Off,
}

impl Sampler {
    /// Creates a sampler and the collector's end of its ring.
    pub(super) fn new(mean: Arc<Mean>, seed: u64) -> (Self, Consumer<u8>) {
        let (ring, consumer) = rtrb::RingBuffer::new(RING_BYTES);
        let random = Rng::with_seed(seed);
        let rest = RefCell::new(Rest { mean, skipping: (0, 0.0), random, ring });
        (Self { skipped: Cell::new(0), rest }, consumer)
    }

    /// Counts a command. Returns true if it must be passed to [`Self::pass`].
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let left = self.skipped.get();
        self.skipped.set(left.wrapping_sub(1));
        left == 0
    }

    /// Passes a sampled command to the collector, and chooses the next one. A command without a key
    /// is passed as `None`: it takes part in the choice, so that every command has the same chance.
    #[cold]
    pub(crate) fn pass(
        &self,
        key: Option<&[u8]>,
        bytes: usize,
        access: Access,
    ) -> Option<SampleResult> {
        let rest = &mut *self.rest.borrow_mut();
        let weight = rest.skipping.0;
        let mean = rest.mean.load(Relaxed);
        if mean != weight {
            rest.skipping = (mean, (-1.0 / f64::from(mean.max(2))).ln_1p());
        }
        if mean == 0 {
            self.skipped.set(SKIPPED_WHILE_OFF);
            return Some(SampleResult::Off);
        }
        self.skipped.set(rest.skip());
        // At this command the sampler found that sampling has been switched on. The command was not
        // chosen at random, so it is not a sample.
        if weight == 0 {
            return Some(SampleResult::Off);
        }
        let key = key?;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Some(rest.push(&Sample { key, bytes, access, weight }))
    }
}

impl Rest {
    /// Draws the number of commands to skip from the geometric distribution.
    fn skip(&mut self) -> u32 {
        // Above 0, because the logarithm of 0 is infinite.
        let drawn = 1.0 - self.random.f64();
        (drawn.ln() / self.skipping.1) as u32
    }

    /// Writes a sample into the ring, unless it is full.
    fn push(&mut self, sample: &Sample<'_>) -> SampleResult {
        let Ok(key_bytes) = u8::try_from(sample.key.len()) else { return SampleResult::Lost };
        let mut head = [0; HEAD_BYTES];
        head[0] = key_bytes;
        head[1..5].copy_from_slice(&sample.bytes.to_le_bytes());
        head[5..9].copy_from_slice(&sample.weight.to_le_bytes());
        head[9] = sample.access as u8;
        let Ok(mut chunk) = self.ring.write_chunk(HEAD_BYTES + sample.key.len()) else {
            return SampleResult::Lost;
        };
        let (first, second) = chunk.as_mut_slices();
        let behind = fill(first, &[&head, sample.key]);
        fill(second, &behind);
        chunk.commit_all();
        SampleResult::Passed
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("skipped", &self.skipped).finish_non_exhaustive()
    }
}

/// Copies the first bytes of `parts` into all of `to`, and returns the rest.
fn fill<'a>(mut to: &mut [u8], parts: &[&'a [u8]; 2]) -> [&'a [u8]; 2] {
    parts.map(|part| {
        let (now, later) = part.split_at(part.len().min(to.len()));
        let (filled, rest) = std::mem::take(&mut to).split_at_mut(now.len());
        filled.copy_from_slice(now);
        to = rest;
        later
    })
}

/// Takes all samples out of a ring. `bytes` is a scratch buffer.
pub(super) fn take(ring: &mut Consumer<u8>, bytes: &mut Vec<u8>, mut show: impl FnMut(Sample<'_>)) {
    bytes.clear();
    // A sampler publishes all bytes of a sample together, so the ring contains only complete
    // samples.
    let Ok(chunk) = ring.read_chunk(ring.slots()) else { return };
    let (first, second) = chunk.as_slices();
    bytes.extend_from_slice(first);
    bytes.extend_from_slice(second);
    chunk.commit_all();
    let mut rest = &bytes[..];
    while let Some((sample, behind)) = split(rest) {
        show(sample);
        rest = behind;
    }
}

/// Splits off the first sample.
fn split(bytes: &[u8]) -> Option<(Sample<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let (key, rest) = rest.split_at_checked(usize::from(head[0]))?;
    let [_, b0, b1, b2, b3, w0, w1, w2, w3, access] = *head;
    let bytes = u32::from_le_bytes([b0, b1, b2, b3]);
    let weight = u32::from_le_bytes([w0, w1, w2, w3]);
    let access = [Access::Other, Access::Miss, Access::Hit][usize::from(access).min(2)];
    Some((Sample { key, bytes, access, weight }, rest))
}

/// The bytes of a sample without the key: the key's length, the bytes of the command, the weight,
/// and the access.
const HEAD_BYTES: usize = 10;

/// Capacity for the samples of 100 ms at the intended rate and, with keys of 30 bytes, at ten times
/// that rate.
const RING_BYTES: usize = 512 * 1024;

/// While nothing is sampled, a sampler checks after this many commands whether that has changed.
const SKIPPED_WHILE_OFF: u32 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(mean: u32, seed: u64) -> (Sampler, Consumer<u8>) {
        let (sampler, ring) = Sampler::new(Arc::new(Mean::new(mean)), seed);
        while !sampler.is_due() {}
        assert_eq!(sampler.pass(Some(b"first"), 0, Access::Miss), Some(SampleResult::Off));
        (sampler, ring)
    }

    #[test]
    fn each_command_is_sampled_with_the_same_probability_whatever_came_before() {
        const COMMANDS: u32 = 4_000_000;
        for (mean, seed) in [(8, 1), (32, 2), (128, 3)] {
            let (sampler, mut ring) = sampler(mean, seed);
            let (mut passed, mut doubles, mut weights, mut last) = (0, 0, 0, None);
            for number in 0..COMMANDS {
                if sampler.is_due() {
                    assert_eq!(
                        sampler.pass(Some(b"k"), 1, Access::Miss),
                        Some(SampleResult::Passed)
                    );
                    passed += 1;
                    doubles += u32::from(last == Some(number.wrapping_sub(1)));
                    last = Some(number);
                    take(&mut ring, &mut Vec::new(), |sample| weights += sample.weight);
                }
            }
            let expected = f64::from(COMMANDS) / f64::from(mean);
            // Six standard deviations.
            assert!((f64::from(passed) - expected).abs() < 6.0 * expected.sqrt(), "{passed}");
            let expected = expected / f64::from(mean);
            assert!((f64::from(doubles) - expected).abs() < 6.0 * expected.sqrt(), "{doubles}");
            assert_eq!(weights, passed * mean, "the samples stand for all commands");
        }
    }

    #[test]
    fn a_full_ring_drops_samples_and_goes_on_afterwards() {
        let (sampler, mut ring) = sampler(1, 4);
        let key = [b'x'; 250];
        let mut passed = 0;
        while passed <= RING_BYTES
            && sampler.pass(Some(&key), 7, Access::Miss) == Some(SampleResult::Passed)
        {
            passed += 1;
        }
        assert_eq!(passed, RING_BYTES / (HEAD_BYTES + key.len()));
        assert_eq!(sampler.pass(Some(&key), 7, Access::Miss), Some(SampleResult::Lost));
        let mut taken = 0;
        take(&mut ring, &mut Vec::new(), |sample| {
            assert_eq!(sample, Sample { key: &key, bytes: 7, access: Access::Miss, weight: 1 });
            taken += 1;
        });
        assert_eq!(taken, passed);
        assert_eq!(sampler.pass(Some(b""), usize::MAX, Access::Miss), Some(SampleResult::Passed));
        take(&mut ring, &mut Vec::new(), |sample| {
            assert_eq!(
                sample,
                Sample { key: b"", bytes: u32::MAX, access: Access::Miss, weight: 1 }
            );
        });
    }

    #[test]
    fn samples_cross_threads_whole_and_in_order() {
        let (sampler, mut ring) = sampler(1, 5);
        let sent = std::thread::spawn(move || {
            (0..200_000u32)
                .filter(|number| {
                    let key = number.to_string().repeat(1 + *number as usize % 20);
                    sampler.pass(Some(key.as_bytes()), *number as usize, Access::Hit)
                        == Some(SampleResult::Passed)
                })
                .collect::<Vec<_>>()
        });
        let (mut received, mut bytes) = (Vec::new(), Vec::new());
        loop {
            let is_over = sent.is_finished();
            take(&mut ring, &mut bytes, |sample| {
                let key = sample.bytes.to_string().repeat(1 + sample.bytes as usize % 20);
                assert_eq!(sample.key, key.as_bytes());
                received.push(sample.bytes);
            });
            if is_over {
                break;
            }
        }
        assert_eq!(received, sent.join().unwrap());
    }

    #[test]
    fn while_sampling_is_off_nothing_is_passed_and_it_begins_soon() {
        let mean = Arc::new(Mean::new(0));
        let (sampler, mut ring) = Sampler::new(Arc::clone(&mean), 6);
        let sample = |commands: u32| {
            for _ in 0..commands {
                if sampler.is_due() {
                    sampler.pass(Some(b"k"), 1, Access::Miss);
                }
            }
        };
        sample(10_000);
        assert_eq!(ring.slots(), 0);
        mean.store(8, Relaxed);
        sample(1000);
        let mut count = 0;
        take(&mut ring, &mut Vec::new(), |_| count += 1);
        assert!((40..200).contains(&count), "{count} samples of about 750 commands");
    }
}
