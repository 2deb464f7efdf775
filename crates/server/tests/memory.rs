//! The process stays within `-m` and a constant, whatever it is filled with.

use std::io::Write;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use larder_testkit::server::larderd;
use larder_testkit::{ServerUnderTest, Stream, Transport};

const MIB: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 64 * MIB;
/// Code, stacks, buffers of connections and the allocator's slack.
const CONSTANT_BYTES: u64 = 24 * MIB;

/// Keys and value lengths that look random and are the same in every run.
struct Stores {
    state: u64,
}

impl Stores {
    fn next(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % below
    }

    /// Stores values of these lengths under so many keys until they come to so many bytes.
    fn send(
        &mut self,
        stream: &mut Stream,
        lengths: Range<u64>,
        key_count: u64,
        bytes: u64,
    ) -> Result<()> {
        let value = vec![b'v'; usize::try_from(lengths.end)?];
        let mut sent_bytes = 0;
        while sent_bytes < bytes {
            let mut batch = Vec::new();
            while batch.len() < 100_000 {
                let key = self.next(key_count);
                if self.next(10) == 0 {
                    write!(batch, "delete key{key} noreply\r\n")?;
                    continue;
                }
                let length = lengths.start + self.next(lengths.end - lengths.start);
                write!(batch, "set key{key} 0 0 {length} noreply\r\n")?;
                batch.extend_from_slice(&value[..usize::try_from(length)?]);
                batch.extend_from_slice(b"\r\n");
            }
            stream.write_all(&batch)?;
            sent_bytes += batch.len() as u64;
        }
        stream.ask(b"version\r\n", b"\r\n")?;
        Ok(())
    }
}

fn stat(stream: &mut Stream, name: &str) -> Result<u64> {
    let stats = String::from_utf8(stream.ask(b"stats\r\n", b"END\r\n")?)?;
    let value = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    Ok(value.with_context(|| format!("no {name} in {stats}"))?.parse()?)
}

#[test]
fn a_server_filled_several_times_over_takes_no_more_than_it_may() -> Result<()> {
    let binary = larderd(env!("CARGO_BIN_EXE_larderd"));
    let server = ServerUnderTest::start(&binary, Transport::Unix, &["-m", "64"])?;
    let mut stream = server.connect()?;
    let mut stores = Stores { state: 1 };
    for (lengths, key_count) in [
        (0..100, 2_000_000),
        (100..5_000, 100_000),
        (5_000..100_000, 5_000),
        (100_000..1_000_000, 500),
        (0..200, 2_000_000),
        (0..1_000_000, 1_000),
        (0..20_000, 50_000),
    ] {
        stores.send(&mut stream, lengths.clone(), key_count, 3 * LIMIT_BYTES)?;
        let rss_bytes = server.rss_bytes()?;
        ensure!(
            rss_bytes <= LIMIT_BYTES + CONSTANT_BYTES,
            "{} MiB after values of {lengths:?} bytes",
            rss_bytes / MIB
        );
        let bytes = stat(&mut stream, "bytes")?;
        ensure!(
            (LIMIT_BYTES / 4..=LIMIT_BYTES).contains(&bytes),
            "{bytes} bytes of items after values of {lengths:?} bytes"
        );
    }
    ensure!(stat(&mut stream, "evictions")? > 0, "all of that should not fit");
    Ok(())
}
