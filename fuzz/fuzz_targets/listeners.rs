//! Reads arbitrary texts as addresses of `-l` and `--admin-listen`. The options must not panic, and
//! `--check` must accept a command line exactly if larderd would run with it. A larderd that reads
//! the output of `--print-config` must have the same listeners.
//!
//! The listeners are compared, not the texts: a list is shown in one of its forms, without tags,
//! empty members and leading zeros. Only complete lists are compared, because the members of a
//! valid list need not be valid separately: with TLS, one of them must be an address of TCP.
#![no_main]

use std::io;
use std::path::Path;

use arbitrary::Arbitrary;
use larder_options::{AdminListen, Invocation, Listen, Options, Sources};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    lists: Vec<(bool, Vec<Member<'a>>)>,
    has_tls: bool,
    has_unix_socket: bool,
}

/// A member of a list that is valid or almost valid. Random texts rarely are.
#[derive(Debug, Arbitrary)]
enum Member<'a> {
    Text(&'a str),
    Words { before: Vec<u8>, inside: Option<Vec<u8>>, place: u8, after: Vec<u8>, more: &'a str },
}

impl Member<'_> {
    fn text(&self) -> String {
        let pick = |from: &[&'static str], at: &u8| from[usize::from(*at) % from.len()];
        match self {
            Self::Text(text) => (*text).to_owned(),
            Self::Words { before, inside, place, after, more } => {
                let mut text: String = before.iter().map(|at| pick(BEFORE, at)).collect();
                let places = match inside {
                    None => PLACES,
                    Some(inside) => {
                        let inside: Vec<_> = inside.iter().map(|at| pick(INSIDE, at)).collect();
                        text.push_str(&format!("unix[{}]:", inside.join(",")));
                        PATHS
                    }
                };
                text.push_str(pick(places, place));
                text.push_str(more);
                text.extend(after.iter().map(|at| pick(AFTER, at)));
                text
            }
        }
    }
}

const BEFORE: &[&str] = &[
    "notls:",
    "btls:",
    "mtls:",
    "tls:",
    "proto[ascii]:",
    "proto[binary]:",
    "proto[negotiating]:",
    "tag[a]:",
    "tag_a_:",
    "readonly:",
    "unix:",
];
const INSIDE: &[&str] = &["mode=0660", "mode=7", "readers", "noauth", "readonly", " ", ""];
const PLACES: &[&str] = &["127.0.0.1", "[::1]:5", "::1", "fe80::1%eth0", "*:0", "*", "a.b:7", "5"];
const PATHS: &[&str] = &["/run/s", "./s", "/", "/é", "/a b"];
const AFTER: &[&str] = &[",role=probe", ",role=read", ",role=full", ",tls", ",mode=660", ":8"];

fuzz_target!(|input: Input<'_>| {
    let mut words: Vec<String> = Vec::new();
    for (is_admin, list) in &input.lists {
        let (option, separator) = if *is_admin { ("--admin-listen", ";") } else { ("-l", ",") };
        let members: Vec<_> = list.iter().map(Member::text).collect();
        words.extend([option.to_owned(), members.join(separator)]);
    }
    if input.has_tls {
        words.extend(["-Z", "-o", "ssl_chain_cert=/c,ssl_key=/k,ssl_ca_cert=/a"].map(Into::into));
    }
    if input.has_unix_socket {
        words.extend(["-s", "/socket"].map(Into::into));
    }
    let run = invoke(&words, "");
    check_agrees(&words, run.as_ref().map(|_| ()));
    let Ok(Invocation::Run { options, .. }) = run else { return };

    words.push("--print-config".to_owned());
    let Ok(Invocation::Print(config)) = invoke(&words, "") else {
        panic!("the options are valid: {words:?}")
    };
    let read = invoke(&["--config".to_owned(), "shown".to_owned()], &config);
    let Ok(Invocation::Run { options: again, .. }) = read else {
        panic!("{words:?}: {config}: {read:?}")
    };
    assert_eq!(listeners(&again), listeners(&options), "{words:?}: {config}");
    assert_eq!(again.tcp_addresses(), options.tcp_addresses());
    assert_eq!(again.udp_addresses(), options.udp_addresses());
    assert_eq!(again.unix_addresses(), options.unix_addresses());
    assert_eq!(again.local_readers, options.local_readers);
    let both = [("-l", texts(&options.listen)), ("--admin-listen", texts(&options.admin_listen))];
    assert_eq!(
        [("-l", texts(&again.listen)), ("--admin-listen", texts(&again.admin_listen))],
        both
    );
});

/// `--check` collects all errors, where a start ends at the first one.
fn check_agrees(words: &[String], run: Result<(), &larder_options::OptionError>) {
    let check = [words, &["--check".to_owned()]].concat();
    match invoke(&check, "") {
        Ok(Invocation::Check { options, .. }) => {
            assert_eq!(options.is_ok(), run.is_ok(), "{words:?}: {options:?} {run:?}");
        }
        other => panic!("{words:?}: {other:?}"),
    }
}

fn invoke(words: &[String], config: &str) -> Result<Invocation, larder_options::OptionError> {
    Invocation::read(&Sources {
        command_line: words,
        environment: &[],
        read_file: &|path: &Path| match path.to_str() {
            Some("shown") => Ok(config.to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        memory_bound: &|| unreachable!("-m is not given"),
        version: "1.6.45",
    })
}

fn listeners(options: &Options) -> (&[Listen], &[AdminListen]) {
    (&options.listen, &options.admin_listen)
}

fn texts(list: &[impl ToString]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}
