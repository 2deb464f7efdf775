//! The answers by size class: what is stored now, looked at in the index, and what has been counted.

use std::collections::BTreeMap;

use larder::Sampled;
use larder_item::{Deadline, Second};
use larder_protocol::{Frame, render};
use larder_stats::{ClassGauge, Section, Source};

use super::is_shown;
use crate::Server;
use crate::classes::{ItemSize, SizeClass};

/// What is stored of each class at one time; what memcached would say of it.
pub(super) struct Census {
    /// The class with this number, from 0.
    classes: Vec<Stored>,
    now: Second,
}

/// What is stored of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    hot: Queue,
    warm: Queue,
    cold: Queue,
    temporary: Queue,
    bytes: u64,
    /// Chunks of the class in use, by items of this class and by parts of larger ones.
    chunks: u64,
}

/// One of the queues that memcached would have.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    number: u64,
    /// The second since when the oldest item has been where it is.
    oldest: Option<Second>,
}

impl Census {
    /// Looks at the items, or at a part of them, and projects.
    pub(super) fn take(server: &Server) -> Self {
        let now = server.cache.now();
        let mut classes = vec![Stored::default(); usize::from(server.classes.last()) + 1];
        let temporary_secs = server.options.tuning.temporary_ttl_secs;
        let sample = Sample::due(server);
        let factor = sample.look(server, |item| {
            let size = ItemSize::new(item.key_bytes, &item.meta);
            let stored = &mut classes[usize::from(server.classes.class_of(size))];
            stored.bytes += server.classes.item_bytes(size);
            let queue = stored.queue_of(item, temporary_secs);
            queue.number += 1;
            let seen = item.meta.seen;
            queue.oldest = Some(queue.oldest.map_or(seen, |oldest| oldest.min(seen)));
            server.classes.chunks_of(size, |class| classes[usize::from(class)].chunks += 1);
        });
        classes.iter_mut().for_each(|stored| stored.project(factor));
        Self { classes, now }
    }

    /// Appends a section for each class that it shows.
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

    /// How many classes `stats slabs` shows.
    pub(super) fn active_count(&self, server: &Server) -> u64 {
        let numbers = server.classes.numbered().map(|(number, _)| number);
        numbers.filter(|number| self.is_active(server, *number)).count() as u64
    }

    /// memcached shows a class that has pages, and keeps them when the last item has gone.
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
            ClassGauge::AgeHot => stored.hot.age(self.now),
            ClassGauge::AgeWarm => stored.warm.age(self.now),
            ClassGauge::Age => stored.age(self.now),
            ClassGauge::MemRequested => stored.bytes,
            ClassGauge::EvictedTime => {
                u64::from(server.class_tally.departures().evicted_secs(number))
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
    fn queue_of(&mut self, item: &Sampled, temporary_secs: Option<Second>) -> &mut Queue {
        let ttl = item.meta.deadline.0.saturating_sub(item.meta.seen);
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

    fn number(&self) -> u64 {
        self.queues().iter().map(|queue| queue.number).sum()
    }

    fn age(&self, now: Second) -> u64 {
        self.queues().iter().map(|queue| queue.age(now)).max().unwrap_or(0)
    }

    /// From what was looked at to all there is.
    fn project(&mut self, factor: f64) {
        let Self { hot, warm, cold, temporary, bytes, chunks } = self;
        let queues = [hot, warm, cold, temporary].map(|queue| &mut queue.number);
        for number in queues.into_iter().chain([bytes, chunks]) {
            *number = (*number as f64 * factor).round() as u64;
        }
    }
}

impl Queue {
    fn age(&self, now: Second) -> u64 {
        self.oldest.map_or(0, |oldest| u64::from(now.saturating_sub(oldest)))
    }
}

/// How many items there are of each size, as memcached counts it: bytes rounded up to 32, and their number.
pub(super) fn sizes(server: &Server) -> BTreeMap<u64, u64> {
    let mut sizes = BTreeMap::new();
    let factor = Sample::due(server).look(server, |item| {
        let bytes = server.classes.item_bytes(ItemSize::new(item.key_bytes, &item.meta));
        *sizes.entry(bytes.next_multiple_of(SIZE_STEP_BYTES)).or_default() += 1_u64;
    });
    sizes.values_mut().for_each(|count| *count = (*count as f64 * factor).round() as u64);
    sizes
}

/// How much of the index is looked at: all of it, or so much that the worker is kept for a few milliseconds.
struct Sample {
    items: u64,
    groups_max: usize,
}

impl Sample {
    fn due(server: &Server) -> Self {
        let items = server.cache.len();
        let report = server.cache.report();
        let part = ITEMS_MAX as f64 / items.max(1) as f64;
        let groups_max = (report.groups as f64 * part).clamp(1.0, GROUPS_MAX as f64) as usize;
        Self { items, groups_max }
    }

    /// Shows items to `visit`. Gives the number by which what was found is to be multiplied.
    fn look(&self, server: &Server, mut visit: impl FnMut(&Sampled)) -> f64 {
        let mut shown = 0_u64;
        let factor = server.cache.sample(self.groups_max, |item| {
            shown += 1;
            visit(item);
        });
        match shown {
            0 => factor,
            // The number of items is known: what was found says how they divide.
            _ if factor > 1.0 => self.items as f64 / shown as f64,
            _ => 1.0,
        }
    }
}

/// So many items are looked at, about.
const ITEMS_MAX: u64 = 10_000;

/// So many groups of the index are looked at where they hold little: those of a cache of 1 GiB that is new.
const GROUPS_MAX: u64 = 1 << 16;

/// `stats sizes` shows these steps.
const SIZE_STEP_BYTES: u64 = 32;
