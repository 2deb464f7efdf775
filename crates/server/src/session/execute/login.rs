//! Authentication commands.

use larder_protocol::{ClientError, Response};
use larder_stats::Counter;

use super::Executor;
use crate::server::credentials::{plain, words};

impl Executor {
    /// Lists the mechanisms for authentication, if the server requires it.
    pub(super) fn mechanisms(&self) -> Response {
        let access = &self.server.access;
        match access.credentials.is_some() || access.users.is_some() {
            true => Response::Mechanisms,
            false => ClientError::UnknownCommand.into(),
        }
    }

    /// PLAIN has only one step, so a second step never exists. The text protocol does not name a
    /// mechanism.
    pub(super) fn authenticate(
        &self,
        mechanism: &[u8],
        credentials: &[u8],
        is_step: bool,
    ) -> Response {
        let Some(users) = &self.server.access.credentials else {
            return ClientError::UnknownCommand.into();
        };
        self.counters.bump(Counter::AuthCmds);
        let claim = match mechanism {
            b"" => words(credentials),
            b"PLAIN" if !is_step => plain(credentials),
            _ => None,
        };
        match claim {
            Some((name, password)) if users.admit(name, password) => Response::Authenticated,
            _ => {
                self.counters.bump(Counter::AuthErrors);
                ClientError::AuthenticationFailed.into()
            }
        }
    }
}
