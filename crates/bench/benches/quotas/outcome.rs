//! The results of a scenario, and the table of them.

use anyhow::Result;
use larder::Counter;

use crate::ledger::Work;
use crate::scenario::{Scenario, Tenant, tenant_of};
use crate::tenants::{Mechanism, Tenants};

/// The result of one scenario with one mechanism.
pub(crate) struct Outcome {
    pub(crate) others: Gets,
    flooder: Gets,
    /// The bytes of the flooder's keys and values at the end.
    flooder_bytes: u64,
    work: Work,
    /// Bytes that the engine has moved to keep them, and that clients have stored.
    moved_bytes: u64,
    written_bytes: u64,
    /// Memory of the segments with items, and the live bytes in them.
    segments_bytes: u64,
    live_bytes: u64,
}

/// The gets of a tenant.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gets {
    hits: u64,
    gets: u64,
}

impl Gets {
    pub(crate) fn hit_ratio(self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }
}

impl Outcome {
    /// Plays a scenario on new caches.
    ///
    /// # Errors
    /// A cache fails.
    pub(crate) fn of(
        scenario: &Scenario<'_>,
        memory_bytes: u64,
        mechanism: Mechanism,
    ) -> Result<Self> {
        let mut tenants = Tenants::open(memory_bytes, mechanism)?;
        let (mut others, mut flooder) = (Gets::default(), Gets::default());
        scenario.play(|asked| {
            if let Some(is_hit) = tenants.play(asked)? {
                let gets = match asked.tenant {
                    Tenant::Others => &mut others,
                    Tenant::Flooder => &mut flooder,
                };
                gets.gets += 1;
                gets.hits += u64::from(is_hit);
            }
            Ok(())
        })?;
        let mut outcome = Self {
            others,
            flooder,
            flooder_bytes: 0,
            work: tenants.work(),
            moved_bytes: 0,
            written_bytes: 0,
            segments_bytes: 0,
            live_bytes: 0,
        };
        tenants.caches().for_each(|cache| outcome.describe(cache));
        Ok(outcome)
    }

    /// Adds the state of a cache at the end.
    fn describe(&mut self, cache: &larder::Cache) {
        let report = cache.report();
        self.moved_bytes += report.bytes_relocated;
        self.written_bytes += cache.counter(Counter::BytesWritten);
        self.segments_bytes += report.segments_items * report.segment_bytes;
        self.live_bytes += report.live_bytes;
        cache.sample_keys(0..cache.group_count(), |key, item| {
            if tenant_of(key) == Tenant::Flooder {
                self.flooder_bytes += (key.len() + item.meta.value_bytes) as u64;
            }
        });
    }

    /// Prints the row of the table.
    pub(crate) fn print(&self, name: &str, quota_bytes: Option<u64>) {
        let quota = quota_bytes.map_or("–".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        let Work { scanned, deleted, deleted_bytes } = self.work;
        let hand = match deleted {
            0 => "– | –".to_owned(),
            _ => format!(
                "{:.1} | {:.2}",
                scanned as f64 / deleted as f64,
                deleted_bytes as f64 / self.written_bytes as f64
            ),
        };
        let flooder = match self.flooder.gets {
            0 => "–".to_owned(),
            _ => format!("{:.2} %", self.flooder.hit_ratio() * 100.0),
        };
        println!(
            "| {name} | {quota} | {:.2} % | {flooder} | {:.1} MiB | {hand} | {:.2} | {:.2} |",
            self.others.hit_ratio() * 100.0,
            self.flooder_bytes as f64 / f64::from(1 << 20),
            self.moved_bytes as f64 / self.written_bytes as f64,
            self.live_bytes as f64 / self.segments_bytes as f64,
        );
    }
}

/// Prints the head of the table of a scenario.
pub(crate) fn print_head(name: &str, memory_bytes: u64) {
    println!("{name}; {} MiB", memory_bytes >> 20);
    println!();
    println!(
        "| mechanism | quota | hits of the others | hits of the flooder | its bytes at the end | \
         records scanned / deleted | deleted / written bytes | moved / written bytes | live share |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
}
