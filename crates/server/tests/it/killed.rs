//! Processes that do not outlive their test.

use std::process::Child;

/// A process, killed at the end of the test.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
