//! Logins of the users of `--users`. The passwords of `-S` and `-Y` are checked by the executor.

use std::sync::Arc;

use larder_protocol::{ClientError, Command, Frame, OwnedFrame, Response, ServerError};
use larder_stats::Counter;

use super::batch::{Batch, ParsedCommand, Step};
use super::{Next, Session, State};
use crate::server::credentials::{plain, words};
use crate::session::execute::Executor;
use crate::users::LoginResult;
use crate::users::grant::Grant;
use crate::users::login::PendingLogin;
use crate::users::user::{Tally, User};

/// A login whose password is being verified.
#[derive(Debug)]
pub(super) struct WaitingLogin {
    pending: PendingLogin,
    name: Box<[u8]>,
    frame: OwnedFrame,
}

impl WaitingLogin {
    /// Returns the memory that the login owns, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

impl Session {
    /// Begins a login. A password that is not remembered takes tens of milliseconds to verify, so
    /// the session waits.
    #[cold]
    pub(super) fn begin_login(&mut self, batch: &mut Batch<'_>, parsed: ParsedCommand<'_>) -> Step {
        let ParsedCommand { command, frame, consumed, .. } = parsed;
        let (server, counters) = (batch.executor.server(), batch.executor.counters());
        let Command::Authenticate { mechanism, credentials, is_step } = *command else {
            return Step::GoOn(consumed);
        };
        counters.bump(Counter::AuthCmds);
        let claim = match mechanism {
            b"" => words(credentials),
            b"PLAIN" if !is_step => plain(credentials),
            _ => None,
        };
        let (Some((name, password)), Some(users)) = (claim, &server.access.users) else {
            self.fail(batch, b"", frame);
            return Step::GoOn(consumed);
        };
        let origin = self.access.as_ref().map(|access| access.origin).unwrap_or_default();
        match users.login(name, password, origin, batch.executor.waker()) {
            LoginResult::Admitted(user) => self.succeed(batch, user, frame),
            LoginResult::Busy => batch.respond(&ServerError::TooManyLogins.into(), frame),
            LoginResult::Pending(pending) => {
                let (name, frame) = (name.into(), frame.keep());
                self.state = State::Login(Box::new(WaitingLogin { pending, name, frame }));
            }
        }
        Step::GoOn(consumed)
    }

    /// Ends a login whose password is verified.
    #[cold]
    pub(super) fn await_login(&mut self, batch: &mut Batch<'_>) -> Step {
        let State::Login(waiting) = &self.state else { return Step::GoOn(0) };
        let Some(outcome) = waiting.pending.result() else {
            return Step::Stop(0, Next::Wake);
        };
        let State::Login(waiting) = std::mem::replace(&mut self.state, State::Command) else {
            return Step::GoOn(0);
        };
        let frame = waiting.frame.frame();
        match outcome {
            Some(user) => self.succeed(batch, user, &frame),
            None => self.fail(batch, &waiting.name, &frame),
        }
        Step::GoOn(0)
    }

    fn succeed(&mut self, batch: &mut Batch<'_>, user: Arc<User>, frame: &Frame<'_>) {
        self.admit(batch.executor, user);
        batch.interest = self.interest(batch.executor);
        batch.respond(&Response::Authenticated, frame);
    }

    /// Gives the session the rights of a user.
    pub(super) fn admit(&mut self, executor: &Executor, user: Arc<User>) {
        let Some(users) = &executor.server().access.users else { return };
        let access = self.access.get_or_insert_default();
        user.bump(Tally::Logins);
        access.grant = Some(Grant::of(users, user, access.right_max));
        access.is_relabeled = true;
        self.parser.unlock();
    }

    /// Refuses a login. A failed login revokes an earlier one.
    fn fail(&mut self, batch: &mut Batch<'_>, name: &[u8], frame: &Frame<'_>) {
        batch.executor.counters().bump(Counter::AuthErrors);
        if let Some(users) = &batch.executor.server().access.users {
            users.count_failure(name);
        }
        if let Some(access) = &mut self.access {
            access.origin.has_failed = true;
            access.grant = None;
            access.is_relabeled = true;
        }
        self.parser.lock();
        batch.interest = self.interest(batch.executor);
        batch.respond(&ClientError::AuthenticationFailed.into(), frame);
    }
}
