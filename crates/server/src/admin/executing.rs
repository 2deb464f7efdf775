//! Runs commands for the admin listener: on the listener's thread, or, with a disk tier, on threads
//! that may wait for the disk, so that a disk that hangs does not stop the listener.

use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::AdminContext;
use crate::session::execute::Executor;
use crate::session::execute::direct::Direct;
use crate::session::execute::disk_threads::TooMuchWork;

/// The reason why a command has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoResult {
    #[error("too many requests wait for the disk; try again later")]
    TooMany,
    #[error(
        "the disk has not answered for {} s; a change may still be made, or not",
        DISK_WAIT.as_secs()
    )]
    TooLate,
}

impl From<TooMuchWork> for NoResult {
    fn from(_: TooMuchWork) -> Self {
        Self::TooMany
    }
}

impl From<NoResult> for (StatusCode, String) {
    fn from(error: NoResult) -> Self {
        (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl AdminContext {
    /// Executes commands. With a disk tier another thread executes them, and the listener responds
    /// to other requests in the meantime.
    ///
    /// # Errors
    /// Returns [`NoResult`] if the disk hangs. The commands are then executed late, or never.
    pub(super) async fn execute<T: Send + 'static>(
        &self,
        commands: impl FnOnce(&Direct<'_>) -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        if self.server.near.is_some() {
            return self.execute_at_origin(commands).await;
        }
        let Some(threads) = &self.disk_threads else {
            return Ok(commands(&Direct::new(&Executor::of_admin(self.server.clone()))));
        };
        let (sender, receiver) = oneshot::channel();
        threads.execute(move |executor| {
            // The client has already received an error, and may have stored something newer.
            if sender.is_closed() {
                return;
            }
            // Fails if the listener no longer waits.
            let _ = sender.send(commands(&Direct::new(executor)));
        })?;
        match timeout(DISK_WAIT, receiver).await {
            Ok(Ok(result)) => Ok(result),
            // A command that panics ends the process.
            Ok(Err(_)) | Err(_) => Err(NoResult::TooLate),
        }
    }
}

impl AdminContext {
    /// Executes commands on a thread that may wait for the origin of a near cache. One thread at a
    /// time does this, because it writes the counters of the listener.
    async fn execute_at_origin<T: Send + 'static>(
        &self,
        commands: impl FnOnce(&Direct<'_>) -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        let server = self.server.clone();
        let executed = spawn_blocking(move || {
            let near = server.near.as_ref().map(|near| near.lock_for_http());
            let result = commands(&Direct::new(&Executor::of_admin(server.clone())));
            drop(near);
            result
        });
        executed.await.map_err(|_| NoResult::TooLate)
    }
}

/// How long a request waits for the disk.
const DISK_WAIT: Duration = Duration::from_secs(10);
