//! `-m` as a percentage.

use super::*;

#[test]
fn a_percentage_of_memory_becomes_bytes_before_other_options_depend_on_it() {
    for words in [&["-m", "80%"][..], &["--memory-limit=80%"], &["-m80%", "-I", "40m"]] {
        let (options, warnings) = run(words);
        assert_eq!(options.memory_bytes, 106 << 20, "{words:?}");
        let share = options.memory_share.expect("a percentage was given");
        assert_eq!((share.percent, share.fixed_bytes), (80, options.fixed_memory_bytes()));
        assert_eq!(warnings, [""; 0]);
    }
    assert_eq!(run(&["-m", "100"]).0.memory_share, None);
    let message = error(&["-m", "80%", "-I", "55m"]).message;
    assert!(message.contains("more than half of the 111149056 bytes of -m"), "{message}");
    let (options, _) = run(&["-m", "42%", "-c", "1"]);
    assert_eq!((options.memory_bytes >> 20, options.item_bytes_max), (11, 1 << 20));
}

#[test]
fn a_percentage_that_leaves_too_little_is_refused_with_its_figures() {
    assert_eq!(
        error(&["-m", "30%"]).message,
        "option -m: 30% of 256 MiB (memory.max of /g) minus 98 MiB for connections and the process \
         leaves 0 MiB, and a cache needs 8 MiB: raise that limit to 354 MiB or more, lower -c or -o \
         read_buf_mem_limit, or give -m in MiB"
    );
    let message = error(&["-m", "80%", "-c", "1000000"]).message;
    assert!(message.contains("minus 2049 MiB"), "{message}");
}

#[test]
fn the_printed_configuration_has_the_percentage_and_its_bytes() {
    let Invocation::Print(printed) = start(&["--print-config", "-m", "80%"], &[], "").unwrap()
    else {
        panic!("not printed");
    };
    let line = "memory_limit = \"80%\"  # command line; 106 MiB: 80% of 256 MiB (memory.max of /g) \
                minus 98 MiB for connections and the process";
    assert!(printed.lines().any(|printed| printed == line), "{printed}");
}
