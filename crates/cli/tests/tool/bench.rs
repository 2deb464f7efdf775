//! `larder bench`.

use crate::{Fixture, larder};

#[test]
fn every_mode_measures_and_finds_all_values_right() {
    let fixture = Fixture::start();
    for mode in ["get", "set", "mix"] {
        let args =
            ["--mode", mode, "--seconds=1", "--connections=4", "--threads=2", "--pipeline=8"];
        let shown = String::from_utf8(fixture.larder("bench", &args).printed()).unwrap();
        let hit_ratio =
            if mode == "set" { "hit ratio      -\n" } else { "hit ratio      1.0000\n" };
        assert!(shown.contains(hit_ratio), "{shown}");
        assert!(shown.contains("wrong values   0\n"), "{shown}");
    }
}

#[test]
fn json_is_one_line_with_the_same_numbers() {
    let args = ["--seconds=1", "--connections=2", "--keys=100", "--value-bytes=0", "--json"];
    let shown = String::from_utf8(Fixture::start().larder("bench", &args).printed()).unwrap();
    assert!(shown.starts_with("{\"mode\":\"get\",\"value_bytes\":0,\"keys\":100,"), "{shown}");
    assert!(shown.contains("\"hit_ratio\":1.000000,\"wrong_values\":0,\"p50_us\":"), "{shown}");
    assert!(shown.ends_with("}\n") && shown.lines().count() == 1, "{shown}");
}

#[test]
fn values_that_somebody_else_changed_are_counted_as_wrong() {
    let fixture = Fixture::start();
    let meddle = || fixture.larder("set", &["bench:00000000000000", "x"]).printed();
    std::thread::scope(|scope| {
        let bench = scope
            .spawn(|| fixture.larder("bench", &["--seconds=2", "--keys=1", "--connections=1"]));
        std::thread::sleep(std::time::Duration::from_millis(1000));
        meddle();
        let ran = bench.join().unwrap();
        assert_eq!(ran.exit_code, 1, "{ran:?}");
    });
}

#[test]
fn options_out_of_bounds_are_refused() {
    for (option, said) in [
        ("--get-share=1.5", "expected a number from 0 to 1"),
        ("--threads=0", "0 is not in 1..=1024"),
        ("--value-bytes=1048577", "not in 0..=1048576"),
        ("--mode=scan", "possible values: get, set, mix"),
    ] {
        larder(b"", &["bench", option]).failed(2, said);
    }
    let args = ["bench", "--mode=mix", "--pipeline=16", "--value-bytes=10000"];
    larder(b"", &args).failed(2, "is 160000, expected at most 65536");
}
