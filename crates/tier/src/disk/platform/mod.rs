//! The directories of the operating system. Only this folder depends on which one it is.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Caution, RealDirectory, RealFile, RealLock};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::{Caution, RealDirectory, RealFile, RealLock};
