//! Turns that wait for a lookup: the disk tier must be read for items that their commands need.
//!
//! ```text
//! executed ── a command needs the disk ──▶ asking ── all reads are complete ──▶ executed on
//! ```
//!
//! The worker and its other connections continue in the meantime. The reads are performed by the
//! ring, or by threads of the worker.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder::{Deferred, DiskLookup, DiskPages, DiskRead, Raw, Wait};
use larder_item::Second;
use slab::Slab;

use super::{PendingTurn, Worker};
use crate::buffers::output::OUTPUT_BYTES_HIGH;
use crate::net::connection::turn::Input;
use crate::net::disk_reads::{DiskQuery, DiskReaders};
use crate::net::inbox::Inbox;
use crate::net::poller::Poller;

/// The turns of a worker that wait for the disk.
#[derive(Debug)]
pub(super) struct DiskWaiters {
    has_disk: bool,
    /// `None` with a ring, and without a disk tier.
    readers: Option<DiskReaders>,
    /// The turns whose reads are in progress.
    turns: Slab<AskingTurn>,
    /// Turns whose reads begin once other reads are complete, in this order.
    waiting: VecDeque<PendingTurn>,
    /// Turns with a change that must wait until the disk has accepted earlier changes, each with
    /// the deadline of its wait.
    crowded: Vec<(PendingTurn, Instant)>,
    /// Turns that can continue.
    ready: Vec<PendingTurn>,
    /// The memory of the reads in bytes, counted until their results are used.
    bytes: usize,
    /// The deadline until which a graceful stop waits for these turns.
    until: Option<Second>,
}

/// A turn whose reads are in progress.
#[derive(Debug)]
struct AskingTurn {
    turn: PendingTurn,
    /// The lookups of the turn, one for each key.
    lookups: Vec<DiskLookup>,
    /// The results of the reads for a list of items. A turn has either these or lookups.
    listed: Vec<Option<DiskPages>>,
    /// How many reads have not completed yet.
    under_way: usize,
}

/// The results of the disk lookups for a turn.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// True if the turn has already waited for the disk, and now continues.
    goes_on: bool,
    /// The completed lookups, one for each key.
    lookups: Vec<DiskLookup>,
    /// The results of the reads for a list of items.
    listed: Vec<DiskPages>,
    /// The memory that the reads occupied.
    bytes: usize,
    /// True if the turn has waited long enough for the disk to accept changes.
    has_waited: bool,
}

impl DiskWaiters {
    /// Prepares the disk reads of a worker.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub(super) fn new(has_disk: bool, poller: &Poller, inbox: &Arc<Inbox>) -> io::Result<Self> {
        let readers = match poller {
            Poller::Epoll(_) if has_disk => Some(DiskReaders::start(inbox)?),
            Poller::Epoll(_) | Poller::Ring(_) => None,
        };
        let (turns, waiting, crowded, ready) = Default::default();
        Ok(Self { has_disk, readers, turns, waiting, crowded, ready, bytes: 0, until: None })
    }

    /// Returns how the operations of turns wait for the disk.
    pub(super) fn wait<'a>(&self, deferred: &'a Deferred) -> Wait<'a> {
        if self.has_disk { Wait::Ask(deferred) } else { Wait::Block }
    }

    /// True if turns can continue.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns how long the worker may sleep before it must check the turns again.
    pub(super) fn pause(&self) -> Option<Duration> {
        match (self.crowded.is_empty(), self.until) {
            (false, _) => Some(Duration::from_millis(20)),
            (true, Some(_)) => Some(Duration::from_secs(1)),
            (true, None) => None,
        }
    }
}

impl Worker {
    /// Looks up the keys that a turn needs from the disk. The turn continues later.
    #[cold]
    pub(super) fn ask_disk(&mut self, turn: &mut PendingTurn) {
        let Some(connection) = self.connections.of_mut(turn.token) else { return };
        connection.park();
        let rest = PendingTurn::new(turn.token, Input::Backlog);
        let turn = PendingTurn { needs_disk: false, ..std::mem::replace(turn, rest) };
        match self.asking.bytes < ASKED_BYTES_MAX {
            _ if self.raw().is_disk_crowded() => {
                let wait = self.executor.server().options.disk_tier.as_ref().map(|tier| tier.wait);
                let until = Instant::now() + wait.unwrap_or_default();
                self.inbox.note_parking();
                self.asking.crowded.push((turn, until));
            }
            true => self.look_up(turn),
            false => self.asking.waiting.push_back(turn),
        }
    }

    fn look_up(&mut self, mut turn: PendingTurn) {
        let wait = self.asking.wait(&self.deferred);
        let Some(connection) = self.connections.of_mut(turn.token) else {
            return self.scratch.give_output(turn.output);
        };
        let (mut lookups, mut bytes) = (Vec::new(), 0);
        let mut reads: Vec<_> = connection.reads_to_list().into_iter().enumerate().collect();
        bytes += reads.iter_mut().map(|(_, read)| read.room().len()).sum::<usize>();
        let listed = reads.iter().map(|_| None).collect();
        let keys = match reads.is_empty() {
            true => connection.keys_to_ask(&self.executor, wait),
            false => Vec::new(),
        };
        for key in &keys {
            let Some((lookup, read)) = self.raw().look_up(key) else { break };
            if let Some(mut read) = read {
                bytes += read.room().len();
                reads.push((lookups.len(), read));
            }
            lookups.push(lookup);
            if bytes >= TURN_BYTES_MAX {
                break;
            }
        }
        (turn.answers.goes_on, turn.answers.bytes) = (true, bytes);
        self.asking.bytes += bytes;
        let under_way = reads.len();
        if under_way == 0 {
            turn.answers.lookups = lookups;
            return self.asking.ready.push(turn);
        }
        let turn = self.asking.turns.insert(AskingTurn { turn, lookups, listed, under_way });
        for (lookup, of) in reads {
            self.read(DiskQuery { turn, lookup, of });
        }
    }

