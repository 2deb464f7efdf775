//! A turn of a connection: the work that its worker does for it before it serves the next
//! connection. A turn receives input, executes it, and sends the output.

use larder::{DiskPages, DiskRead, Wait};
use larder_item::Second;
use larder_stats::{Counter, Timing};

use super::Connection;
use super::io::Io;
use super::turn::{Begun, Broken, TurnOutcome, TurnTerms};
use crate::buffers::budget::Allotment;
use crate::buffers::output::Output;
use crate::net::scratch::{RECEIVED_BYTES_MAX, Scratch};
use crate::session::execute::Executor;
use crate::session::{Allowance, Next};
use crate::tls::Records;

impl Connection {
    /// Begins a turn: sends the waiting output, then receives once.
    pub(crate) fn begin_turn(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
        now: Second,
    ) -> Begun {
        if !self.turn.leave_queue() {
            return Begun::Earlier;
        }
        let begun = match &self.io {
            Io::Epoll(_) => self.try_begin_epoll(executor, scratch, now),
            Io::Uring(_) => self.try_begin_uring(executor),
        };
        let begun = begun.unwrap_or(Begun::Over(TurnOutcome::Close));
        if let Begun::Ready(_) = begun {
            self.turn.begin();
        }
        begun
    }

    /// Returns the keys of the first commands of a turn's input. The input is `received`, or the
    /// backlog if `received` is `None`.
    pub(crate) fn keys_ahead<'a>(
        &'a self,
        received: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = received.unwrap_or_else(|| self.input.waiting());
        self.session.keys_ahead(bytes).take(KEYS_AHEAD_MAX)
    }

    /// True if the turn continues after the keys of [`Self::keys_to_ask`] were looked up on the
    /// disk.
    pub(crate) fn needs_disk(&self) -> bool {
        self.turn.next() == Next::Disk
    }

    /// Returns the keys to look up on the disk, including those of the next commands.
    pub(crate) fn keys_to_ask(&mut self, executor: &Executor, wait: Wait<'_>) -> Vec<Box<[u8]>> {
        self.session.keys_to_ask(executor, wait, self.input.waiting())
    }

    /// Returns the disk reads that a list of items waits for.
    pub(crate) fn reads_to_list(&mut self) -> Vec<DiskRead> {
        self.session.reads_to_list()
    }

    /// Passes the results of its disk reads to a list of items.
    pub(crate) fn give_read(&mut self, read: Vec<DiskPages>) {
        self.session.give_read(read);
    }

    /// Returns the statistic that measures a turn with this input; `None` if the turn does not
    /// begin with a request. The input is `received`, or the backlog if `received` is `None`.
    #[cold]
    pub(crate) fn timing_ahead(&self, received: Option<&[u8]>) -> Option<Timing> {
        self.session.timing_ahead(received.unwrap_or_else(|| self.input.waiting()))
    }

    /// Runs the middle part of a turn: the session executes the input. The input is `received`, or
    /// the backlog if `received` is `None`. Output is appended to `out`; unconsumed input is kept.
    ///
    /// If other connections wait, executes at most
    /// [`Options::commands_per_turn_max`](larder_options::Options) commands. A connection with no
    /// competitors continues while it has input, up to the length of one receive. Stops once the
    /// output is as long as the connection may buffer.
    pub(crate) fn execute(
        &mut self,
        executor: &Executor,
        received: Option<&[u8]>,
        out: &mut Output,
        terms: TurnTerms<'_>,
    ) {
        let Allotment { output_bytes_max: out_bytes_max, is_tight } = terms.allotment;
        executor.turn_to(self.id());
        self.turn.execute();
        if self.session.awaits_certificate() {
            let names = self.io.tls_mut().map(|tls| tls.peer_names()).unwrap_or_default();
            self.session.note_certificate(executor, &names);
        }
        let commands_max = executor.server().options.commands_per_turn_max;
        let mut backlog = std::mem::take(&mut self.input);
        let bytes = received.unwrap_or_else(|| backlog.waiting());
        let mut consumed = 0;
        loop {
            let keys_max = terms.keys_max;
            let allowance = Allowance { commands_max, keys_max, out_bytes_max, is_tight };
            let input = &bytes[consumed..];
            let progress = self.session.receive(executor, terms.wait, input, allowance, out);
            consumed += progress.consumed;
            self.turn.progress(progress.next);
            let goes_on = match progress.next {
                Next::Turn => !terms.contended && consumed < RECEIVED_BYTES_MAX,
                Next::GiveWay => false,
                Next::Input
                | Next::Drain
                | Next::Region
                | Next::Disk
                | Next::Lines
                | Next::Changes
                | Next::Wake
                | Next::Origin
                | Next::Close => break,
            };
            executor.counters().bump(Counter::ConnectionYields);
            if !goes_on {
                break;
            }
        }
        if consumed > 0 || !out.is_empty() {
            self.note_active(terms.now);
        }
        if let Some(labels) = self.session.take_labels() {
            self.conn_stats.set_labels(labels);
        }
        if received.is_none() {
            backlog.use_up(consumed);
        } else if consumed < bytes.len() {
            // Input that arrived in the meantime is appended after it.
            self.input.push(&bytes[consumed..]);
            self.input.push(backlog.waiting());
            return;
        }
        self.input = backlog;
    }

    /// Ends a turn by sending its output. Keeps output that the socket does not accept.
    pub(crate) fn end_turn(
        &mut self,
        executor: &Executor,
        records: &mut Records,
        output: &mut Output,
    ) -> TurnOutcome {
        self.try_end(executor, records, output).unwrap_or(TurnOutcome::Close)
    }

    fn try_end(
        &mut self,
        executor: &Executor,
        records: &mut Records,
        output: &mut Output,
    ) -> Result<TurnOutcome, Broken> {
        self.send(executor, records, output)?;
        self.report_holding(executor);
        self.note_stage();
        self.pass_region_if_due(executor)?;
        let may_have_input = self.io.may_have_input();
        match self.turn.next() {
            _ if self.has_unsent() => Ok(TurnOutcome::AwaitOutput),
            Next::Input | Next::Lines | Next::Changes if !may_have_input && self.io.is_over() => {
                self.note_left();
                Err(Broken)
            }
            Next::Input if !may_have_input => Ok(TurnOutcome::AwaitInput),
            Next::Lines if !may_have_input => Ok(TurnOutcome::AwaitWake),
            Next::Changes if !may_have_input => Ok(TurnOutcome::AwaitChanges),
            // Input is not received before the command has its result.
            Next::Wake => Ok(TurnOutcome::AwaitWake),
            Next::Origin => Ok(TurnOutcome::AwaitOrigin),
            Next::Input
            | Next::Lines
            | Next::Changes
            | Next::Drain
            | Next::Region
            | Next::Disk
            | Next::Turn
            | Next::GiveWay => Ok(TurnOutcome::Again),
            Next::Close => Err(Broken),
        }
    }
}

/// How many keys of a connection's input are prefetched in each turn.
const KEYS_AHEAD_MAX: usize = 16;
