//! What the system allows the process: descriptors, core files, memory out of swap.

use larder_options::Options;
use nix::sys::mman::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::{EXIT_OS, Failure};

/// Sees to it that the process can have the descriptors it needs, and core files if it shall.
pub(crate) fn raise(options: &Options) -> Result<(), Failure> {
    if options.core_dumps {
        allow_core_files()?;
    }
    let needed = (options.connection_count_max + descriptors_reserved(options)) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is no limit.
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = maximum.map(|maximum| maximum.max(needed));
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).map_err(|error| {
        let connections = options.connection_count_max;
        let message = format_args!(
            "option -c: {connections} connections need {needed} file descriptors: {error}; \
             allow the process more, or ask for fewer connections"
        );
        Failure::new(EXIT_OS, message)
    })
}

/// Lifts the limit for core files, or raises it to the highest allowed; that must not be 0.
fn allow_core_files() -> Result<(), Failure> {
    let maximum = getrlimit(Resource::Core).maximum;
    let unlimited = Rlimit { current: None, maximum: None };
    let highest = Rlimit { current: maximum, maximum };
    let raised =
        setrlimit(Resource::Core, unlimited).or_else(|_| setrlimit(Resource::Core, highest));
    if raised.is_ok() && getrlimit(Resource::Core).current != Some(0) {
        return Ok(());
    }
    let message = "option -r: the system allows this process no core files (ulimit -c)";
    Err(Failure::new(EXIT_OS, message))
}

/// Keeps all memory, present and to come, out of swap. The server can do without.
pub(crate) fn lock_memory(options: &Options) {
    if options.lock_memory
        && let Err(error) = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
    {
        eprintln!("larderd: option -k: the memory cannot be kept out of swap: {error}");
    }
}

/// Descriptors that the process needs besides those of the connections: three for standard input and
/// output, three for the signals and the stop, three for each worker, those that are listened on, and
/// one to refuse a connection with.
pub(crate) fn descriptors_reserved(options: &Options) -> usize {
    let addresses = options.tcp_addresses().len() + options.udp_addresses().len();
    let listening = 1 + 2 * addresses;
    3 + 3 + 3 * options.worker_count + listening + 1 + DESCRIPTORS_SPARE
}

/// For what libraries and the runtime open now and then.
const DESCRIPTORS_SPARE: usize = 16;
