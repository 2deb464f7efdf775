//! Times the requests of a session, with `--log-slower-than`.

use larder_item::{Direction, StoreMode};
use larder_protocol::admin::Admin;
use larder_protocol::{Arithmetic, Command, Frame, Store};

use crate::clock::monotonic_ns;
use crate::observe::slow::{TimedRequest, TimedRequests};

/// The times of the requests whose responses are not handed over yet.
#[derive(Debug, Default)]
pub(super) struct RequestTimer {
    timed: TimedRequests,
    open: Option<OpenRequest>,
}

/// A request that has begun and is not complete.
#[derive(Debug)]
struct OpenRequest {
    began_ns: u64,
    /// Length of its response so far.
    bytes: usize,
}

impl RequestTimer {
    /// Records when the worker learned of the next requests, unless earlier ones are not answered.
    pub(super) fn arrive(&mut self, arrived_ns: u64) {
        if self.open.is_none() && self.timed.count == 0 {
            self.timed.arrived_ns = arrived_ns;
        }
    }

    /// Begins or continues a request.
    pub(super) fn begin(&mut self) {
        self.open.get_or_insert_with(|| OpenRequest { began_ns: monotonic_ns(), bytes: 0 });
    }

    /// Adds a part of the response to a request that is not complete.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        if let Some(open) = &mut self.open {
            open.bytes += bytes;
        }
    }

    /// Forgets the request, because the client must send more of it.
    pub(super) fn drop_open(&mut self) {
        self.open = None;
    }

    /// Completes a request.
    pub(super) fn finish(&mut self, command: &'static str, key: Option<&[u8]>, bytes: usize) {
        let Some(open) = self.open.take() else { return };
        let run_ns = monotonic_ns().saturating_sub(open.began_ns);
        let TimedRequests { count, longest, .. } = &mut self.timed;
        *count = count.saturating_add(1);
        if *count > 1 && run_ns <= longest.run_ns {
            return;
        }
        longest.command = command;
        longest.key.clear();
        longest.key.extend_from_slice(key.unwrap_or_default());
        longest.bytes = (bytes + open.bytes) as u64;
        longest.run_ns = run_ns;
    }

    /// Returns the requests whose responses are handed over now; `None` if no
    /// request is complete.
    pub(super) fn take(&mut self) -> Option<TimedRequests> {
        if self.timed.count == 0 {
            return None;
        }
        // The memory of the key stays for the next requests.
        let TimedRequests { arrived_ns, count, longest } = &mut self.timed;
        let TimedRequest { command, key, bytes, run_ns } = longest;
        let longest = TimedRequest { command, key: key.clone(), bytes: *bytes, run_ns: *run_ns };
        let taken = TimedRequests { arrived_ns: *arrived_ns, count: *count, longest };
        *count = 0;
        Some(taken)
    }
}

