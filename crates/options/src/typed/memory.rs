//! `-m` as a percentage: turns it into bytes once the memory of the process is known.

use crate::error::OptionError;
use crate::given::values::{Origin, Values};
use crate::table::Id;
use crate::table::kind::{KIBIBYTE, MEBIBYTE};

/// The memory that a process may use at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBound {
    /// Its size.
    pub bytes: u64,
    /// The file that contains the size, for messages: `memory.max of /sys/fs/cgroup/a`.
    pub origin: String,
}

/// A percentage of a [`MemoryBound`], without the memory that a server uses beyond its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShare {
    /// The percentage, from 1 to 100.
    pub percent: u8,
    /// Bytes that the server uses beyond its cache: see
    /// [`Options::fixed_memory_bytes`](crate::Options::fixed_memory_bytes).
    pub fixed_bytes: u64,
}

impl MemoryShare {
    /// Returns the bytes of the cache: the percentage of `bound_bytes` minus the fixed part,
    /// rounded down to MiB. 0 if the fixed part is larger.
    pub fn bytes_of(self, bound_bytes: u64) -> u64 {
        let left = self.part_of(bound_bytes).saturating_sub(self.fixed_bytes);
        (left / MEBIBYTE * MEBIBYTE).min(CACHE_BYTES_MAX)
    }

    /// Returns the percentage of `bound_bytes`, fixed part included.
    pub fn part_of(self, bound_bytes: u64) -> u64 {
        (u128::from(bound_bytes) * u128::from(self.percent) / 100) as u64
    }

    /// Returns the smallest bound, rounded up to MiB, that is enough for a cache.
    fn bound_bytes_min(self) -> u64 {
        let needed = self.fixed_bytes + Self::CACHE_BYTES_MIN;
        (needed * 100).div_ceil(u64::from(self.percent)).next_multiple_of(MEBIBYTE)
    }

    /// The smallest cache that a percentage may result in. Same as the minimum of
    /// `cache_memlimit`.
    pub const CACHE_BYTES_MIN: u64 = 8 * MEBIBYTE;
}

/// Replaces a percentage of `-m` by the bytes that it currently means. Calls `bound` only if `-m`
/// is a percentage.
///
/// # Errors
/// Fails if the bound is unknown or too small.
pub(crate) fn resolve(
    mut values: Values,
    bound: &dyn Fn() -> Result<MemoryBound, String>,
) -> Result<Values, OptionError> {
    let Some(share) = share(&values) else { return Ok(values) };
    let percent = share.percent;
    let error = |what: &str| {
        let origin = values.given(Id::MemoryLimit).map_or(&Origin::Default, |given| &given.origin);
        OptionError::new(format!("{}: {what}", origin.spelling(Id::MemoryLimit.row())))
    };
    let bound = bound().map_err(|why| {
        error(&format!("{percent}% needs the memory limit of this process, but {why}"))
    })?;
    let bytes = share.bytes_of(bound.bytes);
    let part = format!(
        "{percent}% of {} ({}) minus {} for connections and the process",
        mebibytes(bound.bytes),
        bound.origin,
        mebibytes(share.fixed_bytes),
    );
    if bytes < MemoryShare::CACHE_BYTES_MIN {
        return Err(error(&format!(
            "{part} leaves {}, and a cache needs {}: raise that limit to {} or more, lower -c or \
             -o read_buf_mem_limit, or give -m in MiB",
            mebibytes(bytes),
            mebibytes(MemoryShare::CACHE_BYTES_MIN),
            mebibytes(share.bound_bytes_min()),
        )));
    }
    values.resolve_percent(Id::MemoryLimit, bytes, format!("{}: {part}", mebibytes(bytes)));
    Ok(values)
}

/// Refuses a percentage, for programs that contain a cache.
///
/// # Errors
/// Fails if `-m` is a percentage.
pub(crate) fn refuse_percent(values: &Values) -> Result<(), OptionError> {
    let Some(percent) = values.percent(Id::MemoryLimit) else { return Ok(()) };
    let name = Id::MemoryLimit.row().name;
    Err(OptionError::new(format!(
        "option {name}: \"{percent}%\" is only possible in larderd, which follows the memory limit \
         of its process; give a number of MiB, or one with k, m or g after it"
    )))
}

/// Returns the percentage of `-m`; `None` if it is a number of bytes.
pub(crate) fn share(values: &Values) -> Option<MemoryShare> {
    let percent = values.percent(Id::MemoryLimit)?;
    Some(MemoryShare { percent, fixed_bytes: fixed_bytes_of(values) })
}

