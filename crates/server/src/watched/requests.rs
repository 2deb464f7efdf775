//! Requests of clients to read files again now, with `refresh_certs`.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::log;
use crate::waker::{Promise, Waker};

/// The result of a request, for which a session waits: true if the files can be used.
pub(crate) type PendingRefresh = Arc<Promise<bool>>;

/// The requests that wait for the thread.
#[derive(Debug, Default)]
pub(crate) struct RefreshRequests {
    state: Mutex<State>,
    /// Wakes the thread. Unset until the thread starts, which then looks for requests.
    thread: OnceLock<Arc<Waker>>,
}

#[derive(Debug, Default)]
struct State {
    /// True if the thread must read the files.
    is_asked: bool,
    /// True once the server stops, so that no session waits for a disk.
    is_over: bool,
    /// The sessions that wait for the next read.
    waiting: Vec<PendingRefresh>,
    /// The sessions that wait for the current read.
    served: Vec<PendingRefresh>,
}

impl RefreshRequests {
    /// Adds a request for whose result no session waits.
    pub(crate) fn ask(&self) {
        self.state().is_asked = true;
        self.wake_thread();
    }

    /// Adds the request of a session. `waker` wakes its worker. Returns `None` if too many sessions
    /// wait, or if the server is about to end.
    pub(crate) fn add(&self, waker: &Arc<Waker>) -> Option<PendingRefresh> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        if state.waiting.len() + state.served.len() >= SESSIONS_MAX {
            log::warn(format_args!(
                "larderd: refresh_certs: refused, because {SESSIONS_MAX} clients wait for it"
            ));
            return None;
        }
        let pending = Arc::new(Promise::new(Arc::clone(waker)));
        state.waiting.push(Arc::clone(&pending));
        state.is_asked = true;
        drop(state);
        self.wake_thread();
        Some(pending)
    }

    /// Fails all requests that wait, because the thread makes no progress. It reads the files once
    /// it can.
    pub(super) fn fail(&self) {
        let mut state = self.state();
        let (waiting, served) = (mem::take(&mut state.waiting), mem::take(&mut state.served));
        drop(state);
        for pending in waiting.into_iter().chain(served) {
            pending.fulfil(false);
        }
    }

    /// Fails all requests, also later ones, because the server stops.
    pub(crate) fn close(&self) {
        self.state().is_over = true;
        self.fail();
    }

    /// Sets the waker of the thread.
    pub(super) fn start(&self, thread: &Arc<Waker>) {
        // The process has one thread, which starts once.
        let _ = self.thread.set(Arc::clone(thread));
    }

    /// True if the thread must read the files.
    pub(super) fn is_asked(&self) -> bool {
        self.state().is_asked
    }

    /// Returns true if the thread must read the files now, and [`Self::end`] afterwards.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.state();
        if !mem::take(&mut state.is_asked) {
            return false;
        }
        state.served = mem::take(&mut state.waiting);
        true
    }

    /// Passes the result of the read to the sessions that wait for it.
    pub(super) fn end(&self, is_usable: bool) {
        let served = mem::take(&mut self.state().served);
        for pending in served {
            pending.fulfil(is_usable);
        }
    }

    fn wake_thread(&self) {
        if let Some(thread) = self.thread.get() {
            thread.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The maximum number of sessions that wait.
const SESSIONS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_with_the_read_that_follows_them_or_with_a_failure() {
        let (requests, waker) = (RefreshRequests::default(), Arc::new(Waker::new().unwrap()));
        let first = requests.add(&waker).unwrap();
        assert!(requests.begin() && !requests.begin());
        let second = requests.add(&waker).unwrap();
        requests.end(true);
        assert_eq!((first.result(), second.result()), (Some(true), None));
        requests.fail();
        assert_eq!(second.result(), Some(false));
        assert!(requests.begin(), "the files are read once the disk responds");
        requests.end(true);
        assert_eq!(second.result(), Some(false));
    }

    #[test]
    fn the_sessions_that_wait_are_bounded_and_do_not_wait_for_a_stop() {
        let (requests, waker) = (RefreshRequests::default(), Arc::new(Waker::new().unwrap()));
        let waiting: Vec<_> = (0..SESSIONS_MAX).map(|_| requests.add(&waker).unwrap()).collect();
        assert!(requests.add(&waker).is_none());
        requests.close();
        assert!(waiting.iter().all(|pending| pending.result() == Some(false)));
        assert!(requests.add(&waker).is_none());
    }
}
