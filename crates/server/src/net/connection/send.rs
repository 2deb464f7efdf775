//! Sends output on a connection's socket, with or without TLS.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use larder_stats::Counter;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

use super::Connection;
use super::turn::Broken;
use crate::buffers::output::Output;
use crate::session::execute::Executor;
use crate::tls::{Records, Tls};

impl Connection {
    /// Sends output, and keeps the rest that the socket does not accept.
    pub(super) fn send(
        &mut self,
        executor: &Executor,
        records: &mut Records,
        output: &mut Output,
    ) -> Result<(), Broken> {
        if !output.is_empty() {
            try_send(&self.socket, self.io.tls_mut(), executor, records, output)?;
            if !output.is_sent() {
                output.compact();
                self.output = std::mem::take(output);
            }
        }
        Ok(())
    }

    /// Sends the output that the socket did not accept before.
    pub(super) fn send_rest(
        &mut self,
        executor: &Executor,
        records: &mut Records,
    ) -> Result<(), Broken> {
        try_send(&self.socket, self.io.tls_mut(), executor, records, &mut self.output)?;
        if self.output.is_sent() {
            self.output = Output::default();
        } else {
            self.output.compact();
        }
        Ok(())
    }
}

/// Sends as much of an output as the socket accepts.
fn try_send(
    socket: &OwnedFd,
    tls: Option<&mut Tls>,
    executor: &Executor,
    records: &mut Records,
    output: &mut Output,
) -> Result<(), Broken> {
    let sent = match tls {
        Some(tls) => tls.send(socket, records, output.parts()),
        None if output.is_whole() => send(socket, output.rest(), SendFlags::NOSIGNAL),
        None => {
            let parts: Vec<IoSlice<'_>> = output.parts().map(IoSlice::new).collect();
            let ancillary = &mut SendAncillaryBuffer::default();
            sendmsg(socket, &parts, ancillary, SendFlags::NOSIGNAL)
        }
    };
    match sent {
        Ok(sent) => {
            executor.counters().add(Counter::WireBytesWritten, sent as u64);
            output.note_sent(sent);
            Ok(())
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(_) => Err(Broken),
    }
}
