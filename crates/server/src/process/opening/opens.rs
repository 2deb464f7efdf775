//! Opens the cache at the start, and serves clients during that time.

use std::path::Path;
use std::sync::Arc;

use larder::Cache;
use larder_options::Options;

use super::Opening;
use crate::admin::Http;
use crate::failure::Failure;
use crate::net::sockets::Socket;
use crate::process::check::check_dump;
use crate::process::early_stop::EarlyStop;
use crate::process::start::{check_users, credentials, os_failure, start_http};
use crate::process::steps::{Step, reach};
use crate::process::supervisor::Supervisor;
use crate::process::upgrade::handover::Predecessor;
use crate::restore;
use crate::server::disk_tier;
use crate::server::error::ServerError;
use crate::server::open::{self, InheritedMemory, Takeover, UnopenedCache};
use crate::server::progress::Progress;

/// The parameters for opening the cache and for serving clients during that time.
pub(crate) struct Opens<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sockets: &'a [Socket],
    pub(crate) progress: &'a Progress,
    pub(crate) supervisor: &'a Supervisor,
}

impl Opens<'_> {
    /// Opens the cache. If it has a directory, also returns the thread that serves clients during
    /// that time.
    ///
    /// A predecessor serves until it releases the directory. From then until this process has
    /// opened it, no process serves. So this process asks for the directory only after it has
    /// opened everything else, and has checked as far as possible that it can open the directory.
    pub(crate) fn open(
        &self,
        handed_over: Option<(&Predecessor, Option<InheritedMemory>)>,
        early_stop: &EarlyStop,
        http: &mut Http,
    ) -> Result<(Cache, Option<Opening>), Failure> {
        // Before the items are loaded: the stop would lose them.
        check_dump(self.options)?;
        let (predecessor, takeover) = match handed_over {
            Some((predecessor, memory)) => (Some(predecessor), Some(Takeover { memory })),
            None => (None, None),
        };
        let mut opening = None;
        if predecessor.is_none() {
            start_http(http, self.options, self.progress)?;
            opening = self.begin()?;
        }
        let failure = |error: ServerError| Failure::new(error.exit_code(), error);
        let observer = self.observer(early_stop);
        let cache = open::prepare(self.options, takeover, observer).map_err(failure)?;
        reach(Step::MemoryMapped);
        if let (Some(predecessor), Some(_)) = (predecessor, &self.options.disk_tier) {
            self.rehearse(&cache)?;
            reach(Step::Rehearsed);
            opening = self.begin()?;
            let released = predecessor.ask_release();
            released
                .map_err(|error| os_failure("take the directory of --tier-path over", &error))?;
            reach(Step::DirectoryTaken);
            start_http(http, self.options, self.progress)?;
        }
        let cache = cache.open().map_err(failure)?;
        if predecessor.is_none() {
            restore::load(&cache, &self.options.restore, |done, total| {
                self.progress.note(done, total)
            });
        }
        Ok((cache, opening))
    }

    fn observer(&self, early_stop: &EarlyStop) -> disk_tier::Observer {
        let early_stop = early_stop.clone();
        let before_change = move || {
            reach(Step::DirectoryRead);
            early_stop.pass();
        };
        let progress = self.progress.clone();
        disk_tier::Observer { progress, before_change: Arc::new(before_change) }
    }

    /// Checks for errors that could keep this process from serving once the predecessor has left
    /// the directory.
    fn rehearse(&self, cache: &UnopenedCache) -> Result<(), Failure> {
        credentials(self.options)?;
        if let Some(path) = &self.options.users {
            check_users(path)?;
        }
        cache.rehearse().map_err(|error| Failure::new(error.exit_code(), error))
    }

    /// Serves clients while the cache of a directory opens or a dump is loaded, which may take
    /// long.
    fn begin(&self) -> Result<Option<Opening>, Failure> {
        let Self { options, sockets, progress, supervisor } = self;
        let begin = || Opening::begin(options, sockets, progress, supervisor);
        let has_dump = options.restore.dump.as_deref().is_some_and(Path::exists);
        let is_slow = options.disk_tier.is_some() || has_dump;
        let begun = is_slow.then(begin).transpose();
        begun.map_err(|error| os_failure("start a thread", &error))
    }
}
