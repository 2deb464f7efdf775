//! The cost of a shared cache for one process, depending on the number of other processes.
//!
//! The other processes, the *peers*, run this program. They attach to the cache, store and read an
//! item, and wait. A *scene* is a cache in a separate file with a fixed number of peers. In some
//! scenes the peers leave or are killed before the measurement. The scenes take turns, slice by
//! slice, so that drift of the machine's speed affects all of them.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use larder::Cache;

use crate::workload::{Measured, Operation, Popularity, VALUE_BYTES, Workload, clean_ns, measure};

/// The first argument of a peer's process. The second argument is the file of the cache.
const FLAG: &str = "--peer";
/// The smallest memory with which a cache supports all peers.
const MEMORY_BYTES: u64 = 256 << 20;
/// Items for lookups and for sets that overwrite.
const HOT_ITEMS: u64 = 10_000;
/// Items for sets that evict: about four times as many as fit in the memory.
const COLD_ITEMS: u64 = 4 * MEMORY_BYTES / 140;

/// What happens to the other peers of a scene before the measurement.
#[derive(Clone, Copy)]
enum End {
    Stay,
    Leave,
    Die,
}

/// The name of each scene, the number of its peers, and their end.
const SCENES: [(&str, usize, End); 7] = [
    ("1", 1, End::Stay),
    ("16", 16, End::Stay),
    ("64", 64, End::Stay),
    ("200", 200, End::Stay),
    ("1, 199 left", 200, End::Leave),
    ("1, 199 killed", 200, End::Die),
    // Same as the first scene, to show the noise of a ratio.
    ("1 again", 1, End::Stay),
];

/// A cache in a file with its peers.
struct Scene {
    name: &'static str,
    cache: Cache,
    folder: PathBuf,
    peers: Vec<Child>,
}

impl Scene {
    fn new((name, count, end): (&'static str, usize, End), folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).expect("the folder of shared memory can be written");
        let path = folder.join("cache");
        let cache = open(&path);
        let mut peers: Vec<Child> = (1..count).map(|_| start(&path)).collect();
        peers.iter_mut().for_each(|peer| {
            let ready = peer.stdout.as_mut().expect("it is piped").read_exact(&mut [0]);
            ready.expect("a peer can attach");
        });
        match end {
            End::Stay => {}
            End::Leave => peers.drain(..).for_each(leave),
            End::Die => peers.drain(..).for_each(|mut peer| {
                peer.kill().expect("the peer runs");
                peer.wait().expect("the peer ends");
            }),
        }
        Self { name, cache, folder, peers }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.peers.drain(..).for_each(leave);
        // If the folder remains, the next run reports it, at the latest when memory runs out.
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Prints the time of each operation by number of peers, and its ratio to that of a single peer.
pub(crate) fn print_peers(workload: Workload, is_measuring: bool) {
    let scenes = if is_measuring { &SCENES[..] } else { &SCENES[..2] };
    let scenes: Vec<Scene> =
        (0..).zip(scenes).map(|(at, scene)| Scene::new(*scene, folder(at))).collect();
    println!();
    println!("a file of {} MiB and its peers: ns/op of one of them, and", MEMORY_BYTES >> 20);
    println!("ratio: the time / that of a single peer");
    println!("operation      peers              ns/op  ratio  clean");
    let hot = Workload { items: HOT_ITEMS, popularity: Popularity::Even, ..workload };
    let cold = Workload { items: COLD_ITEMS, ..hot };
    scenes.iter().for_each(|scene| scene.cache.fill(HOT_ITEMS, VALUE_BYTES));
    print_rows("get", &scenes, Operation::Get, hot);
    print_rows("set, hot", &scenes, Operation::Set(VALUE_BYTES), hot);
    // Fills the caches first, so that every set evicts.
    scenes.iter().for_each(|scene| scene.cache.fill(COLD_ITEMS, VALUE_BYTES));
    print_rows("set, evicting", &scenes, Operation::Set(VALUE_BYTES), cold);
}

fn print_rows(name: &str, scenes: &[Scene], operation: Operation, workload: Workload) {
    let mut slices: Vec<Vec<_>> = scenes.iter().map(|_| Vec::new()).collect();
    for round in 0..workload.rounds {
        for (scene, slices) in scenes.iter().zip(&mut slices) {
            slices.push(measure(&[&scene.cache], operation, workload, round));
        }
    }
    let (alone, _) = clean_ns(&slices[0]);
    for (scene, slices) in scenes.iter().zip(&slices) {
        let (ns, clean) = clean_ns(slices);
        println!("{name:<14} {:<16} {ns:>7.1} {:>6.3}   {clean:.2}", scene.name, ns / alone);
    }
}

/// Returns a folder in memory, so that the bench does not write to a disk.
fn folder(number: usize) -> PathBuf {
    Path::new("/dev/shm").join(format!("larder-bench-{}-{number}", std::process::id()))
}

fn open(path: &Path) -> Cache {
    let builder = Cache::builder().shared(path).memory_bytes(MEMORY_BYTES);
    builder.open().expect("the machine has memory for all files")
}

fn start(path: &Path) -> Child {
    let program = std::env::current_exe().expect("the system reports the path of the program");
    let mut peer = Command::new(program);
    peer.arg(FLAG).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    peer.spawn().expect("a process can be started")
}

/// Ends a peer, which closes its cache, and waits for it.
fn leave(mut peer: Child) {
    drop(peer.stdin.take());
    peer.wait().expect("the peer ends");
}

/// If the bench has started this process as a peer, attaches to the cache, waits until the bench
/// asks it to end, and returns true. The caller then has nothing left to do.
pub(crate) fn has_been_one() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, path] = &arguments[..] else { return false };
    if flag != FLAG {
        return false;
    }
    let cache = open(Path::new(path));
    cache.fill(1, VALUE_BYTES);
    assert_eq!(cache.held(1, VALUE_BYTES), 1, "nothing is evicted yet");
    std::io::stdout().write_all(b"!").and_then(|()| std::io::stdout().flush()).expect("is open");
    // The read returns when the parent closes the pipe, or ends for any reason.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("stdin is a pipe");
    true
}
