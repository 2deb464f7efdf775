//! The order in which logins are verified.
//!
//! Names take turns, then the networks from which logins with a name come, and within a network the
//! connections without a failed login come first. So a right login waits for at most one
//! verification of each other name in the queue, times the networks that use its own name, plus the
//! new connections of its own network that use its own name.

use std::collections::{HashMap, VecDeque};

use super::{Login, PendingLogin};
use crate::users::mac::MacBytes;

/// The waiting logins.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The names that have logins, in the order of their turns.
    names: VecDeque<OfName>,
    /// The sessions that wait for each login. Equal logins are verified once.
    waiters: HashMap<MacBytes, Vec<PendingLogin>>,
}

/// The logins with one name. All names without a user share one queue.
#[derive(Debug)]
struct OfName {
    name: Option<Box<str>>,
    networks: VecDeque<OfNetwork>,
}

#[derive(Debug)]
struct OfNetwork {
    network: Option<u64>,
    fresh: VecDeque<Login>,
    /// From connections on which a login has failed.
    repeated: VecDeque<Login>,
}

/// A login, and the sessions that wait for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) login: Login,
    pub(super) waiters: Vec<PendingLogin>,
}

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

impl Queue {
    /// Adds a login.
    ///
    /// # Errors
    /// Fails if [`LOGINS_MAX`] other logins wait.
    pub(super) fn add(&mut self, login: Login, waiter: PendingLogin) -> Result<(), QueueFull> {
        if let Some(waiters) = self.waiters.get_mut(&login.mac.bytes()) {
            waiters.push(waiter);
            return Ok(());
        }
        if self.waiters.len() == LOGINS_MAX {
            return Err(QueueFull);
        }
        self.waiters.insert(login.mac.bytes(), vec![waiter]);
        let name = login.user.as_ref().map(|user| user.name());
        let of_name = match self.names.iter().position(|of| of.name.as_deref() == name) {
            Some(at) => &mut self.names[at],
            None => {
                let name = name.map(Into::into);
                self.names.push_back(OfName { name, networks: VecDeque::new() });
                self.names.back_mut().expect("it was just added")
            }
        };
        let network = login.origin.network;
        let of_network = match of_name.networks.iter().position(|of| of.network == network) {
            Some(at) => &mut of_name.networks[at],
            None => {
                let (fresh, repeated) = Default::default();
                of_name.networks.push_back(OfNetwork { network, fresh, repeated });
                of_name.networks.back_mut().expect("it was just added")
            }
        };
        match login.origin.has_failed {
            true => of_network.repeated.push_back(login),
            false => of_network.fresh.push_back(login),
        }
        Ok(())
    }

    /// Removes and returns the next login.
    pub(super) fn next(&mut self) -> Option<Job> {
        let mut of_name = self.names.pop_front()?;
        let login = of_name.next();
        if !of_name.networks.is_empty() {
            self.names.push_back(of_name);
        }
        let login = login?;
        let waiters = self.waiters.remove(&login.mac.bytes()).unwrap_or_default();
        Some(Job { login, waiters })
    }
}

impl OfName {
    fn next(&mut self) -> Option<Login> {
        let mut of_network = self.networks.pop_front()?;
        let login = of_network.fresh.pop_front().or_else(|| of_network.repeated.pop_front());
        if !of_network.fresh.is_empty() || !of_network.repeated.is_empty() {
            self.networks.push_back(of_network);
        }
        login
    }
}

/// The maximum number of different logins that wait. Each holds a password of at most 1 KiB.
pub(super) const LOGINS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::users::Users;
    use crate::users::login::Origin;
    use crate::waker::{Promise, Waker};

    fn waiter() -> PendingLogin {
        Arc::new(Promise::new(Arc::new(Waker::new().unwrap())))
    }

    fn users() -> (tempfile::NamedTempFile, Users) {
        Users::of_text("users = [ { name = \"a\" }, { name = \"b\" } ]")
    }

    /// Returns a login. An upper-case letter in `name` is a name without a user.
    fn login(users: &Users, name: &str, password: &str, network: u32, has_failed: bool) -> Login {
        let origin = Origin { has_failed, ..Origin::of(Some(network.to_be_bytes().into())) };
        users.login_of(name.as_bytes(), password.as_bytes(), origin)
    }

    fn order(queue: &mut Queue) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(job) = queue.next() {
            order.push(String::from_utf8(job.login.password.into()).unwrap());
        }
        order
    }

    #[test]
    fn names_take_turns_then_networks_and_new_connections_come_first() {
        let (_file, users) = users();
        let mut queue = Queue::default();
        for (name, password, network, has_failed) in [
            ("a", "flood 1", 1, true),
            ("a", "flood 2", 1, true),
            ("a", "flood 3", 1, true),
            ("X", "unknown 1", 1, false),
            ("Y", "unknown 2", 1, false),
            ("a", "new on the network of the flood", 1, false),
            ("a", "another network", 2, false),
            ("b", "another name", 1, false),
        ] {
            let login = login(&users, name, password, network, has_failed);
            queue.add(login, waiter()).unwrap();
        }
        assert_eq!(
            order(&mut queue),
            [
                "new on the network of the flood",
                "unknown 1",
                "another name",
                "another network",
                "unknown 2",
                "flood 1",
                "flood 2",
                "flood 3",
            ]
        );
        assert!(queue.waiters.is_empty());
    }

    #[test]
    fn equal_logins_are_verified_once_and_the_queue_is_bounded() {
        let (_file, users) = users();
        let mut queue = Queue::default();
        for _ in 0..10_000 {
            queue.add(login(&users, "a", "same", 1, false), waiter()).unwrap();
        }
        assert_eq!(queue.waiters.len(), 1);
        for number in 1..LOGINS_MAX {
            queue.add(login(&users, "a", &number.to_string(), 1, false), waiter()).unwrap();
        }
        assert_eq!(queue.add(login(&users, "b", "one more", 1, false), waiter()), Err(QueueFull));
        queue.add(login(&users, "a", "same", 1, false), waiter()).unwrap();
        assert_eq!(queue.next().unwrap().waiters.len(), 10_001);
        assert_eq!(order(&mut queue).len(), LOGINS_MAX - 1);
    }
}
