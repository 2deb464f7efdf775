//! A simulated cache: S3-FIFO with items of different sizes, some of them compressed.
//!
//! The small queue has a tenth of the memory. An item that leaves it goes to the main queue if it
//! was read, and is evicted otherwise. An item that leaves the main queue goes to its end if it was
//! read since, and is evicted otherwise. The ghost remembers as many evicted keys as the main queue
//! has items; a remembered key is stored in the main queue.

use std::collections::VecDeque;

use crate::ratio::Ratio;

/// The most reads that an item counts.
const FREQ_MAX: u8 = 3;

/// Bytes of the key in a trace's item.
const KEY_BYTES: usize = 16;

/// The items that the cache compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compresses {
    Nothing,
    /// Items that go to the main queue, or to its end, after a single read. Items that were read
    /// more often are stored as they are.
    ColdSurvivors,
    /// Items that the main queue would evict: they stay for one more turn. A read ends the turn,
    /// and the next relocation stores the item as it is.
    Evicted,
    /// All items when they are stored.
    Everything,
}

/// The settings of a cache.
pub(crate) struct Settings<'a> {
    pub(crate) memory_bytes: usize,
    /// Bytes of an item in addition to key and value.
    pub(crate) overhead_bytes: usize,
    pub(crate) compresses: Compresses,
    pub(crate) ratio: &'a Ratio,
}

/// The state of a key.
#[derive(Clone, Copy, Default)]
struct Item {
    queue: Option<Queue>,
    freq: u8,
    is_compressed: bool,
    /// Bytes of key and value, uncompressed.
    item_bytes: u32,
    /// Bytes of memory.
    stored_bytes: u32,
    /// The second in which the item expires; 0 for never.
    deadline: u32,
    /// The stamp of the key's place in the ghost; 0 if it has none.
    ghost_stamp: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

/// The work of a replay.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) compressions: u64,
    pub(crate) decompressions: u64,
}

pub(crate) struct Cache<'a> {
    settings: Settings<'a>,
    items: Vec<Item>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghost: VecDeque<(u32, u64)>,
    ghost_stamp: u64,
    bytes: usize,
    small_bytes: usize,
    pub(crate) work: Work,
}

impl<'a> Cache<'a> {
    pub(crate) fn new(settings: Settings<'a>, key_count: u32) -> Self {
        Self {
            settings,
            items: vec![Item::default(); key_count as usize],
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            ghost_stamp: 0,
            bytes: 0,
            small_bytes: 0,
            work: Work::default(),
        }
    }

    /// Reads an item. True for a hit.
    pub(crate) fn get(&mut self, key: u32, now: u32) -> bool {
        let item = &mut self.items[key as usize];
        if item.queue.is_none() || (item.deadline != 0 && item.deadline <= now) {
            return false;
        }
        item.freq = (item.freq + 1).min(FREQ_MAX);
        self.work.decompressions += u64::from(item.is_compressed);
        true
    }

    /// Stores an item of `item_bytes`, with key.
    pub(crate) fn set(&mut self, key: u32, item_bytes: u32, deadline: u32) {
        let old = self.items[key as usize];
        let is_compressed = self.settings.compresses == Compresses::Everything;
        let anew = Item { item_bytes, deadline, is_compressed: false, ..old };
        match old.queue {
            Some(_) => {
                let freq = (old.freq + 1).min(FREQ_MAX);
                self.put(key, Item { freq, ..anew }, is_compressed);
            }
            None => {
                let is_remembered = old.ghost_stamp != 0;
                let queue = if is_remembered { Queue::Main } else { Queue::Small };
                let item = Item { queue: Some(queue), freq: 0, ghost_stamp: 0, ..anew };
                self.queue(queue).push_back(key);
                self.put(key, item, is_compressed);
            }
        }
        while self.bytes > self.settings.memory_bytes && self.evict() {}
    }

    /// The number of items in memory.
    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn queue(&mut self, queue: Queue) -> &mut VecDeque<u32> {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    /// Replaces the state of a key, and accounts for its memory.
    fn put(&mut self, key: u32, mut item: Item, compress: bool) {
        let value_bytes = (item.item_bytes as usize).saturating_sub(KEY_BYTES);
        let compressed = self.settings.ratio.compressed_bytes(value_bytes);
        let is_compressed = compress && compressed < value_bytes;
        self.work.compressions += u64::from(is_compressed && !item.is_compressed);
        item.is_compressed = is_compressed;
        let stored = if is_compressed { compressed } else { value_bytes };
        item.stored_bytes = (KEY_BYTES + stored + self.settings.overhead_bytes) as u32;
        self.remove_bytes(key);
        self.items[key as usize] = item;
        if let Some(queue) = item.queue {
            self.bytes += item.stored_bytes as usize;
            self.small_bytes += usize::from(queue == Queue::Small) * item.stored_bytes as usize;
        }
    }

    fn remove_bytes(&mut self, key: u32) {
        let old = self.items[key as usize];
        if let Some(queue) = old.queue {
            self.bytes -= old.stored_bytes as usize;
            self.small_bytes -= usize::from(queue == Queue::Small) * old.stored_bytes as usize;
        }
    }

    /// Takes the first item of a queue, and evicts or moves it. False if there are no items.
    fn evict(&mut self) -> bool {
        let is_small = self.small_bytes > self.settings.memory_bytes / 10 || self.main.is_empty();
        let queue = if is_small { Queue::Small } else { Queue::Main };
        let Some(key) = self.queue(queue).pop_front() else { return false };
        let item = self.items[key as usize];
        let survives = item.freq > 0;
        let has_last_turn = queue == Queue::Main
            && self.settings.compresses == Compresses::Evicted
            && !item.is_compressed;
        if !survives && !has_last_turn {
            self.remove(key, queue);
            return true;
        }
        let compress = match self.settings.compresses {
            Compresses::Nothing => false,
            Compresses::ColdSurvivors => item.freq == 1,
            Compresses::Evicted => !survives,
            Compresses::Everything => true,
        };
        // S3-FIFO counts the reads of an item anew when it enters the main queue.
        let freq = if queue == Queue::Small { 0 } else { item.freq.saturating_sub(1) };
        self.main.push_back(key);
        self.put(key, Item { queue: Some(Queue::Main), freq, ..item }, compress);
        true
    }

    fn remove(&mut self, key: u32, queue: Queue) {
        self.remove_bytes(key);
        let item = &mut self.items[key as usize];
        (item.queue, item.is_compressed) = (None, false);
        if queue == Queue::Small {
            self.ghost_stamp += 1;
            item.ghost_stamp = self.ghost_stamp;
            self.ghost.push_back((key, self.ghost_stamp));
        }
        while self.ghost.len() > self.main.len().max(1) {
            let Some((key, stamp)) = self.ghost.pop_front() else { break };
            let item = &mut self.items[key as usize];
            if item.ghost_stamp == stamp {
                item.ghost_stamp = 0;
            }
        }
    }
}
