//! Locks and atomics, which `shuttle` replaces with its own in tests.

#[cfg(feature = "interleavings")]
pub(super) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(feature = "interleavings")]
pub(super) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(feature = "interleavings"))]
pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(not(feature = "interleavings"))]
pub(super) use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks a mutex. No change under these locks can be interrupted by a panic half-way.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
