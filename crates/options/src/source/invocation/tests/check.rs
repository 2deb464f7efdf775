//! `--check`.

use super::*;

fn checked(command_line: &[&str], file: &str) -> (Result<Options, Vec<String>>, Vec<String>) {
    match start(command_line, &[("LARDER_THREADS", "3")], file).unwrap() {
        Invocation::Check { options, warnings } => {
            let messages = |errors: Vec<OptionError>| {
                errors.into_iter().map(|error| error.message).collect::<Vec<_>>()
            };
            (options.map(|options| *options).map_err(messages), warnings)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_check_reads_the_same_options_and_takes_a_word_as_the_file() {
    for words in [
        &["--check", "larder.toml", "-m", "8"][..],
        &["-m8", "larder.toml", "--check"],
        &["--check", "--config", "larder.toml", "-m", "8"],
    ] {
        let (options, warnings) = checked(words, "port = 7\n");
        let options = options.unwrap();
        let read = (options.port, options.memory_bytes >> 20, options.worker_count);
        assert_eq!((read, warnings), ((Some(7), 8, 3), Vec::new()), "{words:?}");
    }
    let (_, warnings) = checked(&["--check", "larder.toml", "more"], "");
    assert_eq!(warnings, ["\"more\" is not an option and has no effect"]);
    let (options, _) = checked(&["--check", "none.toml"], "");
    assert!(options.unwrap_err()[0].starts_with("option --config: none.toml cannot be read: "));
}

#[test]
fn a_check_names_all_errors_and_a_start_the_first() {
    let words = ["--check", "-t", "0", "-o", "foo,idle_timeout", "larder.toml", "-Q"];
    let file = "prot = 1\nmemory_limit = []\n";
    let (options, _) = checked(&words, file);
    let errors = options.unwrap_err();
    let begin = [
        "option -t: ",
        "option -o: there is no word \"foo\"",
        "option -o idle_timeout: ",
        "",
        "larder.toml:1: \"prot\"",
        "larder.toml:2: memory_limit",
    ];
    assert_eq!(errors.len(), begin.len(), "{errors:#?}");
    for (error, begin) in errors.iter().zip(begin) {
        assert!(error.starts_with(begin), "{error}: {begin}");
    }
    let start = start(&["-t", "0", "-o", "foo", "--config", "larder.toml"], &[], file);
    assert_eq!(start.unwrap_err().message, errors[0]);
    let (options, _) = checked(&["--check", "-I", "1g", "--tier-mode", "store"], "");
    assert_eq!(options.unwrap_err().len(), 2, "contradictions");
}