    fn raw(&self) -> Raw<'_> {
        self.executor.cache().raw(self.asking.wait(&self.deferred))
    }

    fn read(&mut self, asked: DiskQuery<DiskRead>) {
        match (&mut self.poller, &self.asking.readers) {
            (Poller::Ring(ring), _) => ring.read(asked),
            (Poller::Epoll(_), Some(readers)) => readers.read(asked),
            // Lookups exist only with a disk tier.
            (Poller::Epoll(_), None) => {}
        }
    }

    /// Continues a lookup after a read, or its turn after the last read.
    pub(super) fn take_read(&mut self, asked: DiskQuery<DiskPages>) {
        let Some(asking) = self.asking.turns.get_mut(asked.turn) else { return };
        if let Some(listed) = asking.listed.get_mut(asked.lookup) {
            *listed = Some(asked.of);
        } else if let Some(lookup) = asking.lookups.get_mut(asked.lookup)
            && let Some(mut of) = self.executor.cache().raw(Wait::Block).look_on(lookup, asked.of)
        {
            let bytes = of.room().len();
            asking.turn.answers.bytes += bytes;
            self.asking.bytes += bytes;
            return self.read(DiskQuery { turn: asked.turn, lookup: asked.lookup, of });
        }
        asking.under_way -= 1;
        if asking.under_way == 0
            && let Some(asking) = self.asking.turns.try_remove(asked.turn)
        {
            let AskingTurn { mut turn, lookups, listed, .. } = asking;
            turn.answers.lookups = lookups;
            turn.answers.listed = listed.into_iter().flatten().collect();
            self.asking.ready.push(turn);
        }
    }

    /// Takes the results of the reader threads.
    pub(super) fn take_reads(&mut self) {
        for read in self.inbox.take_reads() {
            self.take_read(read);
        }
    }

    /// Continues the turns whose lookups are complete.
    pub(super) fn go_on(&mut self) {
        for turn in std::mem::take(&mut self.asking.ready) {
            match self.connections.of(turn.token) {
                Some(_) => self.turns.push(turn),
                None => {
                    self.asking.bytes -= turn.answers.bytes;
                    self.scratch.give_output(turn.output);
                }
            }
        }
    }

    /// Passes the results of the lookups to their turn.
    pub(super) fn give_answers(&mut self, turn: &mut PendingTurn) {
        let Answers { lookups, listed, bytes, has_waited, .. } = std::mem::take(&mut turn.answers);
        if let Some(connection) = self.connections.of_mut(turn.token) {
            connection.give_read(listed);
        }
        self.asking.bytes -= bytes;
        self.deferred.note_waited(has_waited);
        for lookup in lookups {
            self.deferred.give_found(lookup);
        }
    }

    /// Continues turns with changes if the disk accepts changes again, or if they have waited until
    /// their deadline. Also begins the reads of turns that had to wait because the reads of other
    /// turns occupied too much memory.
    pub(super) fn ask_on(&mut self) {
        if !self.asking.crowded.is_empty() {
            self.inbox.note_parking();
            let is_crowded = self.raw().is_disk_crowded();
            let now = Instant::now();
            for (mut turn, until) in std::mem::take(&mut self.asking.crowded) {
                if is_crowded && now < until {
                    self.asking.crowded.push((turn, until));
                } else {
                    turn.answers.has_waited = is_crowded;
                    self.look_up(turn);
                }
            }
        }
        while self.asking.bytes < ASKED_BYTES_MAX
            && let Some(turn) = self.asking.waiting.pop_front()
        {
            self.look_up(turn);
        }
    }

    /// Discards the results that [`Self::give_answers`] has passed to the last turn.
    pub(super) fn forget_answers(&self) {
        self.deferred.forget_found();
        self.deferred.note_waited(false);
    }

    /// True if a graceful stop must still wait for turns that wait for the disk. It waits for a few
    /// seconds.
    pub(super) fn awaits_disk(&mut self) -> bool {
        let DiskWaiters { turns, waiting, crowded, ready, .. } = &self.asking;
        let has_asked =
            !(turns.is_empty() && waiting.is_empty() && ready.is_empty() && crowded.is_empty());
        let second = self.clock.second();
        let until = *self.asking.until.get_or_insert(second + DISK_SECS_MAX);
        (has_asked || !self.parked.is_empty()) && second < until
    }
}

impl PendingTurn {
    /// True if the turn has already waited for the disk, and now continues.
    pub(super) fn goes_on(&self) -> bool {
        self.answers.goes_on
    }
}

/// The maximum memory of a turn's reads in bytes, not counting the last read. It equals the maximum
/// output of a turn: if more were read, the items that do not fit into the output would have to be
/// read again in the next turn.
const TURN_BYTES_MAX: usize = OUTPUT_BYTES_HIGH;

/// The maximum memory of the reads of all turns in bytes, not counting the last turn.
const ASKED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a graceful stop waits for the disk.
const DISK_SECS_MAX: Second = 5;
