//! `refresh_certs`: the thread of [`crate::watched`] reads the files, because their disk may hang.

use larder_protocol::{Frame, OwnedFrame, Response, ServerError};

use super::batch::{Batch, Step};
use super::{Next, Session, State};
use crate::watched::requests::PendingRefresh;

/// A `refresh_certs` whose files are being read.
#[derive(Debug)]
pub(super) struct WaitingRefresh {
    pending: PendingRefresh,
    frame: OwnedFrame,
}

impl Session {
    /// Begins to read the certificate files again. A session that cannot wait does not receive the
    /// result.
    #[cold]
    pub(super) fn begin_refresh(&mut self, batch: &mut Batch<'_>, frame: &Frame<'_>) {
        let access = &batch.executor.server().access;
        if access.certificates.is_none() {
            return batch.respond(&ServerError::NoTls.into(), frame);
        }
        let Some(waker) = batch.executor.waker().filter(|_| !self.is_brief) else {
            access.refreshes.ask();
            return batch.respond(&Response::Ok, frame);
        };
        match access.refreshes.add(waker) {
            Some(pending) => {
                let waiting = WaitingRefresh { pending, frame: frame.keep() };
                self.state = State::Refresh(Box::new(waiting));
            }
            None => batch.respond(&ServerError::CertificatesUnusable.into(), frame),
        }
    }

    /// Responds once the files are read.
    #[cold]
    pub(super) fn await_refresh(&mut self, batch: &mut Batch<'_>) -> Step {
        let State::Refresh(waiting) = &self.state else { return Step::GoOn(0) };
        let Some(is_usable) = waiting.pending.result() else {
            return Step::Stop(0, Next::Wake);
        };
        let response = match is_usable {
            true => Response::Ok,
            false => ServerError::CertificatesUnusable.into(),
        };
        batch.respond(&response, &waiting.frame.frame());
        self.state = State::Command;
        Step::GoOn(0)
    }
}
