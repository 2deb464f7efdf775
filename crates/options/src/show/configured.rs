//! The options in effect, each with its source, for programs that show them.

use crate::given::values::{GivenValue, Values};
use crate::table::Id;
use crate::table::kind::{Kind, MEBIBYTE, Value};
use crate::table::row::Group;
use crate::typed::options::Options;

/// An option in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredOption {
    /// Its name in a TOML file.
    pub name: &'static str,
    /// Its value as in a TOML file; `None`: it is not set.
    pub value: Option<String>,
    /// The unit of its value; `None` if the value has no unit, or contains it, such as `64m`.
    pub unit: Option<&'static str>,
    /// The source of its value: `default`, `command line`, `environment`, or a file with the line.
    /// If the value is a percentage, also the bytes that it means.
    pub origin: Option<String>,
    /// Its effect, in a sentence.
    pub doc: &'static str,
}

/// Returns the options with which a server or a cache was started. Clients can change some of them
/// later; [`settings`](crate::settings) returns the current values.
pub fn configured(options: &Options) -> Vec<ConfiguredOption> {
    of(&options.accepted.0).collect()
}

/// Returns the options of the table that can be set, in its order.
pub(crate) fn of(values: &Values) -> impl Iterator<Item = ConfiguredOption> {
    let is_shown = |id: &&Id| !matches!(id.row().group, Group::Reading | Group::Refused(_));
    Id::ALL.iter().filter(is_shown).map(|id| {
        let (row, given) = (id.row(), values.given(*id));
        ConfiguredOption {
            name: row.name,
            value: given.map(|given| row.kind.toml(&given.value)),
            unit: given.and_then(|given| unit(*id, &given.value)),
            origin: given.map(GivenValue::origin_text),
            doc: row.doc,
        }
    })
}

/// Returns the unit of a value, as [`Kind::toml`] writes it.
fn unit(id: Id, value: &Value) -> Option<&'static str> {
    match (id.row().kind, value) {
        (Kind::Memory { .. }, Value::Bytes(bytes)) if bytes % MEBIBYTE == 0 => Some("MiB"),
        (Kind::Bytes { unit, .. }, Value::Bytes(bytes)) if bytes % unit == 0 => match unit {
            1 => Some("bytes"),
            0x400 => Some("KiB"),
            0x10_0000 => Some("MiB"),
            _ => None,
        },
        _ => UNITS.iter().find(|(of, _)| *of == id).map(|(_, unit)| *unit),
    }
}

/// The units of options that take a plain number.
const UNITS: &[(Id, &str)] = &[
    (Id::DrainGrace, "s"),
    (Id::DumpSecs, "s"),
    (Id::ExtItemAge, "s"),
    (Id::ExtItemSize, "bytes"),
    (Id::ExtLowTtl, "s"),
    (Id::ExtMaxSleep, "µs"),
    (Id::ExtPageSize, "MiB"),
    (Id::ExtWbufSize, "MiB"),
    (Id::IdleTimeout, "s"),
    (Id::LruCrawlerSleep, "µs"),
    (Id::ReadBufMemLimit, "MiB"),
    (Id::RestoreSecs, "s"),
    (Id::RestoreTtl, "s"),
    (Id::SlabMinSize, "bytes"),
    (Id::SslWbufSize, "KiB"),
    (Id::TailRepairTime, "s"),
    (Id::TemporaryTtl, "s"),
    (Id::TierStopSecs, "s"),
    (Id::TierWaitSecs, "s"),
    (Id::UpgradeDrain, "s"),
    (Id::WatcherLogbufSize, "KiB"),
    (Id::WorkerLogbufSize, "KiB"),
];

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_number_whose_effect_names_a_unit_has_one() {
        // A small number means KiB, a large one bytes: see `Slabs`.
        let ambiguous = [Id::SlabChunkMax];
        let words = [" in MiB", " in KiB", "seconds", "bytes of", "in bytes"];
        for id in Id::ALL.iter().filter(|id| !ambiguous.contains(id)) {
            let row = id.row();
            let is_number = matches!(row.kind, Kind::Number { .. });
            if is_number && words.iter().any(|word| row.doc.contains(word)) {
                let unit = unit(*id, &Value::Number(1));
                assert!(unit.is_some(), "{}: its unit is missing in UNITS", row.name);
            }
            if let Kind::Bytes { unit: bytes, .. } = row.kind {
                assert!(unit(*id, &Value::Bytes(bytes)).is_some(), "{}", row.name);
            }
        }
    }

    #[test]
    fn a_value_that_names_its_unit_has_no_other() {
        assert_eq!(unit(Id::MemoryLimit, &Value::Bytes(64 << 20)), Some("MiB"));
        assert_eq!(unit(Id::MemoryLimit, &Value::Bytes(1536 << 10)), None);
        assert_eq!(unit(Id::Threads, &Value::Number(4)), None);
    }
}
