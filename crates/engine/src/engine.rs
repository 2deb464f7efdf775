//! The engine: the public type above all other modules.

use std::sync::Arc;

use larder_item::{Epoch, KEY_BYTES_MAX, Meta, Second};
use larder_region::LockError;
use larder_region::layout::{self, global};
use larder_region::platform::fd::OwnedFd;
use larder_stats::Counter;

use crate::error::Stuck;
use crate::index::Index;
use crate::index::cursor::Cursor;
use crate::journal::Journal;
use crate::process::Peers;
use crate::process::op::Op;
use crate::process::operation::Operation;
use crate::process::peers::PeerReport;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::readable::ReadableUntil;
use crate::reclaim::Reclaimer;
use crate::reclaim::limit::LimitError;
use crate::reclaim::sweep::SLICE_WORK;
use crate::region::Region;
use crate::segment::Segments;
use crate::segment::record::HEADER_BYTES;
use crate::segment::slot::TAG_BITS;
use crate::superblock::Birth;

/// The index and segments of a cache. All methods except [`Engine::set_journal`] take `&self`. Any
/// number of threads may call them concurrently, each with its own [`ThreadSlot`].
#[derive(Debug)]
pub struct Engine {
    reclaimer: Reclaimer,
    item_bytes_max: usize,
    epoch: Epoch,
    birth: Birth,
    journal: Option<Arc<dyn Journal>>,
}

/// memcached's overhead when it compares an item with `-I`: 48 bytes of header, 8 of cas token, the
/// byte that ends the key and the two bytes that end the value. Clients that check the limit
/// themselves use this formula.
const MEMCACHED_HEADER_BYTES: usize = 48;
const MEMCACHED_CAS_BYTES: usize = 8;
const MEMCACHED_ENDS_BYTES: usize = 3;

/// The length of the longest value that is stored in one piece, whatever the length of a segment. A
/// longer value is stored in pieces, which are written in place as they arrive and read in place,
/// at the cost of one more lookup. docs/decisions/0012 contains the measurements that led to this
/// number.
const INLINE_BYTES_MAX: usize = 16 << 10;

impl Engine {
    pub(crate) fn new(
        reclaimer: Reclaimer,
        item_bytes_max: usize,
        epoch: Epoch,
        birth: Birth,
    ) -> Self {
        Self { reclaimer, item_bytes_max, epoch, birth, journal: None }
    }

    /// Sets the journal that records all changes from now on.
    pub fn set_journal(&mut self, journal: Arc<dyn Journal>) {
        if !journal.records_stores() {
            self.reclaimer.set_eviction_journal(Arc::clone(&journal));
        }
        self.journal = Some(journal);
    }

    #[inline]
    pub(crate) fn journal(&self) -> Option<&dyn Journal> {
        self.journal.as_deref()
    }

    /// Returns the journal that records the changes of an operation.
    pub(crate) fn journal_of<'a>(&'a self, op: &Op<'a>) -> Option<&'a dyn Journal> {
        op.journal.or(self.journal())
    }

    /// Makes all versions that are given from now on higher than `past`. Does nothing if `past`
    /// exceeds 2⁵³.
    pub fn raise_versions(&self, past: u64) {
        self.peers().raise_versions(past);
    }

    /// Makes all versions that are given from now on higher than all earlier ones, and returns the
    /// highest of these. Versions above 2⁵³, which clients have requested, do not count.
    pub fn end_versions(&self) -> u64 {
        self.peers().end_versions()
    }

    #[inline]
    pub(crate) fn region(&self) -> &Region {
        self.reclaimer.region()
    }

    #[inline]
    pub(crate) fn peers(&self) -> &Peers {
        self.reclaimer.peers()
    }

    #[inline]
    pub(crate) fn segments(&self) -> &Segments {
        self.reclaimer.segments()
    }

    #[inline]
    pub(crate) fn index(&self) -> &Index {
        self.reclaimer.index()
    }

    #[inline]
    pub(crate) fn reclaimer(&self) -> &Reclaimer {
        &self.reclaimer
    }

    /// Returns the context of an operation of the engine itself, such as maintenance.
    #[inline]
    pub(crate) fn op<'a>(&'a self, thread: &'a ThreadSlot, now: Second) -> Op<'a> {
        self.reclaimer.op(thread, now)
    }

    /// Returns the context of a caller's operation.
    #[inline]
    pub(crate) fn op_of<'a>(&'a self, operation: &Operation<'a>) -> Op<'a> {
        Op::of(operation, &self.reclaimer)
    }

    /// Same as [`Peers::wait_for_peers`].
    pub(crate) fn wait_for_peers(&self, wait: &mut Wait) -> Result<(), Stuck> {
        self.reclaimer.wait_for_peers(wait)
    }

    /// Returns the length of the largest item in bytes, as [`Engine::accepts`] counts it.
    pub(crate) fn item_bytes_max(&self) -> usize {
        self.item_bytes_max
    }

