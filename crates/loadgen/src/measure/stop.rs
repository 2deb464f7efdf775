//! Ends a run early on Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A flag that is true once the user has requested a stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Handles Ctrl-C and the signals that end a process. The first signal requests a stop. A
    /// second one ends the process immediately, unless the process must clean up.
    ///
    /// # Errors
    /// Errors of installing the signal handlers.
    pub(crate) fn on_signals(cleans_up: bool) -> Result<Self> {
        let stop = Self::default();
        // If no cleanup is needed, SIGHUP keeps its disposition, which `nohup` may have set.
        let signals: &[i32] =
            if cleans_up { &[SIGINT, SIGTERM, SIGHUP] } else { &[SIGINT, SIGTERM] };
        for &signal in signals {
            if !cleans_up {
                signal_hook::flag::register_conditional_default(signal, stop.0.clone())?;
            }
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    /// Requests a stop, like a signal.
    #[cfg(test)]
    pub(crate) fn ask(&self) {
        self.0.store(true, Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Relaxed)
    }
}
