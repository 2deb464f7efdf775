//! The options of a server, and the items of a full server.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use larder_testkit::{ServerUnderTest, Stream, Transport};

use crate::load::{self, Load};

pub(crate) struct Case {
    pub(crate) memory_mib: u64,
    /// True if items have cas tokens (false: `-C`).
    pub(crate) cas: bool,
    /// Seconds after which items expire; 0 if they never expire.
    pub(crate) exptime: u32,
}

/// The counts of a full server.
pub(crate) struct Held {
    /// Items according to the server's counter.
    pub(crate) curr_items: u64,
    /// Items that can be read.
    pub(crate) readable: u64,
    /// Resident memory of the process, in bytes.
    pub(crate) rss_bytes: u64,
}

impl Case {
    pub(crate) const ALL: &[Self] = &[
        Self { memory_mib: 64, cas: true, exptime: 0 },
        Self { memory_mib: 64, cas: false, exptime: 0 },
        Self { memory_mib: 64, cas: true, exptime: 86_400 },
        Self { memory_mib: 256, cas: true, exptime: 0 },
        Self { memory_mib: 256, cas: false, exptime: 0 },
    ];

    /// Starts the server, fills it, counts its items and stops it.
    pub(crate) fn measure(&self, binary: &Path) -> Result<Held> {
        let memory_mib = self.memory_mib.to_string();
        let mut args = vec!["-t", "1", "-m", &memory_mib];
        if !self.cas {
            args.push("-C");
        }
        let server = ServerUnderTest::start(binary, Transport::Unix, &args)?;
        let mut stream = server.connect()?;
        // Three times as many items as would fit without any overhead.
        let items = 3 * (self.memory_mib << 20) / load::ITEM_BYTES;
        let load = Load { items, exptime: self.exptime };
        load.store(&mut stream)?;
        let curr_items = statistic(&mut stream, "curr_items")?;
        let readable = load.count_readable(&mut stream)?;
        let rss_bytes = server.rss_bytes()?;
        ensure!(
            readable > 0 && readable < items,
            "{readable} of {items} items: the server is not full"
        );
        Ok(Held { curr_items, readable, rss_bytes })
    }
}

/// Returns a number from `stats`.
fn statistic(stream: &mut Stream, name: &str) -> Result<u64> {
    let answer = String::from_utf8(stream.ask(b"stats\r\n", b"END\r\n")?)?;
    let mut words = answer.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    let found = words.find(|(found, _)| *found == name);
    let (_, value) = found.with_context(|| format!("the server has no statistic {name}"))?;
    Ok(value.trim().parse()?)
}
