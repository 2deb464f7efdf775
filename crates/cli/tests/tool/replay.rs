//! `larder replay` on small synthetic traces, and on a real one if it is available.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::{Fixture, Ran, larder};

/// Writes a trace into a folder.
fn write_trace(folder: &Path, lines: &str) -> String {
    let path = folder.join("trace.csv.zst");
    std::fs::write(&path, zstd::encode_all(lines.as_bytes(), 3).unwrap()).unwrap();
    path.display().to_string()
}

fn counts(ran: &Ran) -> [String; 5] {
    ["requests", "gets", "hits", "misses", "sets"].map(|name| ran.value(name))
}

#[test]
fn on_the_library_time_is_virtual() {
    let folder = tempfile::tempdir().unwrap();
    // Four requests span a day, with 21,600 s between them.
    let trace = write_trace(folder.path(), "0,50,21601\n0\n1,50,21600\n1\n");
    let ran = larder(b"", &["replay", "--trace", &trace, "--memory", "16m"]);
    assert_eq!(counts(&ran), ["4", "4", "1", "3", "3"], "{ran:?}");
    assert_eq!(ran.value("miss_ratio"), "0.7500");
    assert_eq!(ran.value("wrong_values"), "0");
    assert_eq!((ran.exit_code, &*ran.stderr), (0, ""));
}

#[test]
fn the_counts_of_server_and_replay_agree_over_many_connections_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for round in 0..10 {
        for key in 0..2000 {
            let size = if round == 0 || key % 3 == 0 {
                format!(",{}", key + round)
            } else {
                String::new()
            };
            let is_set = round > 0 && key % 3 == 0;
            lines += &format!("{key}{size}{}\n", if is_set { ",0,1" } else { "" });
        }
    }
    let trace = write_trace(folder.path(), &lines);
    let fixture = Fixture::start();
    for threads in ["1", "4"] {
        let ran = fixture.larder("replay", &["--trace", &trace, "--threads", threads, "--flush"]);
        assert_eq!(ran.exit_code, 0, "{ran:?}");
        assert_eq!(counts(&ran), ["20000", "13997", "11997", "2000", "8003"]);
        for (server, client) in [
            ("server_cmd_get", "gets"),
            ("server_get_hits", "hits"),
            ("server_get_misses", "misses"),
            ("server_cmd_set", "sets"),
        ] {
            assert_eq!(ran.value(server), ran.value(client), "{server}");
        }
        assert_eq!((&*ran.value("agree"), &*ran.value("wrong_values")), ("yes", "0"));
    }
}

#[test]
fn a_replay_refuses_a_server_with_items_unless_it_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path(), "0,50,9\n0\n");
    let fixture = Fixture::start();
    fixture.larder("set", &["k", "v"]).printed();
    let ran = fixture.larder("replay", &["--trace", &trace]);
    ran.failed(2, "holds items, which would distort the counts; --flush removes them");
    let ran = fixture.larder("replay", &["--trace", &trace, "--flush", "--memory", "1m"]);
    assert_eq!(counts(&ran), ["2", "2", "1", "1", "1"], "{ran:?}");
    ran.failed(0, "run in real time on a server");
    ran.failed(0, "--memory 1048576 has no effect");
}

#[test]
fn counts_disagree_if_another_client_uses_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path(), &"0,50\n".repeat(50_000));
    let fixture = Fixture::start();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other_client = fixture.server.connect().unwrap();
            while !ended.load(Relaxed) {
                other_client.ask(b"get nothing\r\n", b"END\r\n").unwrap();
            }
        });
        let ran = fixture.larder("replay", &["--trace", &trace]);
        ended.store(true, Relaxed);
        assert_eq!((ran.exit_code, &*ran.value("agree")), (1, "no"), "{ran:?}");
    });
}

#[test]
fn an_unreadable_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let replay = |args: &[&str]| larder(b"", &[&["replay", "--memory=16m"], args].concat());
    replay(&["--trace", "none.zst"]).failed(2, "cannot read the trace none.zst: No such file");
    let no_zstd = folder.path().join("no.zst").display().to_string();
    std::fs::write(&no_zstd, "0,50\n").unwrap();
    replay(&["--trace", &no_zstd]).failed(2, "no.zst: ");
    let trace = write_trace(folder.path(), "0,50\n1,x\n");
    replay(&["--trace", &trace]).failed(2, "line 2: the size is \"x\", expected a number");
    let trace = write_trace(folder.path(), "0\n");
    replay(&["--trace", &trace]).failed(2, "sizes-kvcache_reg.txt (see --sizes)");
    replay(&["--trace", &trace, "--sizes", &no_zstd]).failed(2, "line 1: \"0,50\" is not a number");
    let trace = write_trace(folder.path(), "0,50\n");
    larder(b"", &["replay", "--trace", &trace]).failed(2, "--memory <BYTES>");
    larder(b"", &["replay", "--trace", &trace, "--memory", "1k"]).failed(2, "1024 bytes");
    larder(b"", &["replay", "--trace", &trace, "--memory", "1x"]).failed(2, "k, m or g after it");
}

