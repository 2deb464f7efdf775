//! Runs the scenes of conformance/api on any interface to a cache. A scene is a list of steps, and
//! a step an operation with its expected result; conformance/api/README.md describes them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// An interface to a cache on which scenes are played, such as the library in Rust or in C. The
/// `String` of a result is the name of the outcome in the scenes, such as `ok` or `missing`.
pub trait FrontDoor {
    /// Returns a value with its TTL in seconds (0 means that it never expires) and its cas token.
    fn get(&mut self, key: &[u8]) -> (String, Option<Got>);
    /// Stores with one of `set`, `add`, `replace`, `append`, `prepend`.
    fn store(&mut self, how: &str, key: &[u8], item: &ToStore<'_>) -> String;
    /// Stores an item if the current one has this cas token: compare and set.
    fn swap(&mut self, key: &[u8], item: &ToStore<'_>, token: u64) -> String;
    /// Removes an item.
    fn delete(&mut self, key: &[u8]) -> String;
    /// Sets the TTL of an item.
    fn touch(&mut self, key: &[u8], ttl: u32) -> String;
    /// Increments or decrements a counter.
    fn count(&mut self, up: bool, key: &[u8], delta: u64) -> (String, Option<u64>);
    /// Returns several values with their flags.
    fn get_many(&mut self, keys: &[Vec<u8>]) -> Vec<Option<(Vec<u8>, u32)>>;
    /// Returns all keys with a prefix.
    fn keys(&mut self, prefix: &[u8]) -> Vec<Vec<u8>>;
    /// Removes all keys with a prefix.
    fn remove_prefix(&mut self, prefix: &[u8]) -> (String, Option<u64>);
    /// Removes all items.
    fn clear(&mut self);
    /// Returns the number of items.
    fn length(&mut self) -> u64;
    /// Adds to a signed counter.
    fn add_signed(&mut self, key: &[u8], delta: i64, ttl: u32) -> (String, Option<i64>);
    /// Sets a signed counter to `new` if its number is `old`.
    fn cas_signed(&mut self, key: &[u8], old: i64, new: i64) -> String;
    /// Takes a lease, and returns the token with which [`FrontDoor::release`] ends it.
    fn lease(&mut self, key: &[u8], ms: u32) -> (String, [u64; 4]);
    /// Releases a lease.
    fn release(&mut self, key: &[u8], lease: [u64; 4]) -> String;
    /// Returns the metadata of all items with a prefix: keys, and the lengths of the values.
    fn reports(&mut self, prefix: &[u8]) -> Vec<(Vec<u8>, u64)>;
    /// Closes the cache. With a disk tier, all items are then on the disk.
    fn close(self);
}

/// The settings of a scene's cache, which has 8 MiB of memory.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// True if items have cas tokens.
    pub cas: bool,
    /// The disk tier, which has 64 MiB of memory for changes that are not durable yet; `None`
    /// without a disk tier.
    pub tier: Option<TierSettings>,
}

/// The disk tier of a scene's cache.
#[derive(Clone, Debug)]
pub struct TierSettings {
    /// The directory.
    pub path: PathBuf,
    /// The size of the log.
    pub bytes: u64,
    /// True for the mode `cache`, false for the mode `store`.
    pub is_cache: bool,
}

/// The result of a get.
#[derive(Clone, Debug)]
pub struct Got {
    /// The bytes.
    pub value: Vec<u8>,
    /// The TTL in seconds; 0 if the item never expires.
    pub ttl: u32,
    /// The cas token.
    pub token: u64,
    /// The flags.
    pub flags: u32,
}

/// The data that a step stores.
#[derive(Clone, Copy, Debug)]
pub struct ToStore<'a> {
    /// The bytes.
    pub value: &'a [u8],
    /// The TTL in seconds; 0 if the item never expires.
    pub ttl: u32,
    /// The flags.
    pub flags: u32,
}

/// Runs all scenes. `open` returns a cache, or the reason why it cannot be opened.
///
/// # Errors
/// Names the first step whose result differs from the scene.
pub fn play<D: FrontDoor>(open: impl Fn(&Settings) -> Result<D, String>) -> Result<usize> {
    play_those(|_| true, open)
}

/// Runs the scenes that are also valid for a client of a server, which are marked with `server`.
///
/// # Errors
/// Same as [`play`].
pub fn play_on_server<D: FrontDoor>(
    open: impl Fn(&Settings) -> Result<D, String>,
) -> Result<usize> {
    play_those(|scene| scene["server"] == true, open)
}

