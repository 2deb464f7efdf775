//! The list of servers that clients discover: `config get cluster`, and reads of its key.

use larder::copies::Fetched;
use larder_protocol::cluster::{CLUSTER, CLUSTER_KEY};
use larder_protocol::{ClientError, Command, Frame, Response, ServerError, render};
use larder_stats::Counter;

use super::{Call, Executor};

/// True if the key has the length of the key of the list. Every read asks this, so that a read of
/// another key costs one comparison.
#[inline]
pub(super) fn may_be_key(key: &[u8]) -> bool {
    key.len() == CLUSTER_KEY.len()
}

impl Executor {
    /// Executes `config get`.
    pub(super) fn config(&self, name: &[u8], frame: &Frame<'_>, out: &mut Vec<u8>) -> Response {
        let discovery = self.server.discovery.as_ref().filter(|_| name == CLUSTER);
        let Some(discovery) = discovery else { return ClientError::UnknownCommand.into() };
        self.counters.bump(Counter::ClusterRequests);
        match discovery.list() {
            Some(list) => {
                render::cluster(out, list.body(), frame);
                Response::Shown
            }
            None => ServerError::NoServerList.into(),
        }
    }

    /// True if the command reads the key of the list, and clients may discover servers.
    pub(crate) fn reads_cluster(&self, command: &Command<'_>) -> bool {
        let (Command::Get { key, .. }
        | Command::LeaseGet { key }
        | Command::Fetch(larder_protocol::Fetch { key, .. })) = command
        else {
            return false;
        };
        *key == CLUSTER_KEY && self.server.discovery.is_some()
    }

    /// Returns the response to a get of the key of the list; `None` if it is another key.
    #[cold]
    pub(super) fn get_cluster(
        &self,
        key: &[u8],
        with_cas: bool,
        call: Call<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Response> {
        self.read_cluster(&Command::Get { key, with_cas, exptime: None }, call.frame, out)
    }

    /// Returns the response to a read of the key of the list; `None` if it is another command. An
    /// item that a client stores under the key is not read.
    #[cold]
    pub(super) fn read_cluster(
        &self,
        command: &Command<'_>,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Response> {
        let discovery = self.server.discovery.as_ref()?;
        if command.key() != Some(CLUSTER_KEY) {
            return None;
        }
        self.counters.bump(Counter::ClusterRequests);
        let Some(list) = discovery.list() else { return Some(ServerError::NoServerList.into()) };
        let value = list.body().into();
        let item = Fetched { value, flags: 0, cas: list.version(), ttl_ms: None, is_noted: false };
        Some(self.show_fetched(command, &item, frame, out))
    }
}
