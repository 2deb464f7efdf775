//! Ending early when the person at the terminal asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether somebody has asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Heeds Ctrl-C and the signals that end a process: the first asks, a second ends at once unless
    /// there is something to clean up.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn on_signals(cleans_up: bool) -> Result<Self> {
        let stop = Self::default();
        // A hangup is left to nohup where there is nothing to clean up.
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

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Relaxed)
    }
}
