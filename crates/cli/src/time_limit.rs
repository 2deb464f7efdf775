//! A limit for the time of a complete command. A server that sends its response in small pieces
//! could otherwise satisfy the time limit of each read.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, process, thread};

use larder_loadgen::argument::whole;

use crate::outcome::EXIT_FAILED;

/// The file that the command has not finished. It is removed when the time is over.
static UNFINISHED: Mutex<Option<Box<Path>>> = Mutex::new(None);

fn unfinished() -> MutexGuard<'static, Option<Box<Path>>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the file that the command is writing, or `None` when it is finished.
pub(crate) fn set_unfinished(path: Option<&Path>) {
    *unfinished() = path.map(Box::from);
}

/// The option of subcommands that normally end soon.
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
            "larder: the command has not ended within {secs} s: the server is slow, or its \
             response is endless; --timeout SECS allows more time"
        );
        if let Some(path) = &*unfinished() {
            // The file may have received its final name in the meantime.
            let _ = fs::remove_file(path);
        }
        process::exit(EXIT_FAILED.into());
    };
    if let Err(error) = thread::Builder::new().name("time limit".to_owned()).spawn(watch) {
        eprintln!("larder: --timeout has no effect: {error}");
    }
}
