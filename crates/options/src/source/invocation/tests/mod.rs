//! Tests of the options from all sources.

mod check;
mod memory;

use std::cell::Cell;

use super::*;
use crate::given::values::Origin;
use crate::table::kind::{Kind, Value};
use crate::table::row::{Group, Place, Row};

/// Reads the options from this command line, these variables and, if an option names it, this file.
fn start(
    command_line: &[&str],
    environment: &[(&str, &str)],
    file: &str,
) -> Result<Invocation, OptionError> {
    let command_line: Vec<_> = command_line.iter().map(|word| (*word).to_owned()).collect();
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Invocation::read(&Sources {
        command_line: &command_line,
        environment: &environment,
        read_file: &|path| match path.to_str() {
            Some("larder.toml") => Ok(file.to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        memory_bound: &|| {
            Ok(MemoryBound { bytes: 256 << 20, origin: "memory.max of /g".to_owned() })
        },
        version: "1.6.45",
    })
}

fn run(command_line: &[&str]) -> (Options, Vec<String>) {
    match start(command_line, &[], "").unwrap() {
        Invocation::Run { options, warnings } => (*options, warnings),
        other => panic!("{other:?}"),
    }
}

fn error(command_line: &[&str]) -> OptionError {
    start(command_line, &[], "").unwrap_err()
}

/// Returns two values of an option, as texts, that differ from its default; `None` if only one
/// value is allowed.
fn samples(row: &Row) -> Option<[String; 2]> {
    let texts = match row.kind {
        Kind::Switch if row.default == Some("yes") => ["no", "no"],
        Kind::Switch => ["yes", "yes"],
        Kind::Count => ["2", "3"],
        Kind::Number { min, max } if min == max => return None,
        // All versions older than 3 mean the default.
        Kind::Number { .. } if row.name == "ssl_min_version" => ["3", "0"],
        Kind::Number { min, max } => {
            return Some([max, min + 1].map(|number| number.to_string()));
        }
        Kind::Real { max, .. } if max > 1.0 => ["3.5", "4"],
        Kind::Real { .. } => ["0.25", "0.5"],
        Kind::Bytes { .. } | Kind::Memory { .. } => ["512k", "400k"],
        Kind::Mask => ["770", "0640"],
        Kind::Character => ["/", "\""],
        Kind::Sizes => ["100-200", "96-120-152"],
        Kind::Choice(words) => [*words.last()?, words[0]],
        Kind::Text | Kind::Path => ["a\"b", "/c d"],
        Kind::Listen => ["[::1]:3,*", "localhost"],
        Kind::AdminListen => ["[::1]:3,role=read;*:0", "/s,mode=660"],
        Kind::Readers => ["same-uid", "group:www"],
        Kind::Origins => ["[::1]:3", "/s,a:1:2"],
        Kind::ClusterName => ["cluster.internal", "a:1"],
        Kind::FileSize => ["/f:1g", "a b:40M"],
        Kind::Durability => ["sync", "interval=7"],
        Kind::Duration => ["10ms", "1s"],
    };
    // The largest item may not exceed half of the memory.
    let texts = if row.name == "memory_limit" { ["1g", "80%"] } else { texts };
    Some(texts.map(str::to_owned))
}

fn rows(wanted: impl Fn(&Row) -> bool) -> impl Iterator<Item = (Id, &'static Row)> {
    Id::ALL.iter().map(|id| (*id, id.row())).filter(move |(_, row)| wanted(row))
}

/// Returns the ways to give an option a value on the command line.
fn on_the_command_line(row: &Row, text: &str) -> Vec<Vec<String>> {
    let is_flag = !row.kind.takes_argument();
    match row.place {
        Place::Word => vec![vec!["-o".to_owned(), format!("{}={text}", row.name)]],
        _ if is_flag => {
            let times = if row.kind == Kind::Count { text.parse().unwrap() } else { 1 };
            let long = row.long().map(|long| vec![format!("--{long}"); times]);
            [vec![row.spelling(); times]].into_iter().chain(long).collect()
        }
        Place::Long => vec![vec![format!("{}={text}", row.spelling())]],
        _ => {
            let glued = vec![format!("{}{text}", row.spelling())];
            let apart = vec![row.spelling(), text.to_owned()];
            let long = row.long().map(|long| vec![format!("--{long}={text}")]);
            [glued, apart].into_iter().chain(long).collect()
        }
    }
}

#[test]
fn every_option_means_the_same_on_the_command_line_in_the_environment_and_in_a_file() {
    for (id, row) in rows(|row| !matches!(row.group, Group::Reading | Group::Refused(_))) {
        for text in samples(row).into_iter().flatten() {
            let mut expected = Values::none();
            expected.set(id, &text, &Origin::Map).unwrap();
            let expected = &expected.given(id).unwrap().value;

            for words in on_the_command_line(row, &text) {
                let CommandLine::Values { values, .. } = command_line::read(&words) else {
                    panic!("{words:?}");
                };
                assert_eq!(&values.given(id).unwrap().value, expected, "{words:?}");
            }

            let variables = [(row.variable(), text.clone())];
            let values = environment::read(&variables, &mut Vec::new(), &mut Vec::new());
            assert_eq!(&values.given(id).unwrap().value, expected, "{variables:?}");

            let line = format!("{} = {}", row.name, row.kind.toml(expected));
            let values = file::read(&line, Path::new("larder.toml"), &mut Vec::new());
            assert_eq!(&values.given(id).unwrap().value, expected, "{line}");
        }
    }
}

#[test]
fn every_option_that_behaves_changes_the_options_and_none_that_is_warned_about_does() {
    for (id, row) in rows(|row| !matches!(row.group, Group::Reading | Group::Refused(_))) {
        let Some([text, _]) = samples(row) else { continue };
        let mut given = Values::none();
        given.set(id, &text, &Origin::CommandLine).unwrap();
        let others = match row.name {
            name if name.contains("ssl") => with_tls(id),
            name if name.starts_with("origin_") || name.starts_with("near_") => with_origin(),
            name if name.starts_with("tier_") || id == Id::Durability => with_tier(id),
            _ => Values::defaults(),
        };
        let without = Options::new(others.clone());
        let mut options = Options::new(others.overridden_by(given));
        options.accepted = without.accepted.clone();
        let has_changed = options != without;
        match row.group {
            Group::Behaves | Group::Suite => assert!(has_changed, "{}", row.name),
            Group::Warned(_) => assert!(!has_changed, "{}", row.name),
            _ => {}
        }
    }
}

/// Returns the values of the other options that an option of a near cache needs.
fn with_origin() -> Values {
    let mut values = Values::none();
    values.set(Id::Origin, "tls:localhost:1", &Origin::Map).unwrap();
    Values::defaults().overridden_by(values)
}

/// Returns the values of the other options that an option of the disk tier needs.
fn with_tier(word: Id) -> Values {
    let mut values = Values::none();
    for (id, text) in [
        (Id::TierPath, "/t"),
        (Id::TierSize, "1g"),
        (Id::TierMode, "store"),
        (Id::MemoryLimit, "64m"),
    ] {
        if id != word {
            values.set(id, text, &Origin::Map).unwrap();
        }
    }
    Values::defaults().overridden_by(values)
}

/// Returns the values of the other options that a TLS option needs.
fn with_tls(word: Id) -> Values {
    let mut values = Values::none();
    for (id, text) in [
        (Id::EnableSsl, "yes"),
        (Id::SslChainCert, "/c"),
        (Id::SslKey, "/k"),
        (Id::SslCaCert, "/a"),
    ] {
        if id != word || id != Id::EnableSsl {
            values.set(id, text, &Origin::Map).unwrap();
        }
    }
    Values::defaults().overridden_by(values)
}

#[test]
fn an_error_names_the_option_the_value_and_the_allowed_values() {
    for (_, row) in rows(|row| row.is_configurable() && row.kind.takes_argument()) {
        let bad = match row.kind {
            Kind::Text | Kind::Path | Kind::Character => "",
            _ => "b/d",
        };
        let last = on_the_command_line(row, bad).pop().unwrap();
        let error = error(&last.iter().map(String::as_str).collect::<Vec<_>>());
        let expected = row.kind.expected();
        let message = format!("option {}: \"{bad}\" is not {expected}", row.spelling());
        assert!(error.message.starts_with(&message), "{}\n{message}", error.message);
        assert!(!error.message.contains('\n'));
    }
}

#[test]
fn no_text_makes_parsing_panic() {
    let long = "9".repeat(100_000);
    let texts = [
        "",
        " ",
        "-",
        "=",
        ",",
        ";",
        ":",
        "[",
        "]:",
        "[]",
        "\u{e9}",
        "\u{0}",
        "\n",
        "\"",
        "k",
        "\u{e9}k",
        "-0",
        "+1",
        "1e999",
        "-9223372036854775808",
        "18446744073709551616",
        "tag[\u{e9}]:",
        "%",
        &long,
    ];
    for (_, row) in rows(|row| !matches!(row.group, Group::Reading)) {
        for text in texts {
            for words in on_the_command_line(row, "1") {
                let words: Vec<_> = words.iter().map(|word| word.replace('1', text)).collect();
                let _ = start(&words.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
            }
            let _ = start(&[], &[(&row.variable(), text)], "");
            let quoted = Kind::Text.toml(&Value::Text(text.to_owned()));
            for text in [text, &quoted] {
                let line = format!("{} = {text}", row.name);
                let _ = start(&["--config", "larder.toml"], &[], &line);
            }
        }
    }
}

#[test]
fn refused_options_give_the_reason() {
    for (_, row) in rows(|row| matches!(row.group, Group::Refused(_))) {
        let [text, _] = samples(row).unwrap();
        let last = on_the_command_line(row, &text).pop().unwrap();
        let error = error(&last.iter().map(String::as_str).collect::<Vec<_>>());
        let begin = format!("option {}: refused: ", row.spelling());
        assert!(error.message.starts_with(&begin), "{}", error.message);
    }
}

#[test]
fn values_that_memcached_refuses_are_refused() {
    for line in [
        "-c 0",
        "-t 0",
        "-R 0",
        "-n 0",
        "-f 1",
        "-Q",
        "-p",
        "-o foo",
        "-o hashpower=5",
        "-o hot_lru_pct=0",
        "-o tail_repair_time=5",
        "-o lru_crawler_sleep=1000001",
        "-o slab_automove_window=1",
        "-p 65536",
        "-U 65536",
        "-B http",
        "-I 1023",
        "-I 2g",
        "-I 33m",
        "-m 0",
        "-S -B ascii",
        "-S -B auto",
        "-Y /f -B auto",
        "-Y /f -B binary",
        "-S -Y /f",
        "-N 5",
        "-N 0",
        "-D",
        "-Z",
        "-o slab_sizes=1",
        "-o slab_sizes=100-100",
        "-o slab_sizes=40-100",
        "-o slab_sizes=100-600000",
        "-o slab_chunk_max=0",
        "-o slab_chunk_max=3",
        "-o slab_chunk_max=1000000",
        "-o slab_chunk_max=1024 -I 1500k",
        "-o answers_as=1.4",
        "-o temporary_ttl=5,no_lru_maintainer",
        "-o hot_lru_pct=41,warm_lru_pct=40",
        "-l foo:bar",
        "-l notls:127.0.0.1",
        "-Z -o ssl_chain_cert=/c",
        "-Z -p 0",
    ] {
        error(&line.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn contradictory_values_are_both_named() {
    for (line, message) in [
        (
            "-m 1 -I 1m",
            "option -I: 1048576 bytes are more than half of the 1048576 bytes of -m: give at most \
             524288, or raise -m",
        ),
        (
            "-o temporary_ttl=5,no_lru_maintainer",
            "option -o temporary_ttl: it cannot be set without lru_maintainer",
        ),
        (
            "-o hot_lru_pct=41",
            "option -o hot_lru_pct: 41 and the 40 of warm_lru_pct are more than 80 together",
        ),
        ("-S -B auto", "option -S: it needs -B binary, or no -B at all"),
        ("-Y /f -B binary", "option -Y: it needs -B ascii, or no -B at all"),
        ("-N 3 -t 2", "option -N: 3 are more than the 2 workers of -t"),
        (
            "-o slab_sizes=40-100",
            "option -o slab_sizes: 40 is not from 48, the size of -n, to 524288, that of \
            slab_chunk_max",
        ),
        (
            "-o slab_chunk_max=1000",
            "option -o slab_chunk_max: 1024000 bytes do not divide the 1048576 of -I",
        ),
        (
            "-o slab_chunk_max=1536 -I 1024",
            "option -o slab_chunk_max: 1536 bytes are more than the 1024 of -I",
        ),
        (
            "-o slab_chunk_max=768 -I 3m",
            "option -o slab_chunk_max: 786432 bytes do not divide 1 MiB",
        ),
    ] {
        assert_eq!(error(&line.split(' ').collect::<Vec<_>>()).message, message);
    }
    run(&["-o", "hot_lru_pct=40,warm_lru_pct=40", "-I", "32m"]);
}

#[test]
fn the_largest_item_is_half_of_a_small_memory_unless_it_is_given() {
    for (memory, item) in
        [("1", 512 << 10), ("1536k", 768 << 10), ("2", 1 << 20), ("4", 1 << 20), ("8", 1 << 20)]
    {
        assert_eq!(run(&["-m", memory]).0.item_bytes_max, item, "-m {memory}");
        let (options, _) = Options::from_map([("memory_limit", memory)]).unwrap();
        assert_eq!(options.item_bytes_max, item, "memory_limit = {memory}");
    }
    assert_eq!(run(&["-m", "1", "-I", "1k"]).0.item_bytes_max, 1024);
    let Invocation::Print(printed) = start(&["--print-config", "-m", "1"], &[], "").unwrap() else {
        panic!("not printed");
    };
    assert!(printed.contains("max_item_size = 524288  # default\n"), "{printed}");
}

#[test]
fn the_largest_class_is_in_kib_unless_it_cannot_be() {
    for (line, bytes) in [
        ("-C", 512 << 10),
        ("-I 1k", 512 << 10),
        ("-o no_modern", 1 << 20),
        ("-o no_chunked_items", 1 << 20),
        ("-o no_modern -I 2m", 512 << 10),
        ("-o slab_chunk_max=256,no_modern", 256 << 10),
        ("-o slab_chunk_max=1024", 1 << 20),
        ("-o slab_chunk_max=1024 -I 1k", 1024),
        ("-o slab_chunk_max=4096", 4096),
        ("-o slab_chunk_max=16384 -I 512k", 16_384),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(run(&words).0.slabs.chunk_bytes_max, bytes, "{line}");
    }
}

#[test]
fn authentication_selects_the_protocol_if_none_is_given() {
    use crate::Protocol::{Ascii, Auto, Binary};
    for (line, protocol) in [
        ("-C", Auto),
        ("-S", Binary),
        ("-S -B binary", Binary),
        ("-Y /f", Ascii),
        ("-Y /f -B ascii", Ascii),
        ("-B binary", Binary),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(run(&words).0.protocol, protocol, "{line}");
    }
}

#[test]
fn the_command_line_overrides_the_environment_the_file_and_the_defaults() {
    let file = "threads = 5\nconn_limit = 5\nlisten_backlog = 5\nverbose = 1\nlisten = \"a\"\n";
    let environment = [
        ("LARDER_THREADS", "6"),
        ("LARDER_CONN_LIMIT", "6"),
        ("LARDER_CONFIG", "larder.toml"),
        ("LARDER_LISTEN", "b"),
    ];
    let words = ["-t", "7", "-vv", "-l", "c", "-l", "d"];
    let Invocation::Run { options, .. } = start(&words, &environment, file).unwrap() else {
        panic!("not to run");
    };
    assert_eq!(options.worker_count, 7);
    assert_eq!(options.connection_count_max, 6);
    assert_eq!(options.backlog, 5);
    assert_eq!(options.commands_per_turn_max, 20);
    assert_eq!(options.verbosity, 2);
    assert_eq!(crate::value::listen::text(&options.listen), "c,d");
}

#[test]
fn the_file_of_the_command_line_is_read_and_not_that_of_the_environment() {
    let environment = [("LARDER_CONFIG", "missing.toml")];
    let words = ["--config", "larder.toml"];
    assert!(start(&words, &environment, "threads = 5").is_ok());
    assert_eq!(
        start(&[], &environment, "").unwrap_err().message,
        "option --config: missing.toml cannot be read: entity not found; expected a TOML file with \
         options, as larderd --print-config prints it"
    );
}

#[test]
fn without_a_name_no_file_is_read() {
    let was_read = Cell::new(false);
    let read_file = |_: &Path| {
        was_read.set(true);
        Ok(String::new())
    };
    let sources = |command_line| Sources {
        command_line,
        environment: &[],
        read_file: &read_file,
        memory_bound: &|| unreachable!("no percentage is given"),
        version: "1.6.45",
    };
    assert!(Invocation::read(&sources(&[])).is_ok());
    assert!(!was_read.get());
    Invocation::read(&sources(&["--config=larder.toml".to_owned()])).unwrap();
    assert!(was_read.get());
}

#[test]
fn pages_are_printed_without_reading_the_environment() {
    for (word, begin) in [
        ("-h", "memcached 1.6.45\nLarder "),
        ("--license", "memcached 1.6.45\nLarder "),
        ("-V", "memcached 1.6.45\nlarder 0."),
    ] {
        let request = start(&[word], &[("LARDER_PORT", "x")], "").unwrap();
        let Invocation::Print(text) = request else { panic!("{word}") };
        assert!(text.starts_with(begin), "{text}");
    }
}

#[test]
fn the_printed_configuration_can_be_read_again_and_names_the_source_of_each_value() {
    let words = ["--print-config", "-m", "1536k", "-I512k", "-l", "[::1]:1;b", "-D\"", "-a", "77"];
    let environment = [("LARDER_USER", "a\\b"), ("LARDER_CONFIG", "larder.toml")];
    let file = "# my cache\nthreads = 5\nslab_growth_factor = 2.0\n";
    let Invocation::Print(printed) = start(&words, &environment, file).unwrap() else {
        panic!("not printed");
    };
    for line in [
        "port = 11211  # default",
        "memory_limit = \"1536k\"  # command line",
        "listen = \"[::1]:1,b\"  # command line",
        "user = \"a\\\\b\"  # environment",
        "threads = 5  # larder.toml:2",
        "# pidfile: not set",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\nnot in\n{printed}");
    }
    let original = start(&words[1..], &environment, file).unwrap();
    let again = start(&["--config", "larder.toml"], &[], &printed).unwrap();
    let (Invocation::Run { options: original, .. }, Invocation::Run { options: again, .. }) =
        (original, again)
    else {
        panic!("not to run");
    };
    assert_eq!(crate::show::settings::settings(&original), crate::show::settings::settings(&again));
    assert_eq!(original.user, again.user);
}

#[test]
fn reading_the_default_configuration_again_gives_no_warning() {
    let Invocation::Print(printed) = start(&["--print-config"], &[], "").unwrap() else {
        panic!("not printed");
    };
    let Invocation::Run { options, warnings } =
        start(&["--config", "larder.toml"], &[], &printed).unwrap()
    else {
        panic!("not to run");
    };
    assert_eq!(warnings, [""; 0]);
    assert_eq!(
        crate::show::settings::settings(&options),
        crate::show::settings::settings(&Options::default())
    );
}

#[test]
fn options_without_effect_are_warned_about_once() {
    let (_, warnings) =
        run(&["-N2", "-o", "ext_threads=2,track_sizes,modern", "-f2", "-t65", "stray"]);
    assert_eq!(
        warnings,
        [
            "\"stray\" is not an option and has no effect",
            "option -N: it has no effect: Larder does not place connections by network queue",
            "option -o ext_threads: it has no effect: Larder reads its disk tier by io_uring, or by \
             eight threads of each worker",
            "option -t: 65 workers: more than 64 are not recommended",
        ]
    );
}

#[test]
fn a_server_that_clients_cannot_reach_is_warned_about() {
    let (_, warnings) = run(&["-p", "0"]);
    assert_eq!(warnings, ["option -p: with 0 and without -s, clients cannot connect"]);
    assert_eq!(run(&["-p", "0", "-s", "/s"]).1, [""; 0]);
}

#[test]
fn the_usual_start_of_memcacheds_suite_gives_no_warning() {
    let (options, warnings) = run(&["-s", "/s", "-u", "root", "-o", "relaxed_privileges"]);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(options.user.as_deref(), Some("root"));
}

#[test]
fn the_defaults_are_memcacheds() {
    let (options, warnings) = run(&[]);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(options, Options::default());
    assert_eq!((options.port, options.worker_count), (Some(11_211), 4));
    assert_eq!((options.memory_bytes, options.item_bytes_max), (64 << 20, 1 << 20));
    assert!(options.cas);
    assert!(options.evict);
    assert!(options.flush_all);
    assert!(options.maxconns_fast);
}

#[test]
fn a_printed_word_for_readers_can_be_read_again() {
    let words = ["--print-config", "-l", "*,unix[readers]:/a"];
    let Invocation::Print(printed) = start(&words, &[], "").unwrap() else {
        panic!("expected the configuration")
    };
    assert!(printed.contains("local_readers = \"same-uid\""), "{printed}");
    let Invocation::Run { options, .. } =
        start(&["--config", "larder.toml"], &[], &printed).unwrap()
    else {
        panic!("expected a start: {printed}")
    };
    assert!(options.has_readers());
}
