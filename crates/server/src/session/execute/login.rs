//! Peers that say who they are.

use larder_protocol::{ClientError, Response};
use larder_stats::Counter;

use super::Executor;
use crate::session::credentials::{plain, words};

impl Executor {
    /// By which mechanisms a peer can say who it is, if it has to.
    pub(super) fn mechanisms(&self) -> Response {
        match self.server.credentials {
            Some(_) => Response::Mechanisms,
            None => ClientError::UnknownCommand.into(),
        }
    }

    /// Nothing that PLAIN begins is left to another step. The text protocol names no mechanism.
    pub(super) fn authenticate(
        &self,
        mechanism: &[u8],
        credentials: &[u8],
        is_step: bool,
    ) -> Response {
        let Some(users) = &self.server.credentials else {
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