fn play_those<D: FrontDoor>(
    is_played: impl Fn(&Value) -> bool,
    open: impl Fn(&Settings) -> Result<D, String>,
) -> Result<usize> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/api/cases.json");
    let scenes: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    let scenes = scenes.as_array().context("cases.json is a list of scenes")?;
    let scenes: Vec<&Value> = scenes.iter().filter(|scene| is_played(scene)).collect();
    for scene in &scenes {
        let mut stage = Stage::new(&open, scene)?;
        for step in scene["steps"].as_array().context("a scene has steps")? {
            stage.play(step).with_context(|| format!("{}: {step}", scene["name"]))?;
        }
    }
    Ok(scenes.len())
}

/// The cache of a scene.
struct Stage<'a, D, O> {
    open: &'a O,
    settings: Settings,
    door: Option<D>,
    folder: TempDir,
    /// The last lease that was taken.
    lease: [u64; 4],
}

impl<'a, D: FrontDoor, O: Fn(&Settings) -> Result<D, String>> Stage<'a, D, O> {
    fn new(open: &'a O, scene: &Value) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let cas = scene["cas"] == true;
        let settings = with_tier(&Settings { cas, tier: None }, scene, folder.path());
        let door = Some(open(&settings).map_err(anyhow::Error::msg)?);
        Ok(Self { open, settings, door, folder, lease: [0; 4] })
    }

    fn play(&mut self, step: &Value) -> Result<()> {
        match step["op"].as_str() {
            Some("reopen") => {
                self.door.take().into_iter().for_each(D::close);
                self.door = self.open(step)?;
                Ok(())
            }
            Some("open_another") => {
                self.open(step)?.into_iter().for_each(D::close);
                Ok(())
            }
            _ => {
                let door = self.door.as_mut().context("no cache is open")?;
                self::step(door, step, &mut self.lease)
            }
        }
    }

    /// Opens a cache with the settings of the scene and of the step.
    fn open(&self, step: &Value) -> Result<Option<D>> {
        let settings = with_tier(&self.settings, step, self.folder.path());
        match (self.open)(&settings) {
            Ok(door) => {
                ensure!(step["want"] == "ok", "it was opened");
                Ok(Some(door))
            }
            Err(why) => {
                ensure!(step["want"] == "not_opened", "the reason is {why}");
                ensure!(why.contains(step["why"].as_str().unwrap_or_default()), "{why}");
                Ok(None)
            }
        }
    }
}

/// Returns the settings with the disk tier that a scene or a step requests.
fn with_tier(settings: &Settings, asked: &Value, folder: &Path) -> Settings {
    let mut settings = settings.clone();
    if let Some(mode) = asked["tier"].as_str() {
        let (path, is_cache) = (folder.join("tier"), mode == "cache");
        let bytes = asked["tier_bytes"].as_u64().unwrap_or(64 << 20);
        settings.tier = Some(TierSettings { path, bytes, is_cache });
    }
    settings
}

fn step(door: &mut impl FrontDoor, step: &Value, lease: &mut [u64; 4]) -> Result<()> {
    let key = repeated(step, "key", "times");
    let value = repeated(step, "value", "value_times");
    let ttl = u32::try_from(step["ttl"].as_u64().unwrap_or(0))?;
    let flags = u32::try_from(step["flags"].as_u64().unwrap_or(0))?;
    let item = ToStore { value: &value, ttl, flags };
    let mut returned = None;
    let outcome = match step["op"].as_str().context("a step has an op")? {
        "get" => {
            let (outcome, got) = door.get(&key);
            if let Some(got) = got {
                check_got(step, &got, &value)?;
            }
            outcome
        }
        how @ ("set" | "add" | "replace" | "append" | "prepend") => door.store(how, &key, &item),
        "swap" => {
            let its = door.get(&key).1.map_or(0, |got| got.token);
            door.swap(&key, &item, if step["token"] == "its" { its } else { its + 12345 })
        }
        "delete" => door.delete(&key),
        "touch" => door.touch(&key, ttl),
        op @ ("increment" | "decrement") => {
            let (outcome, number) =
                door.count(op == "increment", &key, step["delta"].as_u64().unwrap_or(1));
            returned = number;
            outcome
        }
        "get_many" => {
            check_many(door, step)?;
            "ok".to_owned()
        }
        "keys" => {
            let mut keys = door.keys(&repeated(step, "prefix", ""));
            keys.sort();
            let keys: Vec<_> = keys.into_iter().map(Some).collect();
            ensure!(keys == list(&step["keys"]), "the keys are {}", shown(&keys));
            "ok".to_owned()
        }
        "remove_prefix" => {
            let (outcome, number) = door.remove_prefix(&repeated(step, "prefix", ""));
            returned = number;
            outcome
        }
        "fill" => numbered(step, |key| {
            door.store("set", key, &ToStore { value: &[key, &value].concat(), ttl: 0, flags: 0 })
        }),
        "check" => numbered(step, |key| match door.get(key) {
            (_, Some(got)) if got.value != [key, &value].concat() => "another value".to_owned(),
            (outcome, _) => outcome,
        }),
        "clear" => {
            door.clear();
            "ok".to_owned()
        }
        "length" => {
            returned = Some(door.length());
            "ok".to_owned()
        }
        _ => extra_step(door, step, &key, ttl, lease)?,
    };
    ensure!(step["want"] == outcome.as_str(), "the outcome is {outcome}");
    ensure!(
        step["number"].is_null() || step["number"].as_u64() == returned,
        "the number is {returned:?}"
    );
    Ok(())
}