/// Returns the fixed part for these values.
fn fixed_bytes_of(values: &Values) -> u64 {
    let buffer_mebibytes: u64 = values.unsigned(Id::ReadBufMemLimit);
    fixed_bytes(
        buffer_mebibytes * MEBIBYTE,
        values.unsigned(Id::ConnLimit),
        values.unsigned(Id::Threads),
        values.switch(Id::EnableSsl),
    )
}

/// Returns the bytes that a server uses at most beyond its cache. `buffer_bytes_max` is
/// `-o read_buf_mem_limit`, 0 for the default. deploy/kubernetes/README.md has the formula.
pub fn fixed_bytes(
    buffer_bytes_max: u64,
    connection_count: u64,
    worker_count: u64,
    is_encrypted: bool,
) -> u64 {
    let buffer_bytes = match buffer_bytes_max {
        0 => BUFFER_BYTES_DEFAULT,
        given => given,
    };
    let of_tls = if is_encrypted { TLS_BYTES } else { 0 };
    buffer_bytes
        + (IDLE_BYTES + of_tls) * connection_count
        + WORKER_BYTES * worker_count
        + PROCESS_BYTES
}

/// Returns an amount in whole MiB, rounded down, with its unit.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / MEBIBYTE)
}

/// Memory for the buffers of all connections together if `-o read_buf_mem_limit` is 0, in bytes.
pub const BUFFER_BYTES_DEFAULT: u64 = 64 * MEBIBYTE;

/// Memory of an idle connection: 0.5 KiB of the process, and 1.5 KiB of the kernel for its socket.
const IDLE_BYTES: u64 = 2 * KIBIBYTE;

/// Additional memory of an idle connection with TLS.
const TLS_BYTES: u64 = 4 * KIBIBYTE;

/// Memory of a worker: its ring, its buffers for input, and a part of those for responses.
const WORKER_BYTES: u64 = 4 * MEBIBYTE;

/// The program, its other threads, the admin listener, and what allocators keep.
const PROCESS_BYTES: u64 = 16 * MEBIBYTE;

/// The largest `-m`.
const CACHE_BYTES_MAX: u64 = 16 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::options::Options;

    fn share(percent: u8, fixed_mebibytes: u64) -> MemoryShare {
        MemoryShare { percent, fixed_bytes: fixed_mebibytes * MEBIBYTE }
    }

    #[test]
    fn the_percentage_is_taken_before_the_fixed_part_is_subtracted() {
        let bytes = |percent, bound: u64| share(percent, 97).bytes_of(bound * MEBIBYTE) / MEBIBYTE;
        assert_eq!(bytes(80, 256), 107);
        assert_eq!(bytes(100, 256), 159);
        assert_eq!(bytes(80, 121), 0);
        assert_eq!(share(100, 0).bytes_of(u64::MAX), 16 << 40);
        assert_eq!(share(1, 0).bytes_of(u64::MAX / 2) >> 40, 16);
    }

    #[test]
    fn the_smallest_bound_is_enough_and_a_smaller_one_is_not() {
        for percent in [1, 33, 80, 100] {
            let share = share(percent, 97);
            let min = share.bound_bytes_min();
            assert!(share.bytes_of(min) >= MemoryShare::CACHE_BYTES_MIN, "{percent}");
            let less = min - MEBIBYTE;
            assert!(share.bytes_of(less) < MemoryShare::CACHE_BYTES_MIN, "{percent}");
        }
    }

    #[test]
    fn the_fixed_part_follows_the_options() {
        let fixed = |map: &[(&str, &str)]| {
            let (options, _) = Options::from_map(map.iter().copied()).unwrap();
            options.fixed_memory_bytes() / KIBIBYTE
        };
        assert_eq!(fixed(&[]), (64 + 32) * 1024 + 2048);
        assert_eq!(fixed(&[("conn_limit", "4096"), ("read_buf_mem_limit", "8")]), 40 * 1024 + 8192);
        assert_eq!(fixed(&[("threads", "32")]), (64 + 16 + 128) * 1024 + 2048);
        let tls = [("enable_ssl", "yes"), ("ssl_chain_cert", "/c"), ("ssl_key", "/k")];
        assert_eq!(fixed(&tls), (64 + 32) * 1024 + 2048 + 4096);
    }

    #[test]
    fn a_program_with_a_cache_has_no_percentage() {
        let error = Options::from_map([("memory_limit", "80%")]).unwrap_err();
        let begin = "option memory_limit: \"80%\" is only possible in larderd";
        assert!(error.message.starts_with(begin), "{}", error.message);
    }
}
