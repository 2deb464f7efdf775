use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

use super::*;
use crate::Clock;

const FOREVER: LoadOptions = LoadOptions::new();

fn cache() -> Cache {
    Cache::builder().memory_bytes(16 << 20).clock(Clock::Ticked).open().expect("cannot open")
}

/// A runtime with one thread, and one with several.
fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.worker_threads(4).enable_time().build().expect("no runtime"))
}

async fn never() -> Result<&'static str, String> {
    panic!("the loader was called although it must not be");
}

/// Returns once `count` callers wait for the load of `k`.
async fn until_waiting(cache: &Cache, count: usize) {
    until(|| cache.shared().flights.followers(b"k") == count).await;
}

/// Returns once a load has begun.
async fn until_loading(cache: &Cache) {
    until(|| !cache.shared().flights.is_empty()).await;
}

async fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "no such number of loads or callers");
        sleep(Duration::from_millis(1)).await;
    }
}

/// A load of `k` in a task, which ends when `gate` is notified.
fn gated(
    cache: &Cache,
    options: LoadOptions,
    gate: &Arc<Notify>,
    result: Result<&'static str, String>,
) -> JoinHandle<Result<Vec<u8>, LoadError<String>>> {
    let (cache, gate) = (cache.clone(), Arc::clone(gate));
    tokio::spawn(async move {
        let load = || async move {
            gate.notified().await;
            result
        };
        cache.get_or_load_async("k", &options, load).await
    })
}

/// A task that needs the value of `k`, with this result of its own loader.
fn waiting(
    cache: &Cache,
    own: Option<&'static str>,
) -> JoinHandle<Result<Vec<u8>, LoadError<String>>> {
    let cache = cache.clone();
    tokio::spawn(async move {
        let load = || async move {
            match own {
                Some(value) => Ok(value),
                None => never().await,
            }
        };
        cache.get_or_load_async("k", &FOREVER, load).await
    })
}

