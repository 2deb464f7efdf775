//! Sequences of changes.

use anyhow::Result;
use larder_bench::Draws;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};

use super::target::{Put, RECORD_BYTES, TOMBSTONE_BYTES, Target, Written};

pub(super) struct Workload {
    pub(super) name: &'static str,
    /// Bytes of live records in percent of the log.
    pub(super) live_percent: u64,
    /// Bytes written for each byte of a change, according to the simulation with which the log was
    /// designed.
    pub(super) simulated_by_design: Option<f64>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Puts of existing keys.
    Overwrite(Keys),
    /// Puts of new keys that expire.
    Sessions,
    /// A removal of any key, then a put of a new one.
    Turnover,
    /// A removal of nine tenths of the keys, then a put of each.
    MassRemoval,
}

/// The distribution of the keys of puts.
#[derive(Clone, Copy)]
enum Keys {
    All,
    Zipf,
    /// Nine of ten puts go to a tenth of the keys.
    MostlyTenth,
    /// All puts go to a twentieth of the keys.
    OnlyTwentieth,
}

/// The changed and written bytes of the measured part.
pub(super) struct Played {
    pub(super) changed_bytes: u64,
    written: Written,
}

impl Played {
    pub(super) fn amplification(&self) -> f64 {
        self.written.bytes as f64 / self.changed_bytes as f64
    }

    /// Returns the zeros written for each byte of a change.
    pub(super) fn zeroed(&self) -> f64 {
        self.written.zeroed_bytes as f64 / self.changed_bytes as f64
    }
}

const fn overwrite(name: &'static str, live_percent: u64, of: f64, keys: Keys) -> Workload {
    let simulated_by_design = if of > 0.0 { Some(of) } else { None };
    Workload { name, live_percent, simulated_by_design, kind: Kind::Overwrite(keys) }
}

/// The simulation also had rows with 85 % of the log live. A real store refuses new items when four
/// fifths of its log are live, so these rows have 77 % here.
const FULL: u64 = 77;
const NOT_SIMULATED: f64 = 0.0;

impl Workload {
    pub(super) const ALL: [Self; 15] = [
        overwrite("uniform", 60, 1.5, Keys::All),
        overwrite("uniform", 75, 2.2, Keys::All),
        overwrite("uniform", FULL, NOT_SIMULATED, Keys::All),
        overwrite("zipf 0.99", 60, 2.1, Keys::Zipf),
        overwrite("zipf 0.99", 75, 3.3, Keys::Zipf),
        overwrite("zipf 0.99", FULL, NOT_SIMULATED, Keys::Zipf),
        overwrite("90 % of writes to 10 %", 60, 2.1, Keys::MostlyTenth),
        overwrite("90 % of writes to 10 %", 75, 3.0, Keys::MostlyTenth),
        overwrite("90 % of writes to 10 %", FULL, NOT_SIMULATED, Keys::MostlyTenth),
        overwrite("5 % hot, the rest static", 60, 2.3, Keys::OnlyTwentieth),
        overwrite("5 % hot, the rest static", 75, 3.5, Keys::OnlyTwentieth),
        overwrite("5 % hot, the rest static", FULL, NOT_SIMULATED, Keys::OnlyTwentieth),
        Self {
            name: "sessions that expire",
            live_percent: 50,
            simulated_by_design: Some(1.0),
            kind: Kind::Sessions,
        },
        Self {
            name: "insert and delete",
            live_percent: 75,
            simulated_by_design: Some(2.8),
            kind: Kind::Turnover,
        },
        Self {
            name: "mass delete, stored anew",
            live_percent: 75,
            simulated_by_design: Some(1.03),
            kind: Kind::MassRemoval,
        },
    ];

