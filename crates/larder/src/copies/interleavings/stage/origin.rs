//! A small origin. It keeps the rules of decision 43 that concern origins.

use std::collections::VecDeque;

use shuttle::sync::atomic::{AtomicBool, AtomicU64};

use super::{BUCKETS, KEYS, bucket};
use crate::copies::sync::Ordering::SeqCst;
use crate::copies::sync::{Mutex, lock};

/// The number of subscriptions that a scene may have.
const SUBSCRIPTIONS: usize = 2;

/// A message to the near cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    Bucket(u32),
    Everything,
    /// The answer to the message `alive` that was sent at this time.
    Alive(u64),
}

/// The items, and the subscriptions of the near cache.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The version of each item; 0: it does not exist.
    versions: [AtomicU64; KEYS],
    /// The buckets that each subscription is interested in.
    interest: [[AtomicBool; BUCKETS]; SUBSCRIPTIONS],
    streams: [Mutex<VecDeque<Message>>; SUBSCRIPTIONS],
}

impl Origin {
    /// Creates an origin whose items have this version.
    pub(super) fn new(version: u64) -> Self {
        Self {
            versions: std::array::from_fn(|_| AtomicU64::new(version)),
            interest: Default::default(),
            streams: Default::default(),
        }
    }

    /// Does the first step of a fetch.
    pub(crate) fn note(&self, subscription: u64, key: usize) {
        // Rule: InterestBeforeRead
        self.interest[number(subscription)][bucket(subscription, key) as usize].store(true, SeqCst);
    }

    /// Does the second step of a fetch. Returns the version.
    pub(crate) fn version(&self, key: usize) -> u64 {
        self.versions[key].load(SeqCst)
    }

    /// Changes an item, and reports it. Returns its version.
    pub(crate) fn change(&self, key: usize) -> u64 {
        // Rule: PublishBeforeLook
        let version = self.versions[key].fetch_add(1, SeqCst) + 1;
        for subscription in 0..SUBSCRIPTIONS as u64 {
            let bucket = bucket(subscription, key);
            if self.interest[number(subscription)][bucket as usize].swap(false, SeqCst) {
                self.send(subscription, Message::Bucket(bucket));
            }
        }
        version
    }

    /// Changes all items, and reports it. Returns their versions.
    pub(crate) fn flush(&self) -> [u64; KEYS] {
        let versions = std::array::from_fn(|key| self.versions[key].fetch_add(1, SeqCst) + 1);
        for stream in &self.streams {
            lock(stream).push_back(Message::Everything);
        }
        versions
    }

    /// Sends a message.
    pub(crate) fn send(&self, subscription: u64, message: Message) {
        lock(&self.streams[number(subscription)]).push_back(message);
    }

    /// Returns the next message to a subscription.
    pub(crate) fn receive(&self, subscription: u64) -> Option<Message> {
        lock(&self.streams[number(subscription)]).pop_front()
    }
}

fn number(subscription: u64) -> usize {
    usize::try_from(subscription).unwrap()
}
