//! A stream that fails when its peer stalls, which means that it receives nothing for ten seconds.
//! When the stream ends, it also makes sure that the last response arrives.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail once its peer has received nothing for ten seconds. That releases
/// everything that waits for the peer, including pieces of a value.
#[derive(Debug)]
pub(super) struct Stalls<S> {
    stream: S,
    /// Set while a write waits for the peer.
    patience: Option<Pin<Box<Sleep>>>,
    /// Set after the last byte was sent.
    lingering: Option<LingeringSocket>,
}

/// The state of waiting for a peer that may still send the body of a refused request. If the socket
/// were closed immediately, the kernel would reset the connection, and the peer might not receive
/// the reason.
#[derive(Debug)]
struct LingeringSocket {
    until: Pin<Box<Sleep>>,
    left_bytes: usize,
}

impl<S> Stalls<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, patience: None, lingering: None }
    }

    /// Returns the outcome of a write, or an error if the peer has stalled for too long.
    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.patience = None;
            return written;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        patience.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalls<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stalls<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        let Self { stream, lingering, .. } = &mut *self;
        let LingeringSocket { until, left_bytes } = lingering.get_or_insert_with(|| {
            LingeringSocket { until: Box::pin(sleep(LINGER_MAX)), left_bytes: LINGER_BYTES_MAX }
        });
        let mut bytes = [MaybeUninit::uninit(); 4096];
        while *left_bytes > 0 && until.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::uninit(&mut bytes);
            match ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer)) {
                Ok(()) if buffer.filled().is_empty() => break,
                Ok(()) => *left_bytes = left_bytes.saturating_sub(buffer.filled().len()),
                // The peer has disconnected.
                Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// How long a peer may receive nothing.
const STALL_MAX: Duration = Duration::from_secs(10);

/// How long, and how much, a peer may still send after the last response.
const LINGER_MAX: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 16 << 20;