/// Returns the name of a command, as clients write it. The binary protocol has the names of the
/// text protocol.
pub(super) fn name(command: &Command<'_>, frame: &Frame<'_>) -> &'static str {
    let is_meta = matches!(frame, Frame::Meta(_));
    match command {
        Command::Get { exptime: None, with_cas: false, .. } => "get",
        Command::Get { exptime: None, with_cas: true, .. } => "gets",
        Command::Get { exptime: Some(_), with_cas: false, .. } => "gat",
        Command::Get { exptime: Some(_), with_cas: true, .. } => "gats",
        Command::EndOfKeys => "get",
        Command::Fetch(_) if is_meta => "mg",
        Command::Fetch(_) => "get",
        Command::LeaseGet { .. } => "lease-get",
        Command::Inspect { .. } => "me",
        Command::Store(_) if is_meta => "ms",
        Command::Store(store) => store_name(store),
        Command::Delete(_) if is_meta => "md",
        Command::Delete(_) => "delete",
        Command::Arithmetic(_) if is_meta => "ma",
        Command::Arithmetic(Arithmetic { direction: Direction::Increment, .. }) => "incr",
        Command::Arithmetic(_) => "decr",
        Command::Touch { .. } => "touch",
        Command::FlushAll { .. } => "flush_all",
        Command::DeletePrefix { .. } => "delete_prefix",
        Command::NoOp if is_meta => "mn",
        Command::NoOp => "noop",
        Command::Version => "version",
        Command::Verbosity { .. } => "verbosity",
        Command::Stats(_) => "stats",
        Command::Mechanisms => "sasl_list_mechs",
        Command::Authenticate { .. } => "sasl_auth",
        Command::Quit => "quit",
        Command::RefreshCertificates => "refresh_certs",
        Command::Shutdown { .. } => "shutdown",
        Command::MemoryLimit { .. } => "cache_memlimit",
        Command::Region => "region",
        Command::NoteReads { .. } => "reads",
        Command::Follow { .. } => "larder_follow",
        Command::Follower { .. } => "larder_follower",
        Command::Copy(_) => "larder_fetch",
        Command::Config { .. } => "config",
        Command::Warm(_) => "larder_warm",
        Command::Name { .. } => "larder_name",
        Command::Kill(_) => "larder_kill",
        Command::Admin(admin) => admin_name(admin),
    }
}

fn store_name(store: &Store<'_>) -> &'static str {
    match store {
        Store { cas: Some(_), .. } => "cas",
        Store { mode: StoreMode::Set, .. } => "set",
        Store { mode: StoreMode::Add, .. } => "add",
        Store { mode: StoreMode::Replace, .. } => "replace",
        Store { mode: StoreMode::Append, .. } => "append",
        Store { mode: StoreMode::Prepend, .. } => "prepend",
    }
}

fn admin_name(admin: &Admin) -> &'static str {
    match admin {
        Admin::ReassignSlabs(_) => "slabs",
        Admin::Tune(_) => "lru",
        Admin::EnableCrawler(_) | Admin::Crawl(_) | Admin::Dump(..) => "lru_crawler",
        Admin::Watch(_) => "watch",
        Admin::Detail(_) => "stats",
        Admin::DebugTime(_) => "debugtime",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_answered_together_are_named_after_the_longest() {
        let mut timer = RequestTimer::default();
        assert!(timer.take().is_none());
        timer.arrive(5);
        for (key, is_long, bytes) in [(&b"a"[..], false, 1), (b"b", true, 2), (b"c", false, 3)] {
            timer.begin();
            if is_long {
                timer.open = Some(OpenRequest { began_ns: 1, bytes: 0 });
            }
            timer.finish("get", Some(key), bytes);
            timer.arrive(9);
        }
        let taken = timer.take().unwrap();
        assert_eq!((taken.arrived_ns, taken.count), (5, 3));
        assert_eq!((&*taken.longest.key, taken.longest.bytes), (&b"b"[..], 2));
        timer.arrive(9);
        timer.begin();
        timer.finish("version", None, 7);
        let taken = timer.take().unwrap();
        assert_eq!((taken.arrived_ns, taken.count, taken.longest.command), (9, 1, "version"));
        assert!(taken.longest.key.is_empty());
    }

    #[test]
    fn a_request_that_waits_began_before_its_wait() {
        let mut timer = RequestTimer::default();
        timer.arrive(5);
        timer.begin();
        timer.open.as_mut().unwrap().began_ns = 1;
        timer.add_bytes(10);
        assert!(timer.take().is_none(), "it is not complete");
        timer.arrive(7);
        timer.begin();
        timer.finish("stats", None, 3);
        let taken = timer.take().unwrap();
        assert_eq!((taken.arrived_ns, taken.longest.bytes), (5, 13));
        assert!(taken.longest.run_ns > 1_000_000);
        timer.begin();
        timer.drop_open();
        timer.finish("set", Some(b"k"), 3);
        assert!(timer.take().is_none(), "its value has not arrived");
    }
}
