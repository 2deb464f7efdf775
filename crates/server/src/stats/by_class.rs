//! Statistics by size class: the results of a census, and counters.

use larder::Sampled;
use larder_item::{Deadline, Second};
use larder_protocol::{Frame, render};
use larder_stats::{ClassGauge, Section, Source};

use super::census::Census;
use super::is_shown;
use crate::admin::classes::SizeClass;
use crate::server::Server;

/// The items stored of one class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    hot: Queue,
    warm: Queue,
    cold: Queue,
    temporary: Queue,
    bytes: u64,
    /// Chunks of the class in use, by its items and by parts of larger ones.
    chunks: u64,
}

/// One of the LRU queues that memcached would have.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    number: u64,
    /// The second of the last use of the least recently used item.
    oldest: Option<Second>,
}

impl Census {
    /// Appends a section for each active class.
    pub(super) fn show(
        &self,
        server: &Server,
        section: Section,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) {
        for (number, class) in server.classes.numbered() {
            let is_due = match section {
                Section::Items => self.of(number).number() > 0,
                _ => self.is_active(server, number),
            };
            if !is_due {
                continue;
            }
            let prefix = if section == Section::Items { "items:" } else { "" };
            let counts = server.class_tally.read(number);
            for stat in section.rows().filter(|stat| is_shown(server, stat)) {
                let name = format_args!("{prefix}{number}:{}", stat.name);
                match stat.source {
                    Source::ClassCounter(counter) => {
                        render::stat(out, name, counts[counter as usize], frame);
                    }
                    Source::ClassGauge(gauge) => {
                        let value = self.gauge(server, number, class, gauge);
                        render::stat(out, name, value, frame);
                    }
                    Source::Constant(text) => render::stat(out, name, text, frame),
                    Source::Counter(_) | Source::Gauge(_) => {}
                }
            }
        }
    }

    /// Returns how many classes `stats slabs` shows.
    pub(super) fn active_count(&self, server: &Server) -> u64 {
        let numbers = server.classes.numbered().map(|(number, _)| number);
        numbers.filter(|number| self.is_active(server, *number)).count() as u64
    }

    /// True if the class is shown: memcached shows a class with pages, which it keeps after the
    /// last item has gone.
    fn is_active(&self, server: &Server, number: u8) -> bool {
        self.of(number).chunks > 0 || server.class_tally.is_known(number)
    }

    fn of(&self, number: u8) -> &Stored {
        &self.classes[usize::from(number)]
    }

    fn gauge(&self, server: &Server, number: u8, class: SizeClass, gauge: ClassGauge) -> u64 {
        let stored = self.of(number);
        let per_page = u64::from(class.chunks_per_page);
        let pages = stored.chunks.div_ceil(per_page).max(1);
        match gauge {
            ClassGauge::Number => stored.number(),
            ClassGauge::NumberHot => stored.hot.number,
            ClassGauge::NumberWarm => stored.warm.number,
            ClassGauge::NumberCold => stored.cold.number,
            ClassGauge::NumberTemp => stored.temporary.number,
            ClassGauge::AgeHot => stored.hot.age(self.second),
            ClassGauge::AgeWarm => stored.warm.age(self.second),
            ClassGauge::Age => stored.age(self.second),
            ClassGauge::MemRequested => stored.bytes,
            ClassGauge::EvictedTime => {
                u64::from(server.class_tally.eviction_counters().evicted_secs(number))
            }
            ClassGauge::ChunkSize => u64::from(class.chunk_bytes),
            ClassGauge::ChunksPerPage => per_page,
            ClassGauge::TotalPages => pages,
            ClassGauge::TotalChunks => pages * per_page,
            ClassGauge::UsedChunks => stored.chunks,
            ClassGauge::FreeChunks => pages * per_page - stored.chunks,
        }
    }
}

impl Stored {
    /// Counts an item; `bytes` is its size as memcached counts it.
    pub(super) fn add(&mut self, item: &Sampled, bytes: u64, temporary_secs: Option<Second>) {
        self.bytes += bytes;
        let queue = self.queue_of(item, temporary_secs);
        queue.number += 1;
        let seen = item.meta.seen;
        queue.oldest = Some(queue.oldest.map_or(seen, |oldest| oldest.min(seen)));
    }

    /// Counts a chunk of the class, used by its item or by a part of a larger one.
    pub(super) fn add_chunk(&mut self) {
        self.chunks += 1;
    }

    fn queue_of(&mut self, item: &Sampled, temporary_secs: Option<Second>) -> &mut Queue {
        let ttl = item.meta.deadline.0.saturating_sub(item.placed);
        let is_mortal = item.meta.deadline != Deadline::NEVER;
        if is_mortal && temporary_secs.is_some_and(|secs| ttl <= secs) {
            &mut self.temporary
        } else if item.is_new {
            &mut self.hot
        } else if item.is_read {
            &mut self.warm
        } else {
            &mut self.cold
        }
    }

    fn queues(&self) -> [Queue; 4] {
        [self.hot, self.warm, self.cold, self.temporary]
    }

    pub(super) fn number(&self) -> u64 {
        self.queues().iter().map(|queue| queue.number).sum()
    }

    fn age(&self, now: Second) -> u64 {
        self.queues().iter().map(|queue| queue.age(now)).max().unwrap_or(0)
    }

    /// Projects all counts from the sample to the whole cache.
    pub(super) fn project(&mut self, projected: impl Fn(u64) -> u64) {
        let Self { hot, warm, cold, temporary, bytes, chunks } = self;
        let queues = [hot, warm, cold, temporary].map(|queue| &mut queue.number);
        for number in queues.into_iter().chain([bytes, chunks]) {
            *number = projected(*number);
        }
    }
}

impl Queue {
    fn age(&self, now: Second) -> u64 {
        self.oldest.map_or(0, |oldest| u64::from(now.saturating_sub(oldest)))
    }
}