    /// Applies the sequence for a log of this size.
    pub(super) fn play(&self, target: &mut dyn Target, log_bytes: u64) -> Result<Played> {
        let log_records = log_bytes / RECORD_BYTES;
        let keys = log_records * self.live_percent / 100;
        let mut player = Player::new(target, keys);
        player.fill(matches!(self.kind, Kind::Sessions))?;
        match self.kind {
            // Before a mass removal, overwrites put the log into a realistic state.
            Kind::MassRemoval => player.overwrite(Keys::All, 2 * log_records)?,
            kind => player.go_on(kind, 2 * log_records)?,
        }
        let before = player.target.written()?;
        player.changed_bytes = 0;
        player.go_on(self.kind, 2 * log_records)?;
        let after = player.target.written()?;
        let written = Written {
            bytes: after.bytes - before.bytes,
            zeroed_bytes: after.zeroed_bytes - before.zeroed_bytes,
        };
        Ok(Played { changed_bytes: player.changed_bytes, written })
    }
}

/// Applies changes, and counts their bytes.
struct Player<'t> {
    target: &'t mut dyn Target,
    changed_bytes: u64,
    keys: u64,
    /// The number of the next new key.
    next_key: u64,
    /// The keys that a turnover may remove.
    present: Vec<u64>,
    draws: Draws,
    random: SmallRng,
}

/// Seconds that a session lives.
const SESSION_SECS: u32 = 100;

impl<'t> Player<'t> {
    fn new(target: &'t mut dyn Target, keys: u64) -> Self {
        Self {
            target,
            changed_bytes: 0,
            keys,
            next_key: 0,
            present: (0..keys).collect(),
            draws: Draws::new(1),
            random: SmallRng::seed_from_u64(1),
        }
    }

    fn put(&mut self, put: Put) -> Result<()> {
        self.changed_bytes += RECORD_BYTES;
        self.target.put(put)
    }

    fn put_new(&mut self, ttl_secs: Option<u32>) -> Result<()> {
        self.next_key += 1;
        self.put(Put { key: self.next_key - 1, is_new: true, ttl_secs })
    }

    fn remove(&mut self, key: u64) -> Result<()> {
        self.changed_bytes += TOMBSTONE_BYTES;
        self.target.remove(key)
    }

    fn fill(&mut self, are_sessions: bool) -> Result<()> {
        match are_sessions {
            true => self.begin_sessions(self.keys),
            false => (0..self.keys).try_for_each(|_| self.put_new(None)),
        }
    }

    /// Applies about this many puts.
    fn go_on(&mut self, kind: Kind, puts: u64) -> Result<()> {
        match kind {
            Kind::Overwrite(keys) => self.overwrite(keys, puts),
            Kind::Sessions => self.begin_sessions(puts),
            Kind::Turnover => self.turn_over(puts),
            Kind::MassRemoval => self.replace_most(),
        }
    }

    fn overwrite(&mut self, keys: Keys, puts: u64) -> Result<()> {
        let zipf = Zipf::new(self.keys as f64, 0.99)?;
        for _ in 0..puts {
            let key = match keys {
                Keys::All => self.draws.below(self.keys),
                Keys::Zipf => zipf.sample(&mut self.random) as u64 - 1,
                Keys::MostlyTenth if self.draws.below(10) == 0 => self.draws.below(self.keys),
                Keys::MostlyTenth => self.draws.below(self.keys / 10),
                Keys::OnlyTwentieth => self.draws.below(self.keys / 20),
            };
            self.put(Put { key, is_new: false, ttl_secs: None })?;
        }
        Ok(())
    }

    /// Puts sessions at a rate at which the number of live sessions is the number of keys.
    fn begin_sessions(&mut self, puts: u64) -> Result<()> {
        let each_second = (self.keys / u64::from(SESSION_SECS)).max(1);
        for _ in 0..puts {
            self.put_new(Some(SESSION_SECS))?;
            if self.next_key.is_multiple_of(each_second) {
                self.target.pass_second()?;
            }
        }
        Ok(())
    }

    fn turn_over(&mut self, puts: u64) -> Result<()> {
        for _ in 0..puts {
            let at = self.draws.below(self.keys) as usize;
            self.remove(self.present[at])?;
            self.present[at] = self.next_key;
            self.put_new(None)?;
        }
        Ok(())
    }

    fn replace_most(&mut self) -> Result<()> {
        let most = self.keys * 9 / 10;
        (0..most).try_for_each(|key| self.remove(key))?;
        (0..most).try_for_each(|key| self.put(Put { key, is_new: true, ttl_secs: None }))
    }
}
