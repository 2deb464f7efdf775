//! Near caches that follow this server, which is their *origin*. A near cache keeps copies of
//! items, and the origin reports every change to it. docs/decisions/0043 describes the protocol and
//! names its rules. A comment here names the rule that the code keeps.
//!
//! ```text
//! fetch  ─▶ notes its interest ─▶ reads the item
//! change ─▶ becomes visible ─▶ looks at the interest ─▶ ring of each slot ─▶ streams of the slot
//! ```
//!
//! A *subscription* is one near cache's change stream. It has a token, by which the near cache's
//! other connections name it. The keys are divided into *buckets*. The table of interest
//! (`interest.rs`) has a word for each bucket, and in it a bit for each of 64 *slots*. A fetch sets
//! the bit of its subscription's slot. A change exchanges the word with 0, and pushes a message to
//! the ring of each slot whose bit was set (`slot.rs`). Up to 64 subscriptions share a slot and
//! read its ring, each at its own position. A bit of a subscription that has ended costs one
//! needless message.
//!
//! The cache calls [`ChangeListener`] after every change, whatever command or thread makes it.

mod interest;
mod ring;
mod slot;
mod stream;
mod subscription;

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicUsize, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use larder::{Cache, ChangeListener};
use larder_protocol::Refusal;
use larder_protocol::follow::Terms;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::succession::Succession;
use interest::Interest;
use ring::EVERYTHING;
use slot::Slot;
pub(crate) use stream::{Follow, StreamStep};
pub(crate) use subscription::Subscription;

/// The subscriptions of a server.
#[derive(Debug)]
pub(crate) struct Followers {
    /// `--followers`: the most subscriptions.
    count_max: usize,
    /// The number of subscriptions, which changes under the lock of the list.
    count: AtomicUsize,
    /// Made with the first subscription.
    table: OnceLock<Table>,
    list: Mutex<List>,
    /// While another process may change the items of this cache unnoticed, changes are not
    /// reported, and no interest is noted.
    succession: Arc<Succession>,
}

/// The table of interest, and the slots.
#[derive(Debug)]
struct Table {
    interest: Interest,
    slots: Box<[Slot]>,
    /// The terms of all streams, with the token 0.
    terms: Terms,
}

#[derive(Debug, Default)]
struct List {
    by_token: HashMap<u128, Arc<Subscription>>,
}

impl Followers {
    /// Creates the state without subscriptions.
    pub(crate) fn new(count_max: usize, succession: Arc<Succession>) -> Self {
        Self {
            count_max,
            count: AtomicUsize::new(0),
            table: OnceLock::new(),
            list: Mutex::default(),
            succession,
        }
    }

    /// True if near caches may follow the server at all.
    pub(crate) fn are_allowed(&self) -> bool {
        self.count_max > 0
    }

    /// Returns the number of subscriptions.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Begins a subscription. `waker` wakes the connection of its stream.
    fn subscribe(
        &self,
        cache: &Cache,
        waker: Waker,
    ) -> Result<(Arc<Subscription>, Terms), Refusal> {
        let mut list = self.list();
        // Under the lock, so that no subscription is added after `suspend`.
        self.check(cache)?;
        if list.by_token.len() >= self.count_max {
            return Err(Refusal::TooManyFollowers);
        }
        let table = self.table.get_or_init(|| Table::new(cache));
        let slot = table.emptiest_slot();
        // Rule: TokensAreNew
        // A token has 128 random bits.
        let token = random();
        let reader = table.slots[slot].add(waker);
        let subscription = Arc::new(Subscription::new(token, slot, reader));
        list.by_token.insert(token, Arc::clone(&subscription));
        self.count.store(list.by_token.len(), Relaxed);
        Ok((subscription, table.terms_of(token)))
    }

    /// Checks that this process is the only one that changes the items.
    ///
    /// # Errors
    /// Returns the reason why there can be no subscription.
    fn check(&self, cache: &Cache) -> Result<(), Refusal> {
        // Rule: OneProcessTells
        if !self.succession.is_alone() {
            return Err(Refusal::FollowDuringUpgrade);
        }
        match cache.is_alone() {
            true => Ok(()),
            false => Err(Refusal::FollowOfSharedCache),
        }
    }

