//! The time that a whole command may take: a server that trickles answers each read in time.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, process, thread};

use larder_loadgen::argument::whole;

use crate::outcome::EXIT_FAILED;

/// The file that the command writes and has not finished: the end of the time removes it.
static UNFINISHED: Mutex<Option<Box<Path>>> = Mutex::new(None);

fn unfinished() -> MutexGuard<'static, Option<Box<Path>>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names the file that the command begins to write, or that it has none any more.
pub(crate) fn set_unfinished(path: Option<&Path>) {
    *unfinished() = path.map(Box::from);
}

/// The option of a subcommand that ends soon.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct TimeLimit {
    /// End with exit code 2 if the whole command takes longer
    #[arg(
        long, value_name = "SECS", default_value_t = 60, value_parser = whole::<u32>(1..=u32::MAX)
    )]
    timeout: u32,
}

impl TimeLimit {
    /// Ends the process with an error once the time is over.
    pub(crate) fn begin(self) {
        begin(self.timeout);
    }
}

/// Ends the process with an error after this many seconds.
pub(crate) fn begin(secs: u32) {
    let watch = move || {
        thread::sleep(Duration::from_secs(secs.into()));
        eprintln!(
            "larder: the command has not ended within {secs} s: the server is slow, or it answers \
             without an end; --timeout SECS gives it more time"
        );
        if let Some(path) = &*unfinished() {
            // It may have just got its final name.
            let _ = fs::remove_file(path);
        }
        process::exit(EXIT_FAILED.into());
    };
    if let Err(error) = thread::Builder::new().name("time limit".to_owned()).spawn(watch) {
        eprintln!("larder: --timeout has no effect: {error}");
    }
}
