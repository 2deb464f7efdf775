//! System limits: descriptors, core files, and memory that must not be swapped.

use larder_options::Options;
use nix::sys::mman::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::{EXIT_OS, Failure};
use crate::log;
use crate::server::descriptors_reserved;

/// Raises the limits for descriptors and, if requested, for core files. Returns the number of
/// connections that the descriptors permit. This is the value of `-c`, or somewhat less if the
/// process cannot have more than `-c` descriptors in total, which memcached also accepts.
pub(crate) fn raise(options: &Options) -> Result<usize, Failure> {
    if options.core_dumps {
        allow_core_files()?;
    }
    let (wanted, reserved) = (options.connection_count_max, descriptors_reserved(options));
    let allowed = allow_descriptors((wanted + reserved) as u64);
    let possible = usize::try_from(allowed).unwrap_or(usize::MAX).saturating_sub(reserved);
    if possible >= wanted {
        return Ok(wanted);
    }
    if allowed < wanted as u64 || possible == 0 {
        let message = format_args!(
            "option -c: {wanted} connections need {} file descriptors, but the process may open \
             {allowed} (ulimit -n); raise the limit, or lower -c",
            wanted + reserved
        );
        return Err(Failure::new(EXIT_OS, message));
    }
    log::warn(format_args!(
        "larderd: option -c: at most {possible} connections: the process may open {allowed} file \
         descriptors; raise the limit (ulimit -n), or lower -c"
    ));
    Ok(possible)
}

/// Raises the descriptor limit to `needed`, or as far as permitted. Returns the new limit.
fn allow_descriptors(needed: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    if current.is_none_or(|current| current >= needed) {
        return needed;
    }
    let raised = Rlimit { current: Some(needed), maximum: maximum.map(|most| most.max(needed)) };
    let highest = Rlimit { current: maximum, maximum };
    if setrlimit(Resource::Nofile, raised).is_err() {
        // If this fails, the current limit stays in effect.
        let _ = setrlimit(Resource::Nofile, highest);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(needed)
}

/// Removes the limit for core files, or raises it to the hard limit, which must not be 0.
fn allow_core_files() -> Result<(), Failure> {
    let maximum = getrlimit(Resource::Core).maximum;
    let unlimited = Rlimit { current: None, maximum: None };
    let highest = Rlimit { current: maximum, maximum };
    let raised =
        setrlimit(Resource::Core, unlimited).or_else(|_| setrlimit(Resource::Core, highest));
    if raised.is_ok() && getrlimit(Resource::Core).current != Some(0) {
        return Ok(());
    }
    let message = "option -r: the system does not permit core files (ulimit -c); raise the limit";
    Err(Failure::new(EXIT_OS, message))
}

/// Locks all current and future memory, so that it is not swapped. If this fails, the server
/// continues.
pub(crate) fn lock_memory(options: &Options) {
    if options.lock_memory
        && let Err(error) = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
    {
        log::warn(format_args!(
            "larderd: option -k: the memory cannot be locked and may be swapped: {error}; raise the \
             limit (ulimit -l), or leave -k out"
        ));
    }
}
