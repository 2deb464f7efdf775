//! Regions for readers in other languages: files of caches with items of every form. Next to each
//! file is a JSON file with the content that this library reads from it.
//!
//! `cargo run --release -p larder --example region_cases -- FOLDER`
//!
//! The regions belong to this boot and this machine, so each test creates them again. Each line of
//! the JSON is a case: `{"key": hexadecimal, "found": true, "bytes": of the value, "fnv1a": its
//! 64-bit FNV-1a hash, "flags": …, "cas": …, "ttl_secs": 0 if it never expires, "stale": …, "won":
//! …}`.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use larder::{Builder, Cache, Clock, Deadline, StoreMode, StoreRequest};

type Outcome = Result<(), Box<dyn Error>>;

/// One test region: a cache in a separate file, and the keys that a reader must look up in it.
struct Scene {
    cache: Cache,
    path: PathBuf,
    keys: Vec<Vec<u8>>,
}

impl Scene {
    /// Creates a cache whose clock only this program moves, so that no test waits for expiry.
    fn begin(
        folder: &Path,
        name: &str,
        set_up: impl Fn(Builder) -> Builder,
    ) -> Result<Self, Box<dyn Error>> {
        let path = folder.join(format!("{name}.region"));
        let builder = Cache::builder().memory_bytes(8 << 20).clock(Clock::Ticked).shared(&path);
        Ok(Self { cache: set_up(builder).open()?, path, keys: Vec::new() })
    }

    /// Adds a key to look up, and stores it.
    fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Outcome {
        self.store(&StoreRequest::new(key.as_ref(), StoreMode::Set), value)
    }

    fn store(&mut self, request: &StoreRequest<'_>, value: impl AsRef<[u8]>) -> Outcome {
        self.ask_for(request.key);
        self.cache.store(request, value.as_ref())?;
        Ok(())
    }

    fn ask_for(&mut self, key: impl AsRef<[u8]>) {
        self.keys.push(key.as_ref().to_vec());
    }

    /// Writes that a reader must find no item, and closes the file. This cache must not look them
    /// up itself.
    fn end_unreadable(self) -> Outcome {
        let Self { cache: _cache, path, keys } = self;
        let line = |key: &Vec<u8>| {
            let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{{\"key\": \"{key}\", \"found\": false}}")
        };
        let lines: Vec<String> = keys.iter().map(line).collect();
        Ok(fs::write(path.with_extension("json"), format!("[\n{}\n]\n", lines.join(",\n")))?)
    }

    /// Writes the expected content, and closes the file.
    fn end(self) -> Outcome {
        let Self { cache, path, mut keys } = self;
        keys.sort_unstable();
        keys.dedup();
        let mut out = String::from("[\n");
        for (at, key) in keys.iter().enumerate() {
            let end = if at + 1 < keys.len() { "," } else { "" };
            writeln!(out, "{}{end}", case(&cache, key)?)?;
        }
        out.push_str("]\n");
        Ok(fs::write(path.with_extension("json"), out)?)
    }
}

fn case(cache: &Cache, key: &[u8]) -> Result<String, Box<dyn Error>> {
    let mut out = String::from("{\"key\": \"");
    for byte in key {
        write!(out, "{byte:02x}")?;
    }
    let (Some(meta), Some(value)) = (cache.peek(key), cache.get(key)) else {
        return Ok(out + "\", \"found\": false}");
    };
    let ttl_secs = match meta.deadline {
        Deadline::NEVER => 0,
        deadline => deadline.0 - cache.now(),
    };
    write!(
        out,
        "\", \"found\": true, \"bytes\": {}, \"fnv1a\": \"{:016x}\", \"flags\": {}, \"cas\": {}, \"ttl_secs\": {ttl_secs}, \
         \"stale\": {}, \"won\": {}}}",
        value.len(),
        fnv1a(&value),
        meta.flags,
        meta.cas,
        meta.stale,
        meta.token_sent,
    )?;
    Ok(out)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// Returns bytes that depend on their position and the seed.
fn value(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at + seed).wrapping_mul(0x9E37_79B9) >> 13) as u8).collect()
}

