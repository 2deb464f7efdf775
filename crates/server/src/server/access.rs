//! Access to a server's cache: the files of users and certificates, and the local readers, which
//! are processes on this machine that read items in the cache's memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder_stats::Counter;

use crate::discovery::Discovery;
use crate::near::Near;
use crate::observe::readers::Readers;
use crate::server::Server;
use crate::server::credentials::Credentials;
use crate::server::statistics::threads::Thread;
use crate::tls::certificates::validity::Validity;
use crate::tls::certificates::{Certificates, Refresh, RefreshResult};
use crate::users::Users;
use crate::watched::requests::RefreshRequests;
use crate::watched::{Cause, Outcome, Reloaded};

/// The certificates, credentials and permissions that clients need to use the cache.
#[derive(Debug)]
pub(crate) struct Access {
    /// TLS certificates; set with `-Z`.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Requests of clients to read the certificates again.
    pub(crate) refreshes: Arc<RefreshRequests>,
    /// Users and passwords; set with `-S` or `-Y`.
    pub(crate) credentials: Option<Credentials>,
    /// Users with rights; set with `--users`.
    pub(crate) users: Option<Arc<Users>>,
    /// Processes that may map the cache's memory; set with `--local-readers`.
    pub(crate) readers: Option<Readers>,
}

impl Server {
    /// Returns the files of users and certificates that the server reads again while it runs.
    pub(crate) fn reloaded(self: &Arc<Self>) -> Vec<Box<dyn Reloaded>> {
        let mut reloaded: Vec<Box<dyn Reloaded>> = Vec::new();
        if let Some(certificates) = &self.access.certificates {
            let (server, certificates) = (Arc::clone(self), Arc::clone(certificates));
            reloaded.push(Box::new(ReloadedCertificates { server, certificates }));
        }
        if self.access.credentials.is_some() {
            reloaded.push(Box::new(ReloadedUsers(Arc::clone(self))));
        }
        if let Some(users) = &self.access.users {
            let (server, users) = (Arc::clone(self), Arc::clone(users));
            reloaded.push(Box::new(ReloadedRights { server, users }));
        }
        if let Some(near) = self.near.as_ref().filter(|near| near.weights_path().is_some()) {
            let (server, near) = (Arc::clone(self), Arc::clone(near));
            reloaded.push(Box::new(ReloadedWeights { server, near }));
        }
        let file = |of: &&Arc<Discovery>| of.path().is_some();
        if let Some(discovery) = self.discovery.as_ref().filter(file) {
            let (server, discovery) = (Arc::clone(self), Arc::clone(discovery));
            reloaded.push(Box::new(ReloadedCluster { server, discovery }));
        }
        reloaded
    }
}

/// The certificate files of `-Z`, which are watched.
struct ReloadedCertificates {
    server: Arc<Server>,
    certificates: Arc<Certificates>,
}

impl Reloaded for ReloadedCertificates {
    fn name(&self) -> &'static str {
        "certificates"
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.certificates.paths()
    }

    fn reload(&self, cause: Cause) -> Outcome {
        let mut refreshed = self.certificates.refresh(match cause {
            Cause::Signal => Refresh::Always,
            Cause::Command => Refresh::IfStampsChanged,
            Cause::Change => Refresh::IfContentsChanged,
        });
        if cause == Cause::Command && refreshed == RefreshResult::Unchanged(false) {
            // For the reason, which the log must contain.
            refreshed = self.certificates.refresh(Refresh::Always);
        }
        let is_new = refreshed == RefreshResult::Read(Ok(()));
        self.certificates.warn(is_new);
        match refreshed {
            RefreshResult::Read(Err(error)) => Outcome::Failed(error),
            RefreshResult::Read(Ok(())) => {
                let path = self.certificates.path().display();
                let ends = self.certificates.validity().map(Validity::ends);
                let ends = ends.map_or_else(String::new, |at| format!(", expires {at}"));
                Outcome::Done(format!("{path}{ends}"))
            }
            RefreshResult::Unchanged(_) => Outcome::Unchanged,
        }
    }

    fn serves_command(&self) -> bool {
        true
    }

    fn check_access(&self) -> Option<String> {
        self.certificates.check_access().err()
    }

    fn note_failure(&self) {
        self.server.counters(Thread::Watched).bump(Counter::CertificateReloadFailures);
    }
}

/// The user file of `-S` or `-Y`. Like memcached's, it is read again only on request.
struct ReloadedUsers(Arc<Server>);

impl Reloaded for ReloadedUsers {
    fn name(&self) -> &'static str {
        "users"
    }

    fn paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn reload(&self, _: Cause) -> Outcome {
        let Some(credentials) = &self.0.access.credentials else { return Outcome::Unchanged };
        match credentials.reload() {
            Ok(count) => Outcome::Done(format!("{count} of {}", credentials.path().display())),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

/// The file of `--users`, which is watched.
struct ReloadedRights {
    server: Arc<Server>,
    users: Arc<Users>,
}

impl Reloaded for ReloadedRights {
    fn name(&self) -> &'static str {
        "users"
    }

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.users.path().to_owned()]
    }

    fn reload(&self, cause: Cause) -> Outcome {
        match self.users.reload(cause == Cause::Change) {
            Ok(Some(count)) => Outcome::Done(format!("{count} of {}", self.users.path().display())),
            Ok(None) => Outcome::Unchanged,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn check_access(&self) -> Option<String> {
        Users::check(self.users.path()).err().map(|error| error.to_string())
    }

    fn note_failure(&self) {
        self.server.counters(Thread::Watched).bump(Counter::UsersReloadFailures);
    }
}

/// The file of `--origin-weights`, which is watched.
struct ReloadedWeights {
    server: Arc<Server>,
    near: Arc<Near>,
}

impl Reloaded for ReloadedWeights {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.near.weights_path().map(Path::to_owned).into_iter().collect()
    }

    fn reload(&self, _: Cause) -> Outcome {
        match self.near.reload_weights() {
            Ok(Some(change)) => Outcome::Done(change),
            Ok(None) => Outcome::Unchanged,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn check_access(&self) -> Option<String> {
        let path = self.near.weights_path()?;
        let error = File::open(path).err()?;
        Some(format!("{}: {error}", path.display()))
    }

    fn note_failure(&self) {
        self.server.counters(Thread::Watched).bump(Counter::WeightsReloadFailures);
    }
}

/// The file of `--cluster-file`, which is watched.
struct ReloadedCluster {
    server: Arc<Server>,
    discovery: Arc<Discovery>,
}

impl Reloaded for ReloadedCluster {
    fn name(&self) -> &'static str {
        "servers of the cluster"
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.discovery.path().map(Path::to_owned).into_iter().collect()
    }

    fn reload(&self, _: Cause) -> Outcome {
        match self.discovery.reload() {
            Ok(Some(list)) => {
                self.server.counters(Thread::Watched).bump(Counter::ClusterChanges);
                Outcome::Done(list.to_string())
            }
            Ok(None) => Outcome::Unchanged,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn check_access(&self) -> Option<String> {
        let path = self.discovery.path()?;
        let error = File::open(path).err()?;
        Some(format!("{}: {error}", path.display()))
    }

    fn note_failure(&self) {
        self.discovery.note_failure();
        self.server.counters(Thread::Watched).bump(Counter::ClusterFailures);
    }
}
