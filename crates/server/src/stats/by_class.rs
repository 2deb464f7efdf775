//! Statistics by size class: the results of a census, which counts the stored items of each class,
//! and counters.

use larder_protocol::{Frame, render};
use larder_stats::{ClassGauge, Section, Source};

use super::shown::is_shown;
use crate::observe::census::Census;
use crate::observe::classes::SizeClass;
use crate::server::Server;

/// A census in the form that the statistics of a server show.
#[derive(Clone, Copy)]
pub(super) struct ByClass<'a> {
    pub(super) census: &'a Census,
    pub(super) server: &'a Server,
}

impl ByClass<'_> {
    /// Appends a section for each active class.
    pub(super) fn show(self, section: Section, frame: &Frame<'_>, out: &mut Vec<u8>) {
        for (number, class) in self.server.statistics.classes.numbered() {
            let is_due = match section {
                Section::Items => self.census.of(number).number() > 0,
                _ => self.is_active(number),
            };
            if !is_due {
                continue;
            }
            let prefix = if section == Section::Items { "items:" } else { "" };
            let counts = self.server.statistics.class_tally.read(number);
            for stat in section.rows().filter(|stat| is_shown(self.server, stat)) {
                let name = format_args!("{prefix}{number}:{}", stat.name);
                match stat.source {
                    Source::ClassCounter(counter) => {
                        render::stat(out, name, counts[counter as usize], frame);
                    }
                    Source::ClassGauge(gauge) => {
                        let value = self.gauge(number, class, gauge);
                        render::stat(out, name, value, frame);
                    }
                    Source::Constant(text) => render::stat(out, name, text, frame),
                    Source::Counter(_) | Source::Gauge(_) | Source::TierGauge(_) => {}
                }
            }
        }
    }

    /// Returns how many classes `stats slabs` shows.
    pub(super) fn active_count(self) -> u64 {
        let numbers = self.server.statistics.classes.numbered().map(|(number, _)| number);
        numbers.filter(|number| self.is_active(*number)).count() as u64
    }

    /// True if the class is shown. memcached shows a class that has pages, which it keeps after the
    /// last item has gone.
    fn is_active(self, number: u8) -> bool {
        self.census.of(number).chunks() > 0 || self.server.statistics.class_tally.is_known(number)
    }

    fn gauge(self, number: u8, class: SizeClass, gauge: ClassGauge) -> u64 {
        let (stored, now) = (self.census.of(number), self.census.second());
        let per_page = u64::from(class.chunks_per_page);
        let pages = stored.chunks().div_ceil(per_page).max(1);
        match gauge {
            ClassGauge::Number => stored.number(),
            ClassGauge::NumberHot => stored.hot().number(),
            ClassGauge::NumberWarm => stored.warm().number(),
            ClassGauge::NumberCold => stored.cold().number(),
            ClassGauge::NumberTemp => stored.temporary().number(),
            ClassGauge::AgeHot => stored.hot().age(now),
            ClassGauge::AgeWarm => stored.warm().age(now),
            ClassGauge::Age => stored.age(now),
            ClassGauge::MemRequested => stored.bytes(),
            ClassGauge::EvictedTime => u64::from(
                self.server.statistics.class_tally.eviction_counters().evicted_secs(number),
            ),
            ClassGauge::ChunkSize => u64::from(class.chunk_bytes),
            ClassGauge::ChunksPerPage => per_page,
            ClassGauge::TotalPages => pages,
            ClassGauge::TotalChunks => pages * per_page,
            ClassGauge::UsedChunks => stored.chunks(),
            ClassGauge::FreeChunks => pages * per_page - stored.chunks(),
        }
    }
}
