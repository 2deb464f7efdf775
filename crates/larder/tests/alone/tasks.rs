//! The threads of a process whose tasks load.

use std::convert::Infallible;
use std::fs::read_dir;
use std::sync::Arc;
use std::time::Duration;

use larder::{Cache, LoadOptions};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::turn;

const FOREVER: LoadOptions = LoadOptions::new();
const LOADS: usize = 1000;

/// Half of the tasks load, and the others wait for them.
#[test]
fn a_thousand_loads_in_tasks_and_their_callers_start_no_thread() {
    let _turn = turn();
    let threads = || read_dir("/proc/self/task").unwrap().count();
    let cache = Cache::builder().memory_bytes(16 << 20).open().unwrap();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let before = threads();
    let (begun, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..2 * LOADS)
            .map(|number| {
                let (cache, begun, gate) = (cache.clone(), Arc::clone(&begun), Arc::clone(&gate));
                tokio::spawn(async move {
                    let load = || async move {
                        begun.add_permits(1);
                        let _ended = gate.acquire().await;
                        Ok::<_, Infallible>("value")
                    };
                    let key = (number % LOADS).to_le_bytes();
                    cache.get_or_load_async(key, &FOREVER, load).await
                })
            })
            .collect();
        while begun.available_permits() < LOADS {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(threads(), before, "during {LOADS} loads");
        gate.add_permits(LOADS);
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap(), b"value");
        }
    });
    assert_eq!((threads(), cache.len()), (before, LOADS as u64));
}