/// Runs a step of a scene marked with `extra`: its operations are optional for a binding.
fn extra_step(
    door: &mut impl FrontDoor,
    step: &Value,
    key: &[u8],
    ttl: u32,
    lease: &mut [u64; 4],
) -> Result<String> {
    let number = |field: &str| step[field].as_i64().unwrap_or(0);
    match step["op"].as_str() {
        Some("lease") => {
            let (outcome, taken) = door.lease(key, u32::try_from(number("ms"))?);
            if outcome == "ok" {
                *lease = taken;
            }
            Ok(outcome)
        }
        Some("release") => Ok(door.release(key, *lease)),
        Some("add_signed") => {
            let (outcome, found) = door.add_signed(key, number("by"), ttl);
            ensure!(step["signed"].as_i64() == found, "the number is {found:?}");
            Ok(outcome)
        }
        Some("cas_signed") => Ok(door.cas_signed(key, number("old"), number("new"))),
        Some("reports") => {
            let mut found = door.reports(&repeated(step, "prefix", ""));
            found.sort();
            let (keys, sizes): (Vec<_>, Vec<_>) = found.into_iter().unzip();
            let keys: Vec<_> = keys.into_iter().map(Some).collect();
            ensure!(keys == list(&step["keys"]), "the keys are {}", shown(&keys));
            ensure!(step["sizes"] == Value::from(sizes.clone()), "the sizes are {sizes:?}");
            Ok("ok".to_owned())
        }
        op => anyhow::bail!("unknown op {op:?}"),
    }
}

/// Calls `act` for as many keys as the step specifies, until the outcome is not `ok`.
fn numbered(step: &Value, mut act: impl FnMut(&[u8]) -> String) -> String {
    let name = step["key"].as_str().unwrap_or_default();
    (0..step["count"].as_u64().unwrap_or(0))
        .map(|number| act(format!("{name}{number}").as_bytes()))
        .find(|outcome| outcome != "ok")
        .unwrap_or_else(|| "ok".to_owned())
}

/// Looks up several keys, and compares their values and flags with the step.
fn check_many(door: &mut impl FrontDoor, step: &Value) -> Result<()> {
    let keys: Vec<_> = list(&step["keys"]).into_iter().flatten().collect();
    let found = door.get_many(&keys);
    let flags: Vec<_> = found.iter().map(|got| got.as_ref().map(|got| got.1)).collect();
    let values: Vec<_> = found.into_iter().map(|got| Some(got?.0)).collect();
    ensure!(values == list(&step["values"]), "the values are {}", shown(&values));
    let is_so = step["all_flags"].is_null() || step["all_flags"] == Value::from(flags.clone());
    ensure!(is_so, "the flags are {flags:?}");
    Ok(())
}

fn check_got(step: &Value, got: &Got, value: &[u8]) -> Result<()> {
    ensure!(got.value == value, "the value is {}", shown(&[Some(got.value.clone())]));
    let flags = step["flags"].as_u64();
    ensure!(flags.is_none_or(|flags| flags == u64::from(got.flags)), "its flags are {}", got.flags);
    let Some(ttl) = step["ttl"].as_u64() else {
        return Ok(());
    };
    let may_be = if ttl == 0 { 0..=0 } else { ttl - 2..=ttl };
    ensure!(may_be.contains(&u64::from(got.ttl)), "it has {} seconds to live", got.ttl);
    Ok(())
}

/// Returns the bytes of a field, repeated as many times as another field specifies.
fn repeated(step: &Value, field: &str, times: &str) -> Vec<u8> {
    let times = step[times].as_u64().unwrap_or(1);
    step[field].as_str().unwrap_or_default().repeat(times as usize).into_bytes()
}

fn list(values: &Value) -> Vec<Option<Vec<u8>>> {
    let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
    values.iter().map(|value| value.as_str().map(|text| text.as_bytes().to_vec())).collect()
}

fn shown(values: &[Option<Vec<u8>>]) -> String {
    values.iter().fold(String::new(), |mut text, value| {
        let bytes = value.as_ref().map_or_else(
            || "none".into(),
            |value| value[..value.len().min(40)].escape_ascii().to_string(),
        );
        let _ = write!(text, "{bytes} ");
        text
    })
}
