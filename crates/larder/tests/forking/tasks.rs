//! Loads in tasks of several processes: the lease of the key decides which one loads.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::time::{Duration, Instant};

use larder::{Cache, LoadError, LoadOptions};
use larder_testkit::children::{Child, Word, fork};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

const FOREVER: LoadOptions = LoadOptions::new();

fn shared() -> Cache {
    Cache::builder().memory_bytes(4 << 20).anonymous_shared(true).open().unwrap()
}

/// A runtime of one thread. Each process creates it after it was forked.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

async fn never() -> Result<&'static str, Infallible> {
    panic!("the loader was called although another process loads");
}

/// A child whose task loads the key `k` and ends when it hears the second word.
fn loading(
    cache: &Cache,
    begun: &Word,
    go: &Word,
    result: Result<&'static str, &'static str>,
) -> Child {
    fork(|| {
        let loaded = runtime().block_on(cache.get_or_load_async("k", &FOREVER, || async {
            begun.say(1);
            go.hear();
            result
        }));
        i32::from(loaded.is_ok() != result.is_ok())
    })
}

#[test]
fn one_task_of_all_processes_loads() {
    let cache = shared();
    cache.set("loads", "0", None).unwrap();
    let begin = Word::new();
    let children: Vec<Child> = (0..4)
        .map(|_| {
            fork(|| {
                begin.hear();
                let runtime = runtime();
                for key in 0..50_u32 {
                    let load = || async {
                        cache.increment("loads", 1).unwrap();
                        sleep(Duration::from_millis(2)).await;
                        Ok::<_, Infallible>("value")
                    };
                    let key = format!("key {key}");
                    let loaded = runtime.block_on(cache.get_or_load_async(&key, &FOREVER, load));
                    if loaded.unwrap() != b"value" {
                        return 1;
                    }
                }
                0
            })
        })
        .collect();
    children.iter().for_each(|_| begin.say(1));
    for child in children {
        assert_eq!(child.wait(), 0);
    }
    assert_eq!(cache.get("loads").as_deref(), Some(&b"50"[..]));
    assert_eq!(cache.len(), 51, "a lease or a reservation was left");
    cache.validate().unwrap();
}

#[test]
fn a_task_takes_the_place_of_a_killed_process() {
    let (cache, begun) = (shared(), Word::new());
    let holder = loading(&cache, &begun, &Word::new(), Ok("lost"));
    begun.hear();
    holder.kill();
    assert_eq!(holder.wait(), -libc::SIGKILL);
    let since = Instant::now();
    let load = || ready(Ok::<_, Infallible>("own"));
    let loaded = runtime().block_on(cache.get_or_load_async("k", &FOREVER, load));
    assert_eq!(loaded.unwrap(), b"own");
    assert!(since.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_task_that_waits_for_another_process_does_not_stop_its_thread() {
    let (cache, begun, go) = (shared(), Word::new(), Word::new());
    let child = loading(&cache, &begun, &go, Ok("value"));
    begun.hear();
    let runtime = runtime();
    let loaded = runtime.block_on(async {
        let loaded = cache.get_or_load_async("k", &FOREVER, never);
        let mut loaded = std::pin::pin!(loaded);
        // The future is pending while this task runs on the same thread.
        let within = Duration::from_millis(100);
        assert!(tokio::time::timeout(within, &mut loaded).await.is_err());
        go.say(1);
        loaded.await
    });
    assert_eq!(loaded.unwrap(), b"value");
    assert_eq!(child.wait(), 0);
}

#[test]
fn a_task_loads_after_the_load_of_another_process_has_failed() {
    let (cache, begun, go) = (shared(), Word::new(), Word::new());
    let child = loading(&cache, &begun, &go, Err("no database"));
    begun.hear();
    go.say(1);
    let load = || ready(Ok::<_, Infallible>("own"));
    let loaded = runtime().block_on(cache.get_or_load_async("k", &FOREVER, load));
    assert_eq!(loaded.unwrap(), b"own");
    assert_eq!(child.wait(), 0);
}

#[test]
fn a_task_waits_for_another_process_no_longer_than_its_timeout() {
    let (cache, begun, go) = (shared(), Word::new(), Word::new());
    let child = loading(&cache, &begun, &go, Ok("late"));
    begun.hear();
    let options = FOREVER.timeout(Duration::from_millis(60));
    let runtime = runtime();
    let tasks = runtime.block_on(async {
        let first = cache.get_or_load_async("k", &options, never);
        let second = cache.get_or_load_async("k", &options, never);
        let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
        // Polls both, so that the second one waits for the first one.
        let briefly = Duration::from_millis(5);
        assert!(tokio::time::timeout(briefly, &mut first).await.is_err());
        assert!(tokio::time::timeout(briefly, &mut second).await.is_err());
        [first.await, second.await]
    });
    for result in tasks {
        assert!(matches!(result, Err(LoadError::TimedOut(_))), "{result:?}");
    }
    go.say(1);
    assert_eq!(child.wait(), 0);
    assert_eq!(cache.get("k").as_deref(), Some(&b"late"[..]));
}

#[test]
fn a_lease_ends_before_a_load_that_is_slower_and_the_newer_value_stays() {
    let cache = shared();
    let options = FOREVER.timeout(Duration::from_millis(50));
    let (begun, go) = (Word::new(), Word::new());
    let slow = fork(|| {
        let loaded = runtime().block_on(cache.get_or_load_async("k", &options, || async {
            begun.say(1);
            go.hear();
            Ok::<_, Infallible>("slow")
        }));
        i32::from(loaded.unwrap() != b"slow")
    });
    begun.hear();
    let load = || ready(Ok::<_, Infallible>("newer"));
    let patient = FOREVER.timeout(Duration::from_secs(10));
    let loaded = runtime().block_on(cache.get_or_load_async("k", &patient, load));
    assert_eq!(loaded.unwrap(), b"newer");
    go.say(1);
    assert_eq!(slow.wait(), 0);
    assert_eq!(cache.get("k").as_deref(), Some(&b"newer"[..]));
}

#[test]
fn a_dropped_load_leaves_no_lease() {
    let cache = shared();
    runtime().block_on(async {
        let load = || pending::<Result<&str, Infallible>>();
        let loaded = cache.get_or_load_async("k", &FOREVER, load);
        assert!(tokio::time::timeout(Duration::from_millis(5), loaded).await.is_err());
    });
    assert_eq!(cache.len(), 0);
    let lease = cache.lease("k", Duration::from_secs(1)).unwrap().expect("the lease is held");
    assert!(cache.release("k", lease).unwrap());
}