    /// Returns the subscription with a token.
    pub(crate) fn find(&self, token: u128) -> Option<Arc<Subscription>> {
        self.list().by_token.get(&token).cloned()
    }

    /// Ends a subscription.
    fn unsubscribe(&self, subscription: &Subscription) {
        subscription.end();
        let mut list = self.list();
        if list.by_token.remove(&subscription.token()).is_some() {
            self.count.store(list.by_token.len(), Relaxed);
        }
        if let Some(table) = self.table.get() {
            table.slots[subscription.slot()].remove(subscription.reader());
        }
    }

    /// Notes that a subscription may have a copy of the item of a key. The caller reads the item
    /// afterwards. Returns false if changes of the item will not be reported.
    pub(crate) fn note(&self, subscription: &Subscription, key: &[u8]) -> bool {
        let Some(table) = self.table.get() else { return false };
        if subscription.is_over() || self.succession.has_successor() {
            return false;
        }
        table.interest.note(table.terms.bucket_of(key), subscription.slot());
        // Rule: InterestBeforeRead
        // Pairs with the fence in `changed`: either the change finds the interest, or the caller
        // reads the change.
        fence(SeqCst);
        true
    }

    /// Ends all streams and notes no interest from now on, because another process takes over.
    pub(crate) fn suspend(&self) {
        // Rule: OneProcessTells
        // The successor has not been started yet.
        let list = self.list();
        self.succession.begin();
        for subscription in list.by_token.values() {
            subscription.end();
            if let Some(table) = self.table.get() {
                table.slots[subscription.slot()].wake(subscription.reader());
            }
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn new(cache: &Cache) -> Self {
        let (identity, _) = cache.identity();
        // Private memory has no identity, and ends with the process.
        let epoch = if identity == 0 { random() } else { identity };
        let terms = Terms::new(0, epoch as u64, BUCKETS_LOG2, random() as u64);
        Self {
            interest: Interest::new(BUCKETS_LOG2),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            terms,
        }
    }

    fn emptiest_slot(&self) -> usize {
        (0..SLOTS).min_by_key(|slot| self.slots[*slot].reader_count()).unwrap_or_default()
    }

    fn terms_of(&self, token: u128) -> Terms {
        let mut terms = self.terms;
        terms.token = token;
        terms
    }
}

impl ChangeListener for Followers {
    fn expect(&self, key: &[u8]) {
        if let Some(table) = self.table.get() {
            table.interest.load_early(table.terms.bucket_of(key));
        }
    }

    fn changed(&self, key: &[u8]) {
        // Rule: PublishBeforeLook
        // The cache calls this after other threads can read the change. Pairs with the fence in
        // `note`.
        // Rule: RemovalTellsEach
        // A removal by prefix calls this for each item, when its walk removes it.
        fence(SeqCst);
        let Some(table) = self.table.get() else { return };
        let bucket = table.terms.bucket_of(key);
        let mut slots = table.interest.take(bucket);
        // Rule: OwnWritesAreTold
        // The connection that the change came from is not known here.
        while slots != 0 {
            // Rule: SlotTellsAll
            // All subscriptions of a slot read its ring.
            table.slots[slots.trailing_zeros() as usize].push(bucket);
            slots &= slots - 1;
        }
    }

    fn cleared(&self) {
        fence(SeqCst);
        // Rule: FlushTellsAll
        // The interest does not matter.
        for slot in self.table.get().into_iter().flat_map(|table| &table.slots) {
            slot.push(EVERYTHING);
        }
    }
}

/// Returns random bits of the operating system.
fn random() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system has no random numbers: {error}"),
        }
    }
    u128::from_ne_bytes(bytes)
}

/// The number of slots: the bits of a word of the table of interest.
const SLOTS: usize = 64;

/// The number of buckets, as a power of 2.
const BUCKETS_LOG2: u32 = 20;
