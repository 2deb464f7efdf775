//! `stats users`: the users of `--users`, their rights and their counters.

use std::sync::Arc;

use larder_protocol::{Frame, OwnedFrame, Response, render};

use crate::server::Server;
use crate::users::user::{Tally, User};

/// A response to `stats users` in progress. It is rendered user by user as its client receives it,
/// because there may be ten thousand.
#[derive(Debug)]
pub(crate) struct UserList {
    users: std::vec::IntoIter<Arc<User>>,
    frame: OwnedFrame,
}

impl UserList {
    /// Begins a list. Without `--users` it is empty.
    pub(crate) fn begin(server: &Server, frame: &Frame<'_>) -> Self {
        let users = server.access.users.as_ref().map(|users| users.all()).unwrap_or_default();
        Self { users: users.into_iter(), frame: frame.keep() }
    }

    /// Appends the lines of the next user, or the end of the list. Returns true if more follows.
    pub(crate) fn step(&mut self, out: &mut Vec<u8>) -> bool {
        let frame = self.frame.frame();
        let Some(user) = self.users.next() else {
            render::response(out, &Response::EndOfStats, &frame);
            return false;
        };
        let name = user.name();
        render::stat(
            out,
            format_args!("{name}:rights"),
            user.right().map_or("none", |right| right.name()),
            &frame,
        );
        for tally in Tally::ALL {
            let value = user.tally(tally);
            render::stat(out, format_args!("{name}:{}", tally.name()), value, &frame);
        }
        true
    }
}