/// Values of all forms and lengths, with all kinds of metadata.
fn kinds(mut scene: Scene) -> Outcome {
    for bytes in (0..70).chain([100, 1000, 8000, 16_384, 16_385, 100_000, 700_000]) {
        scene.set(format!("of {bytes} bytes"), value(bytes, bytes))?;
    }
    for bytes in 1..=larder::KEY_BYTES_MAX {
        scene.set(value(bytes, 7), format!("under a key of {bytes} bytes"))?;
    }
    for (at, number) in ["0", "7", "99", "1000 ", "18446744073709551615"].iter().enumerate() {
        let key = format!("number {at}");
        scene.set(&key, number)?;
        scene.cache.increment(&key, 1)?;
        scene.cache.increment(&key, 3)?;
    }
    for times in [1, 2, 50] {
        let key = format!("appended {times} times");
        scene.set(&key, "begin")?;
        for time in 0..times {
            scene.cache.append(&key, format!(", {time}"))?;
        }
    }
    scene.set("large, appended", value(90_000, 1))?;
    scene.cache.append("large, appended", value(3000, 2))?;
    scene.cache.prepend("large, appended", "before")?;
    for (flags, ttl_secs) in [(0, 0), (7, 0), (0, 1000), (u32::MAX, 100_000), (1, 4_000_000_000)] {
        let ttl = Duration::from_secs(ttl_secs);
        let deadline = if ttl_secs > 0 { scene.cache.deadline_after(ttl) } else { Deadline::NEVER };
        for bytes in [10, 50_000] {
            let key = format!("flags {flags}, ttl {ttl_secs}, {bytes} bytes");
            let request = StoreRequest {
                flags,
                deadline,
                ..StoreRequest::new(key.as_bytes(), StoreMode::Set)
            };
            scene.store(&request, value(bytes, 3))?;
        }
    }
    scene.set("touched", "v")?;
    scene.cache.touch("touched", Some(Duration::from_secs(500)))?;
    for key in ["stale", "stale and won"] {
        scene.set(key, "old")?;
        scene.cache.mark_stale(key.as_bytes(), None, None, None)?;
    }
    if let Some(meta) = scene.cache.peek(b"stale and won") {
        scene.cache.claim(b"stale and won", meta.cas);
    }
    for round in 0..20 {
        scene.set("overwritten", format!("for the time {round}"))?;
    }
    scene.set("deleted", "v")?;
    scene.cache.delete("deleted")?;
    scene.ask_for("never stored");
    scene.cache.set("expired", "v", Some(Duration::from_secs(50)))?;
    scene.cache.set("large, expired", value(50_000, 4), Some(Duration::from_secs(50)))?;
    scene.ask_for("expired");
    scene.ask_for("large, expired");
    scene.cache.tick(scene.cache.now() + 60);
    scene.end()
}

/// Items stored before and after a flush.
fn flushed(mut scene: Scene) -> Outcome {
    for at in 0..100 {
        scene.set(format!("before {at}"), value(at, at))?;
    }
    scene.cache.clear();
    for at in 0..100 {
        scene.set(format!("after {at}"), value(at, at))?;
    }
    // Long after all readers have finished.
    scene.cache.clear_at(scene.cache.now() + 100_000);
    scene.end()
}

/// A flush that is due, but that no process has performed yet.
fn flush_due(mut scene: Scene) -> Outcome {
    for at in 0..100 {
        scene.set(format!("k{at}"), "v")?;
    }
    let now = scene.cache.now();
    scene.cache.clear_at(now + 1);
    scene.cache.tick(now + 1);
    scene.end_unreadable()
}

/// Copies of a near cache that may be read for an hour.
fn limited(mut scene: Scene) -> Outcome {
    for at in 0..100 {
        scene.set(format!("copy {at}"), value(at, at))?;
    }
    scene.cache.limit_readers(boot_ms()? + 3_600_000);
    scene.end()
}

/// Copies of a near cache that may not be read any more.
fn limit_passed(mut scene: Scene) -> Outcome {
    for at in 0..100 {
        scene.set(format!("copy {at}"), value(at, at))?;
    }
    scene.cache.limit_readers(boot_ms()? + 50);
    thread::sleep(Duration::from_millis(100));
    scene.end_unreadable()
}

/// Copies of a near cache that has lost its change stream.
fn limit_ended(mut scene: Scene) -> Outcome {
    scene.set("copy", "v")?;
    scene.cache.limit_readers(0);
    scene.end_unreadable()
}

/// Returns the time since the boot.
fn boot_ms() -> Result<u64, Box<dyn Error>> {
    let uptime = fs::read_to_string("/proc/uptime")?;
    let secs: f64 = uptime.split(' ').next().unwrap_or_default().parse()?;
    Ok((secs * 1000.0) as u64)
}

/// Stores several times as many items as fit into memory.
fn evicted(mut scene: Scene) -> Outcome {
    for at in 0..30_000 {
        let bytes = if at % 100 == 0 { 40_000 } else { at % 900 };
        scene.set(format!("k{at}"), value(bytes, at))?;
        if at % 3 == 0 {
            scene.cache.get(format!("k{}", at / 2));
        }
    }
    scene.end()
}

/// Stores enough small items that the index grows and some groups have overflow groups.
fn grown(mut scene: Scene) -> Outcome {
    let at_first = scene.cache.report().groups;
    for at in 0..60_000 {
        scene.set(format!("key {at}"), at.to_string())?;
    }
    let report = scene.cache.report();
    if report.groups < 4 * at_first || report.overflow_groups == 0 {
        return Err(format!("the index did not grow as expected: {report:?}").into());
    }
    scene.end()
}

/// Writes all regions.
pub(crate) fn main() -> Outcome {
    let folder = env::args_os().nth(1).ok_or("usage: region_cases FOLDER")?;
    write_to(Path::new(&folder))
}

/// Writes all regions to a folder.
pub(crate) fn write_to(folder: &Path) -> Outcome {
    let begin = |name| Scene::begin(folder, name, |builder| builder.cas(true));
    kinds(begin("kinds")?)?;
    kinds(Scene::begin(folder, "kinds_without_cas", |builder| builder.cas(false))?)?;
    kinds(Scene::begin(folder, "kinds_in_long_segments", |builder| {
        builder.memory_bytes(64 << 20)
    })?)?;
    // The tables of additional processes are outside the memory.
    for (name, processes) in [("kinds_for_few", 3), ("kinds_for_4096", 4096)] {
        kinds(Scene::begin(folder, name, |builder| builder.processes_max(processes))?)?;
    }
    flushed(begin("flushed")?)?;
    flush_due(begin("flush_due")?)?;
    limited(begin("limited")?)?;
    limit_passed(begin("limit_passed")?)?;
    limit_ended(begin("limit_ended")?)?;
    evicted(begin("evicted")?)?;
    grown(begin("grown")?)
}