#[test]
fn of_ten_thousand_tasks_one_loads() {
    for runtime in runtimes() {
        let (cache, loads) = (cache(), Arc::new(AtomicUsize::new(0)));
        runtime.block_on(async {
            let tasks: Vec<_> = (0..10_000)
                .map(|_| {
                    let (cache, loads) = (cache.clone(), Arc::clone(&loads));
                    tokio::spawn(async move {
                        let load = || async move {
                            loads.fetch_add(1, SeqCst);
                            sleep(Duration::from_millis(50)).await;
                            Ok::<_, Infallible>("value")
                        };
                        cache.get_or_load_async("k", &FOREVER, load).await
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap().unwrap(), b"value");
            }
        });
        assert_eq!(loads.load(SeqCst), 1);
        assert_eq!(cache.get("k").as_deref(), Some(&b"value"[..]));
        assert!(cache.shared().flights.is_empty());
    }
}

#[test]
fn if_the_task_that_loads_is_dropped_a_waiting_task_loads() {
    for runtime in runtimes() {
        let cache = cache();
        runtime.block_on(async {
            let leader = gated(&cache, FOREVER, &Arc::default(), Ok("lost"));

            until_loading(&cache).await;
            let tasks: Vec<_> = (0..100).map(|_| waiting(&cache, Some("own"))).collect();
            until_waiting(&cache, 100).await;
            leader.abort();
            for task in tasks {
                assert_eq!(task.await.unwrap().unwrap(), b"own");
            }
            assert!(leader.await.unwrap_err().is_cancelled());
        });
        assert_eq!(cache.get("k").as_deref(), Some(&b"own"[..]));
        assert!(cache.shared().flights.is_empty());
    }
}

#[test]
fn tasks_that_wait_may_be_dropped() {
    for runtime in runtimes() {
        let (cache, gate) = (cache(), Arc::new(Notify::new()));
        runtime.block_on(async {
            let leader = gated(&cache, FOREVER, &gate, Ok("value"));
            until_loading(&cache).await;
            let dropped: Vec<_> = (0..50).map(|_| waiting(&cache, None)).collect();
            let kept: Vec<_> = (0..50).map(|_| waiting(&cache, None)).collect();
            until_waiting(&cache, 100).await;
            for task in dropped {
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            }
            gate.notify_one();
            assert_eq!(leader.await.unwrap().unwrap(), b"value");
            for task in kept {
                assert_eq!(task.await.unwrap().unwrap(), b"value");
            }
        });
        assert!(cache.shared().flights.is_empty());
    }
}

#[test]
fn tasks_that_wait_receive_the_error_and_later_ones_load() {
    for runtime in runtimes() {
        let (cache, gate) = (cache(), Arc::new(Notify::new()));
        runtime.block_on(async {
            let leader = gated(&cache, FOREVER, &gate, Err("no database".to_owned()));
            until_loading(&cache).await;
            let tasks: Vec<_> = (0..100).map(|_| waiting(&cache, None)).collect();
            until_waiting(&cache, 100).await;
            gate.notify_one();
            let failed =
                |result| matches!(result, Err(LoadError::Failed(error)) if *error == "no database");
            assert!(failed(leader.await.unwrap()));
            for task in tasks {
                assert!(failed(task.await.unwrap()));
            }
            assert_eq!(waiting(&cache, Some("later")).await.unwrap().unwrap(), b"later");
        });
    }
}

#[test]
fn tasks_that_wait_for_a_loader_that_panics_receive_an_error() {
    for runtime in runtimes() {
        let cache = cache();
        runtime.block_on(async {
            let (of_leader, gate) = (cache.clone(), Arc::new(Notify::new()));
            let opened = Arc::clone(&gate);
            let leader = tokio::spawn(async move {
                let load = || async move {
                    gate.notified().await;
                    never().await
                };
                of_leader.get_or_load_async("k", &FOREVER, load).await
            });
            until_loading(&cache).await;
            let task = waiting(&cache, None);
            until_waiting(&cache, 1).await;
            opened.notify_one();
            assert!(leader.await.unwrap_err().is_panic());
            assert!(matches!(task.await.unwrap(), Err(LoadError::Panicked)));
            assert_eq!(waiting(&cache, Some("later")).await.unwrap().unwrap(), b"later");
        });
        assert!(cache.shared().flights.is_empty());
    }
}

#[test]
fn a_load_that_takes_longer_than_the_timeout_is_repeated() {
    for runtime in runtimes() {
        let (cache, gate) = (cache(), Arc::new(Notify::new()));
        let options = FOREVER.timeout(Duration::from_millis(20));
        runtime.block_on(async {
            let late = gated(&cache, options, &gate, Ok("late"));
            until_loading(&cache).await;
            let error = cache.get_or_load_async("k", &options, never).await.unwrap_err();
            assert!(matches!(error, LoadError::TimedOut(_)), "{error}");
            let newer = cache.get_or_load_async("k", &options, || ready(Ok::<_, String>("newer")));
            assert_eq!(newer.await.unwrap(), b"newer");
            gate.notify_one();
            assert_eq!(late.await.unwrap().unwrap(), b"late");
        });
        assert_eq!(cache.get("k").as_deref(), Some(&b"newer"[..]), "the late result was stored");
    }
}

#[test]
fn a_change_during_a_load_takes_precedence() {
    for runtime in runtimes() {
        let cache = cache();
        runtime.block_on(async {
            let load = || async {
                cache.set("k", "set", None).unwrap();
                Ok::<_, Infallible>("loaded")
            };
            assert_eq!(cache.get_or_load_async("k", &FOREVER, load).await.unwrap(), b"loaded");
        });
        assert_eq!(cache.get("k").as_deref(), Some(&b"set"[..]));
    }
}

#[test]
fn threads_and_tasks_share_a_load() {
    for runtime in runtimes() {
        let (cache, gate) = (cache(), Arc::new(Notify::new()));
        // The task that loads makes progress only if the threads of the runtime do not wait.
        runtime.block_on(async {
            let leader = gated(&cache, FOREVER, &gate, Ok("of the task"));
            until_loading(&cache).await;
            let of_thread = cache.clone();
            let waits = thread::spawn(move || {
                of_thread.get_or_load("k", &FOREVER, || -> Result<&str, String> {
                    panic!("a second loader was called")
                })
            });
            until_waiting(&cache, 1).await;
            gate.notify_one();
            assert_eq!(leader.await.unwrap().unwrap(), b"of the task");
            assert_eq!(waits.join().unwrap().unwrap(), b"of the task");
        });
        cache.delete("k").unwrap();
        let of_thread = cache.clone();
        runtime.block_on(async {
            let (go, gone) = std::sync::mpsc::channel();
            let leads = thread::spawn(move || {
                of_thread.get_or_load("k", &FOREVER, || {
                    gone.recv().unwrap();
                    Ok::<_, String>("of the thread")
                })
            });
            until_loading(&cache).await;
            let task = waiting(&cache, None);
            until_waiting(&cache, 1).await;
            go.send(()).unwrap();
            assert_eq!(task.await.unwrap().unwrap(), b"of the thread");
            assert_eq!(leads.join().unwrap().unwrap(), b"of the thread");
        });
    }
}

#[test]
fn a_thread_that_waits_for_a_dropped_task_loads() {
    let cache = cache();
    let [_, runtime] = runtimes();
    runtime.block_on(async {
        let leader = gated(&cache, FOREVER, &Arc::default(), Ok("lost"));
        until_loading(&cache).await;
        let of_thread = cache.clone();
        let waits = thread::spawn(move || {
            of_thread.get_or_load("k", &FOREVER, || Ok::<_, String>("of the thread"))
        });
        until_waiting(&cache, 1).await;
        leader.abort();
        assert_eq!(waits.join().unwrap().unwrap(), b"of the thread");
    });
}

#[test]
fn one_task_refreshes_while_the_others_receive_the_old_value() {
    let options = LoadOptions::new().ttl(Duration::from_secs(60)).stale(Duration::from_secs(100));
    for runtime in runtimes() {
        let (cache, gate) = (cache(), Arc::new(Notify::new()));
        runtime.block_on(async {
            let load = || ready(Ok::<_, String>("old"));
            cache.get_or_load_async("k", &options, load).await.unwrap();
            cache.tick(cache.now() + 70);
            let refreshing = gated(&cache, options, &gate, Ok("new"));
            until_loading(&cache).await;
            assert_eq!(cache.get_or_load_async("k", &options, never).await.unwrap(), b"old");
            gate.notify_one();
            assert_eq!(refreshing.await.unwrap().unwrap(), b"new");
            assert_eq!(cache.get_or_load_async("k", &options, never).await.unwrap(), b"new");
            cache.tick(cache.now() + 70);
            let failed = || ready(Err::<&str, _>("no database".to_owned()));
            assert_eq!(cache.get_or_load_async("k", &options, failed).await.unwrap(), b"new");
        });
    }
}

#[test]
fn a_task_that_requests_its_own_key_receives_an_error_after_the_timeout() {
    let cache = cache();
    let [runtime, _] = runtimes();
    let options = FOREVER.timeout(Duration::from_millis(20));
    let loaded = runtime.block_on(cache.get_or_load_async("k", &options, || async {
        let own = cache.get_or_load_async("k", &options, never).await;
        assert!(matches!(own, Err(LoadError::TimedOut(_))));
        Ok::<_, Infallible>("v")
    }));
    assert_eq!(loaded.unwrap(), b"v");
}

#[test]
fn random_ends_of_loads_leave_no_caller_behind() {
    let [_, runtime] = runtimes();
    let cache = cache();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..2000_usize)
            .map(|number| {
                let cache = cache.clone();
                tokio::spawn(async move {
                    let load = || async move {
                        match number % 5 {
                            0 => pending().await,
                            1 => Err("failed".to_owned()),
                            2 => panic!("a defect"),
                            _ => {
                                yield_now().await;
                                Ok(number.to_string())
                            }
                        }
                    };
                    let key = format!("key {}", number % 7);
                    let loaded = cache.get_or_load_async(&key, &FOREVER, load);
                    let within = Duration::from_millis((number % 30) as u64);
                    let result = tokio::time::timeout(within, loaded).await;
                    cache.delete(&key).unwrap();
                    result.is_ok()
                })
            })
            .collect();
        let mut ended = 0;
        for task in tasks {
            ended += usize::from(task.await.unwrap_or(true));
        }
        assert!(ended > 100, "only {ended} callers had a result");
    });
    assert!(cache.shared().flights.is_empty());
}

#[test]
fn futures_of_loads_can_be_sent_to_other_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let cache = cache();
    drop(is_send(cache.get_or_load_async("k", &FOREVER, never)));
    let typed: crate::TypedCache<str, String> = crate::TypedCache::new(cache);
    let load = || async { Ok::<_, String>("v".to_owned()) };
    let [runtime, _] = runtimes();
    let value = runtime.block_on(is_send(typed.get_or_load_async("k", load))).unwrap();
    assert_eq!((value.as_str(), typed.get("k").unwrap().as_deref()), ("v", Some("v")));
    let failed = typed.get_or_load_async("other", || ready(Err::<String, _>("failed")));
    assert!(matches!(runtime.block_on(failed), Err(LoadError::Failed(_))));
}
