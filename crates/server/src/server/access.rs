//! Access to a server's cache: the files of users and certificates, and the local readers, which
//! are processes on this machine that read items in the cache's memory.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use crate::log::{self, Level};
use crate::observe::readers::Readers;
use crate::server::Server;
use crate::server::credentials::Credentials;
use crate::tls::certificates::{Certificates, RefreshResult};
use crate::users::Users;

/// The certificates, credentials and permissions that clients need to use the cache.
#[derive(Debug)]
pub(crate) struct Access {
    /// TLS certificates; set with `-Z`.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Users and passwords; set with `-S` or `-Y`.
    pub(crate) credentials: Option<Credentials>,
    /// Users with rights; set with `--users`.
    pub(crate) users: Option<Arc<Users>>,
    /// Processes that may map the cache's memory; set with `--local-readers`.
    pub(crate) readers: Option<Readers>,
}

/// The reason why certificates were not refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshError {
    /// TLS is not enabled.
    NoTls,
    /// The files cannot be used. Standard error contains the reason.
    Unusable,
}

impl Server {
    /// Reads the certificate files again and logs the result on standard error. With
    /// `only_if_changed`, unchanged files are not read, and nothing is logged.
    ///
    /// # Errors
    /// Fails if TLS is not enabled, or if the files cannot be used. Then the previous certificates
    /// stay in effect.
    pub(crate) fn refresh_certificates(&self, only_if_changed: bool) -> Result<(), RefreshError> {
        let certificates = self.access.certificates.as_ref().ok_or(RefreshError::NoTls)?;
        match certificates.refresh(only_if_changed) {
            RefreshResult::Unchanged(true) => Ok(()),
            RefreshResult::Unchanged(false) => Err(RefreshError::Unusable),
            RefreshResult::Read(Ok(())) => {
                self.log.event(Level::Info, format_args!("certificates reloaded"));
                Ok(())
            }
            RefreshResult::Read(Err(error)) => {
                log::error(format_args!(
                    "larderd: certificates not reloaded, the previous ones stay in effect: {error}"
                ));
                Err(RefreshError::Unusable)
            }
        }
    }

    /// Reads the certificate files again, if there are any, and logs the result.
    pub(crate) fn reload_certificates(&self) {
        if let (Some(certificates), Ok(())) =
            (&self.access.certificates, self.refresh_certificates(false))
        {
            let path = certificates.path().display();
            log::info(format_args!("larderd: SIGHUP: certificates reloaded: {path}"));
        }
    }

    /// Reads the user file again, if there is one, and logs the result. If that fails, the previous
    /// users stay in effect.
    pub(crate) fn reload_users(&self) {
        if let Some(credentials) = &self.access.credentials {
            log_users(credentials.reload(), credentials.path());
        }
        if let Some(users) = &self.access.users {
            log_users(users.reload(), users.path());
        }
    }
}

/// Logs the result of reading a file of users again.
fn log_users(reloaded: Result<usize, impl Display>, path: &Path) {
    match reloaded {
        Ok(count) => {
            let path = path.display();
            log::info(format_args!("larderd: SIGHUP: users reloaded: {count} of {path}"));
        }
        Err(error) => log::error(format_args!(
            "larderd: SIGHUP: users not reloaded, the previous ones stay in effect: {error}"
        )),
    }
}