    /// True if an item with a key and a value of these lengths does not exceed the size limit.
    /// Counts like memcached: 48 bytes of header, 8 of cas token if the cache has versions, and 3
    /// for the ends of key and value.
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let cas_bytes = if self.segments().keeps_versions() { MEMCACHED_CAS_BYTES } else { 0 };
        let overhead = MEMCACHED_HEADER_BYTES + cas_bytes + MEMCACHED_ENDS_BYTES;
        value_bytes
            .checked_add(key_bytes + overhead)
            .is_some_and(|item_bytes| item_bytes <= self.item_bytes_max)
    }

    /// True if each item has a version, which is its cas token.
    pub fn keeps_versions(&self) -> bool {
        self.segments().keeps_versions()
    }

    /// Returns the length of the longest value that is kept in one piece.
    pub fn inline_bytes_max(&self) -> usize {
        const FIELDS_BYTES: usize = HEADER_BYTES + 16;
        let record_bytes_max = self.region().segment_bytes() / 8;
        let head_bytes_max = (FIELDS_BYTES + KEY_BYTES_MAX).next_multiple_of(8);
        (record_bytes_max - head_bytes_max).min(INLINE_BYTES_MAX)
    }

    /// Returns the offset between the cache's seconds and Unix time.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the identity of the region, and when it was created.
    pub fn birth(&self) -> &Birth {
        &self.birth
    }

    /// Returns the current second of the region's clock.
    pub fn now(&self) -> Second {
        self.region().now()
    }

    /// Advances the region's clock; it never goes back.
    pub fn tick(&self, now: Second) {
        self.region().tick(now);
    }

    /// Returns until when other processes may read the items; `None` without a limit. A reader must
    /// call this before it looks an item up.
    #[inline]
    pub fn readable_until(&self) -> Option<ReadableUntil> {
        self.region().readable_until()
    }

    /// Sets until when other processes may read the items. Only one thread may call this.
    pub fn limit_readers(&self, until: ReadableUntil) {
        self.region().limit_readers(until);
    }

    /// Ends the opening of the region: other processes may open it now.
    pub fn end_opening(&self) {
        self.peers().end_opening();
    }

    /// Reopens the lock file, so that it can be passed to a process that should attach to the
    /// region. Returns `None` if no other process can use the region.
    pub fn lock_file_to_pass(&self) -> Option<Result<OwnedFd, LockError>> {
        self.peers().lock_file_to_pass()
    }

    /// True if other processes can use the region.
    #[inline]
    pub fn has_peers(&self) -> bool {
        self.peers().has_peers()
    }

    /// Returns the attached processes, and processes that died while attached and have not been
    /// reaped.
    pub fn peer_reports(&self) -> Vec<PeerReport> {
        self.peers().peer_reports()
    }

    /// Returns the process id of each attached process, in the pid namespace of that process. In
    /// the caller's namespace it may have a different id.
    pub fn peer_process_ids(&self) -> Vec<u64> {
        self.peers().peer_process_ids()
    }

    /// True if no other process is attached to the region.
    ///
    /// Cost: a load for each row of the table of peers. If there are other processes, also a search
    /// for dead ones, with a system call for each.
    pub fn is_alone(&self) -> bool {
        let is_alone = || self.peer_process_ids().len() <= 1;
        is_alone() || (self.reclaimer.reap_peers() && is_alone())
    }

    /// Takes a free thread slot. Returns `None` if threads hold all slots of the region. Return the
    /// slot with [`Engine::deregister`].
    pub fn register(&self) -> Option<ThreadSlot> {
        self.peers().register()
    }

    /// Returns the number of thread slots for threads of all processes, in addition to the slot
    /// that is reserved for each process.
    pub fn thread_slot_count(&self) -> usize {
        self.peers().thread_slot_count()
    }

    /// Takes the thread slot that is reserved for this process. It serves all threads of the
    /// process that find no free slot. Call this once.
    pub fn register_reserved(&self) -> ThreadSlot {
        self.peers().register_reserved()
    }

    /// Returns a thread slot to the region. Its counters keep their values.
    pub fn deregister(&self, thread: &ThreadSlot) {
        self.peers().deregister(thread);
    }

    /// Adds to a counter of the thread slot.
    #[inline]
    pub fn bump(&self, thread: &ThreadSlot, counter: Counter, n: u64) {
        self.peers().bump(thread, counter, n);
    }

    /// Returns the sum of a counter over all thread slots.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.peers().counter(counter)
    }

    /// Sets every event counter to 0; gauges keep their values.
    pub fn reset_counters(&self) {
        self.peers().reset_counters();
    }

    /// Hides everything stored so far and cancels a scheduled flush. Takes constant time, because
    /// it stores only one number: items in segments whose use began before count as absent from
    /// then on.
    pub fn flush(&self) {
        self.segments().flush();
    }

    /// Hides everything stored until the second `now` is over, including items that are stored
    /// later in that second.
    pub fn flush_second(&self, now: Second) {
        self.segments().flush_second(now);
    }

    /// Schedules a flush for the second `at`, which may be `now`. It replaces an earlier schedule.
    pub fn flush_at(&self, at: Second, now: Second) {
        self.segments().flush_at(at, now);
    }

    /// Frees the memory of expired, flushed, replaced and deleted items, and evicts while the cache
    /// exceeds its memory limit. Any thread may call it, about once a second. A call does a bounded
    /// amount of work, about ten milliseconds. Expired items that no client reads are removed
    /// within one call, or within one call for each 40,000 of them. Returns true if more expired
    /// items remain; see [`Engine::sweep`].
    pub fn maintain(&self, thread: &ThreadSlot, now: Second) -> bool {
        self.reclaimer.maintain(&self.op(thread, now))
    }

    /// Continues to remove expired items where the last call or [`Engine::maintain`] stopped, for
    /// about ten milliseconds. Returns true if more expired items remain.
    pub fn sweep(&self, thread: &ThreadSlot, now: Second) -> bool {
        self.reclaimer.sweep(&self.op(thread, now), SLICE_WORK)
    }

    /// Evicts until enough segments are free for some time, so that writers find free segments and
    /// need not evict themselves. For a background thread, which [`Engine::call_when_short`] wakes.
    pub fn refill(&self, thread: &ThreadSlot, now: Second) {
        self.reclaimer.refill(&self.op(thread, now));
    }

    /// Makes the system allocate the memory that writers use next, so that writers need not wait
    /// for the allocation. For the same background thread as [`Engine::refill`]. Does nothing in
    /// shared memory, where memory that one process populates counts for all processes, whether it
    /// is used or not.
    pub fn populate(&self) {
        self.segments().populate();
    }

    /// Removes the dead items in one group of the index for which `wanted` returns true, given
    /// their key length and metadata, and moves the cursor to the next group. Returns false at the
    /// end of the walk. Unlike [`Engine::maintain`] it covers items in all segments, including
    /// segments that appenders still write to.
    ///
    /// Cost: holds the lock of the group, as a store does, for a cache miss or two for each of
    /// about ten items.
    pub fn sweep_group(
        &self,
        thread: &ThreadSlot,
        cursor: &mut Cursor,
        now: Second,
        wanted: impl Fn(usize, &Meta) -> bool,
    ) -> bool {
        self.reclaimer.sweep_group(&self.op(thread, now), cursor, wanted)
    }

    /// Registers `wake`, which a writer calls when it takes a segment and few free segments, or few
    /// populated fresh ones, remain. The woken thread calls [`Engine::refill`] and
    /// [`Engine::populate`]. Only the first registration counts. The writer holds no lock during
    /// the call, and `wake` must not block.
    pub fn call_when_short(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.segments().call_when_short(wake);
    }

    /// Recounts the live items and bytes of at most `count_max` segments whose counts may be too
    /// high, because a process died. Skips a segment in which a value is still arriving, because no
    /// slot names the pieces of that value yet; a later call recounts it.
    pub fn recount_suspects(&self, thread: &ThreadSlot, count_max: usize) {
        self.reclaimer.recount_suspects(&self.op(thread, self.now()), count_max);
    }

    /// Changes the memory limit, up to the limit that the cache was created for. A higher limit
    /// takes effect immediately. A lower limit takes effect with the next calls of
    /// [`Engine::shrink`] and [`Engine::maintain`]. If no thread has registered with
    /// [`Engine::call_when_short`], the next stores also evict the least valuable items and return
    /// their memory to the system.
    ///
    /// # Errors
    /// [`LimitError`] names the bounds.
    pub fn set_memory_limit(&self, thread: &ThreadSlot, bytes: usize) -> Result<(), LimitError> {
        self.reclaimer.set_memory_limit(thread, bytes)
    }

    /// Does a bounded part of the work that is due after the memory limit was lowered. Returns the
    /// memory of free segments to the system, frees more segments, and lowers the number of usable
    /// segments to the number in use plus a few, so that writers always find free ones. Returns
    /// true if more work is due now.
    pub fn shrink(&self, thread: &ThreadSlot, now: Second) -> bool {
        self.reclaimer.shrink(&self.op(thread, now))
    }

    /// Returns the memory limit in bytes.
    pub fn memory_limit(&self) -> usize {
        self.segments().memory_limit()
    }

    /// Prefetches the index groups and the records of some keys that the caller is about to use. It
    /// is only a hint and changes nothing.
    ///
    /// An operation on one key waits for memory two or three times, one after the other. If the
    /// keys of several operations are prefetched together, their waits overlap.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.index().prefetch(keys);
    }

    /// Prefetches the index group of a key that the caller is about to store, and does not wait for
    /// it. The caller then prepares the store while the memory arrives.
    ///
    /// Cost: a hash of the key.
    #[inline]
    pub fn prefetch_group(&self, key: &[u8]) {
        let index = self.index();
        index.prefetch_group(index.hash(key));
    }
}

const _: () = assert!(TAG_BITS == 15 && layout::SUPERBLOCK_BYTES <= global::CLOCK);
