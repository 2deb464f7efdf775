//! The thread that verifies passwords.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;

use super::queue::{Job, Queue};
use super::{Login, PendingLogin};
use crate::priority;
use crate::waker::{Promise, Waker};

/// Verifies logins on its own thread.
#[derive(Debug)]
pub(in crate::users) struct Verifier(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    /// True once no more logins come.
    is_over: bool,
}

impl Verifier {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    pub(in crate::users) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("logins".to_owned()).spawn(move || {
            priority::lower();
            while let Some(job) = of_thread.next() {
                verify(job);
            }
        })?;
        Ok(Self(shared))
    }

    /// Adds a login. The thread wakes the worker once it is verified. Returns `None` if too many
    /// logins wait.
    pub(in crate::users) fn add(&self, login: Login, waker: &Arc<Waker>) -> Option<PendingLogin> {
        let pending = Arc::new(Promise::new(Arc::clone(waker)));
        self.0.state().queue.add(login, Arc::clone(&pending)).ok()?;
        self.0.changed.notify_one();
        Some(pending)
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a login. Returns `None` at the end.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        while !state.is_over {
            if let Some(job) = state.queue.next() {
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// True if the password matches the hash. Without a hash, takes the time of a verification and
/// returns false.
fn matches(hash: Option<&str>, password: &[u8]) -> bool {
    let is_right = Argon2::default().verify_password(password, hash.unwrap_or(OF_NO_PASSWORD));
    hash.is_some() && is_right.is_ok()
}

/// A hash with the parameters of `larder passwd`.
const OF_NO_PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$bGFyZGVyLW5vLXVzZXI$\
                              AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn verify(Job { login, waiters }: Job) {
    let Login { user, mac, password, .. } = login;
    let user = user.filter(|user| {
        if user.remembers(&mac) {
            // An equal login of another network was verified in the meantime.
            return true;
        }
        let is_right = matches(user.hash(), &password);
        if is_right {
            user.remember(mac);
        }
        is_right
    });
    for waiter in waiters {
        waiter.fulfil(user.clone());
    }
}
