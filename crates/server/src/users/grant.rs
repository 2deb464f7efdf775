//! The permission of one connection: its user, and the limits of its listener.

use std::sync::Arc;

use larder_protocol::{Command, Denial, Permission, Response, Right, ServerError};

use super::Users;
use super::user::{Tally, User};
use crate::clock::monotonic_ns;

/// The permission of a connection that is logged in, or that needs no login.
#[derive(Debug)]
pub(crate) struct Grant {
    /// `None`: the connection needs no login, and may access all keys.
    member: Option<Member>,
    /// The highest right on the listener.
    right_max: Right,
}

/// The user of a connection, as of a generation of the users' file.
#[derive(Debug)]
struct Member {
    user: Arc<User>,
    users: Arc<Users>,
    generation: u64,
}

impl Grant {
    /// Returns the grant of a connection without a user.
    pub(crate) fn without_user(right_max: Right) -> Self {
        Self { member: None, right_max }
    }

    /// Returns the grant of a user.
    pub(crate) fn of(users: &Arc<Users>, user: Arc<User>, right_max: Right) -> Self {
        user.bump(Tally::Connections);
        // If the file is replaced now, the next check finds the new generation.
        let generation = users.generation_of(&user);
        let member = Some(Member { user, users: Arc::clone(users), generation });
        Self { member, right_max }
    }

    /// Returns the user.
    pub(crate) fn user(&self) -> Option<&User> {
        self.member.as_ref().map(|member| &*member.user)
    }

    /// Looks the user up again if the users' file was replaced. Returns false if the user is gone
    /// or has another password, so that the connection must be closed.
    #[inline]
    pub(crate) fn renew(&mut self) -> bool {
        match &mut self.member {
            Some(member) if member.generation != member.users.generation() => member.renew(),
            _ => true,
        }
    }

    /// True if the user may access only keys with its prefixes.
    pub(crate) fn has_prefixes(&self) -> bool {
        self.user().is_some_and(User::has_prefixes)
    }

    /// Returns why the command must be refused; `None` if it is permitted and within the rate.
    /// Counts the command for the user.
    #[inline]
    pub(crate) fn judge(&self, command: &Command<'_>) -> Option<Response> {
        if let Some(denial) = self.denial(&command.permission()) {
            return Some(denial.into());
        }
        let user = self.user().filter(|user| user.has_rate())?;
        if matches!(command, Command::EndOfKeys) || user.take_request(monotonic_ns()) {
            return None;
        }
        user.bump(Tally::Limited);
        Some(ServerError::RateLimit.into())
    }

    /// Returns why a command with this permission must be refused; `None` if it is permitted.
    /// Counts the refusal for the user.
    #[inline]
    pub(crate) fn denial(&self, needed: &Permission<'_>) -> Option<Denial> {
        let Some(user) = self.user() else {
            let is_denied = needed.right > Some(self.right_max);
            return is_denied.then_some(Denial::ReadOnlyListener);
        };
        let denial = user.denial(needed, self.right_max)?;
        user.bump(Tally::Denied);
        Some(denial)
    }

    /// True if a command with this permission is permitted. Counts nothing.
    pub(crate) fn permits(&self, needed: &Permission<'_>) -> bool {
        match self.user() {
            Some(user) => user.denial(needed, self.right_max).is_none(),
            None => needed.right <= Some(self.right_max),
        }
    }
}

impl Member {
    #[cold]
    fn renew(&mut self) -> bool {
        let Some((user, generation)) = self.users.current(&self.user) else { return false };
        user.bump(Tally::Connections);
        self.user.end_connection();
        (self.user, self.generation) = (user, generation);
        true
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.user.end_connection();
    }
}