#[test]
fn a_trace_is_drawn_from_a_seed() {
    let draw = |more: &[&str]| {
        let args = ["replay", "--keys", "1000", "--memory", "16m", "--writes", "0.1"];
        counts(&larder(b"", &[&args[..], more].concat()))
    };
    let [requests, gets, ..] = draw(&[]);
    let gets: u32 = gets.parse().unwrap();
    assert_eq!(requests, "10000", "ten for each key");
    assert!((8800..9200).contains(&gets), "a tenth are writes: {gets}");
    assert_eq!(draw(&[]), draw(&[]));
    assert_ne!(draw(&[]), draw(&["--seed", "1"]));
    let [requests, _, _, misses, _] = draw(&["--requests", "2000", "--skew", "0"]);
    assert_eq!(requests, "2000");
    // 1800 requests of equally frequent keys name 1000 × (1 - e^-1.8) of them.
    assert!((700..900).contains(&misses.parse().unwrap()), "{misses}");
    let refused = |args: &[&str], part: &str| {
        larder(b"", &[&["replay"], args].concat()).failed(2, part);
    };
    refused(&["--keys", "9", "--memory", "1m", "--writes", "1.1"], "a number from 0 to 1");
    refused(&["--keys", "9", "--memory", "1m", "--skew", "11"], "a number from 0 to 10");
    refused(&["--keys", "9", "--trace", "t", "--memory", "1m"], "cannot be used with");
    refused(&["--memory", "1m"], "--trace <FILE>");
}

/// Replays a drawn trace of 20,000 keys on near caches that hold a part of them.
fn replay_near(more: &[&str]) -> Ran {
    let args = ["replay", "--keys", "20000", "--value-bytes", "300", "--near-memory", "2m"];
    let ran = larder(b"", &[&args[..], more].concat());
    assert_eq!((ran.exit_code, &*ran.value("wrong_values")), (0, "0"), "{ran:?}");
    ran
}

fn number(ran: &Ran, name: &str) -> f64 {
    ran.value(name).parse().unwrap()
}

#[test]
fn near_caches_hit_about_as_often_as_the_bound_and_never_return_an_old_value() {
    let ran = replay_near(&["--near", "4", "--writes", "0.01"]);
    assert_eq!(ran.value("origin_misses"), "0", "the origin has every item: {ran:?}");
    let (hits, bound) = (number(&ran, "near_hit_ratio"), number(&ran, "near_hit_ratio_fifo"));
    assert!(hits > bound - 0.01 && hits < 0.9, "{ran:?}");
    assert_eq!(number(&ran, "near_gets") + number(&ran, "near_writes"), 100_000.0, "one half");
    assert_eq!(
        number(&ran, "near_gets"),
        number(&ran, "near_hits") + number(&ran, "origin_fetches")
    );
    let told = number(&ran, "messages_per_write");
    assert!(told > 1.0 && told <= 4.0, "{ran:?}");
    assert!(number(&ran, "copies_dropped") <= number(&ran, "messages") * 1.1, "{ran:?}");

    // Without writes the origin sends no messages.
    let alone = replay_near(&["--near", "1", "--writes", "0"]);
    assert_eq!((number(&alone, "messages"), number(&alone, "copies_dropped")), (0.0, 0.0));
    assert!(number(&alone, "near_hit_ratio") > hits, "{alone:?}");
}

#[test]
fn many_near_caches_share_the_bits_of_interest() {
    let ran = replay_near(&["--near", "128", "--writes", "0.5", "--requests", "40000"]);
    // A change of a hot key tells both near caches of a bit, of which often one has a copy.
    assert!(number(&ran, "messages") > number(&ran, "copies_dropped") * 1.5, "{ran:?}");
}

#[test]
fn an_origin_that_evicts_behind_near_caches_is_compared_with_it_alone() {
    let ran = replay_near(&["--near", "4", "--writes", "0.01", "--memory", "4m"]);
    let (behind, alone) = (number(&ran, "origin_misses"), number(&ran, "origin_misses_alone"));
    assert!(number(&ran, "origin_evictions") > 0.0 && alone > 1000.0, "{ran:?}");
    // Only one in 16 reads of copies, and no fetch, tells the origin what is used.
    assert!(behind < alone * 1.25, "{ran:?}");
    let args = ["replay", "--keys", "9", "--near", "1"];
    larder(b"", &args).failed(2, "--near-memory <BYTES>");
    larder(b"", &[&args[..], &["--near-memory", "9k"]].concat()).failed(2, "a quarter is for");
}

#[test]
fn a_real_trace_has_about_the_miss_ratio_of_an_lru() {
    let Some(folder) = larder_testkit::traces() else { return };
    let trace = folder.join("web07.csv.zst").display().to_string();
    let args = ["replay", "--trace", &trace, "--scale", "16", "--memory", "10182296"];
    let ran = larder(b"", &args);
    let miss_ratio: f64 = ran.value("miss_ratio").parse().unwrap();
    assert!((0.38..0.50).contains(&miss_ratio), "{ran:?}");
    assert_eq!(ran.value("wrong_values"), "0");
    let again = larder(b"", &[&args[..], &["--threads", "3"]].concat());
    assert_eq!((&*again.value("gets"), &*again.value("wrong_values")), ("76118", "0"));
}
