use proptest::prelude::*;

use super::*;

fn listen(host: impl Into<Option<&'static str>>, port: impl Into<Option<u16>>) -> Listen {
    secured(host, port, Security::Default)
}

fn secured(
    host: impl Into<Option<&'static str>>,
    port: impl Into<Option<u16>>,
    security: Security,
) -> Listen {
    let (host, port) = (host.into().map(str::to_owned), port.into());
    let place = ListenPlace::Tcp { host, port, security };
    Listen { place, protocol: None, is_readonly: false }
}

/// Returns a unix socket with these of the words `readers`, `readonly` and `noauth`.
fn unix(path: &str, mode: Option<u32>, words: &[&str]) -> Listen {
    let has = |word: &str| words.contains(&word);
    let (has_readers, needs_no_login) = (has("readers"), has("noauth"));
    Listen {
        place: ListenPlace::Unix { path: path.into(), mode, has_readers, needs_no_login },
        protocol: None,
        is_readonly: has("readonly"),
    }
}

#[test]
fn hosts_with_and_without_ports_in_one_list() {
    assert_eq!(
        parse("127.0.0.1,cache-1.example:11212;[::1]:11213,*:0;*, ::1,,[fe80::1%eth0]"),
        Ok(vec![
            listen("127.0.0.1", None),
            listen("cache-1.example", 11_212),
            listen("::1", 11_213),
            listen(None, 0),
            listen(None, None),
            listen("::1", None),
            listen("fe80::1%eth0", None),
        ])
    );
}

#[test]
fn prefixes_select_tls_mode_and_protocol() {
    for (text, security, protocol) in [
        ("notls:10.0.0.1:1", Security::Plain, None),
        ("btls:10.0.0.1:1", Security::Tls, None),
        ("mtls:10.0.0.1:1", Security::MutualTls, None),
        ("proto[ascii]:10.0.0.1:1", Security::Default, Some(Protocol::Ascii)),
        ("proto[binary]:10.0.0.1:1", Security::Default, Some(Protocol::Binary)),
        ("notls:proto[negotiating]:tag[rack]:10.0.0.1:1", Security::Plain, Some(Protocol::Auto)),
        ("proto[ascii]:mtls:10.0.0.1:1", Security::MutualTls, Some(Protocol::Ascii)),
        ("mtls:tag_rack_:10.0.0.1:1", Security::MutualTls, None),
    ] {
        let expected = Listen { protocol, ..secured("10.0.0.1", 1, security) };
        assert_eq!(parse(text), Ok(vec![expected]), "{text}");
    }
    let readonly = Listen { is_readonly: true, ..secured("::1", 1, Security::Tls) };
    assert_eq!(parse("readonly:btls:[::1]:1"), Ok(vec![readonly]));
}

#[test]
fn unix_sockets_have_words_in_brackets_and_stand_next_to_ports() {
    let ascii = Listen { protocol: Some(Protocol::Ascii), ..unix("./c", None, &["readonly"]) };
    assert_eq!(
        parse(
            "127.0.0.1,unix[mode=0660,readers]:/run/larder.sock;unix:/a b, proto[ascii]:\
               readonly:unix[]:./c,unix[ noauth, readonly , readers ]:/d,::1"
        ),
        Ok(vec![
            listen("127.0.0.1", None),
            unix("/run/larder.sock", Some(0o660), &["readers"]),
            unix("/a b", None, &[]),
            ascii,
            unix("/d", None, &["noauth", "readonly", "readers"]),
            listen("::1", None),
        ])
    );
}

/// In memcached these are hosts with a port.
#[test]
fn a_new_word_before_a_port_is_the_name_of_a_host() {
    for host in ["unix", "readonly", "readers", "noauth", "tls"] {
        let text = format!("{host}:11211");
        assert_eq!(parse(&text), Ok(vec![listen(host, 11_211)]), "{text}");
        assert_eq!(parse(host), Ok(vec![listen(host, None)]));
    }
}

#[test]
fn a_bad_address_is_refused_with_what_was_expected() {
    for (text, words) in [
        ("", "a list of"),
        (",;", "a list of"),
        ("foo:bar", "port 0 to 65535"),
        ("127.0.0.1:65536", "port 0 to 65535"),
        ("127.0.0.1:-1", "port 0 to 65535"),
        ("[::1", "between [ and ]"),
        ("[127.0.0.1]:1", "between [ and ]"),
        ("[::1]x", "a list of"),
        (":11211", "a list of"),
        ("a b", "a list of"),
        ("a/b", "a list of"),
        ("ssl:127.0.0.1", "port 0 to 65535"),
        ("tls:127.0.0.1", "no word tls:"),
        ("proto[proxy]:127.0.0.1", "no proxy"),
        ("proto[xml]:127.0.0.1", "proto[binary]"),
        ("proto[ascii:127.0.0.1", "a list of"),
        ("tag[123456789]:127.0.0.1", "1 to 8"),
        ("noauth:127.0.0.1", "for unix sockets only"),
        ("readers:*:1", "for unix sockets only"),
        ("readonly:notls:5", "not a number"),
        ("unix:run/s", "begins with / or ."),
        ("unix:@name", "begins with / or ."),
        ("unix:", "unix:PATH"),
        ("unix[readers]:11211", "begins with / or ."),
        ("unix[readers:/s", "unix[WORDS]:PATH"),
        ("unix[readers]/s", "unix[WORDS]:PATH"),
        ("unix[reader]:/s", "\"reader\" is not one of these words"),
        ("unix[mode=8]:/s", "in octal"),
        ("unix[mode=1000]:/s", "in octal"),
        ("unix[mode]:/s", "\"mode\" is not one of these words"),
        ("unix[proto=ascii]:/s", "is not one of these words"),
        ("unix:/s[1]", "none of , ; [ ]"),
        ("unix:/s\0", "none of , ; [ ]"),
        ("127.0.0.1;unix:/s[1,*", "none of , ; [ ]"),
    ] {
        let expected = parse(text).unwrap_err();
        assert!(expected.contains(words), "{text:?}: {expected}");
    }
}

#[test]
fn words_that_contradict_each_other_or_are_there_twice_are_refused() {
    for (text, words) in [
        ("notls:mtls:*", "notls: and mtls: contradict each other"),
        ("mtls:proto[ascii]:btls:*", "mtls: and btls: contradict each other"),
        ("notls:notls:*", "notls: is there twice"),
        ("proto[ascii]:proto[ascii]:*", "proto[…]: is there twice"),
        ("tag[a]:tag_b_:*", "tag[…]: is there twice"),
        ("readonly:readonly:*", "readonly is there twice"),
        ("readonly:unix[readonly]:/s", "readonly is there twice"),
        ("unix[readers,readers]:/s", "readers is there twice"),
        ("unix[noauth,noauth]:/s", "noauth is there twice"),
        ("unix[mode=600,mode=660]:/s", "mode= is there twice"),
        ("unix:unix:/s", "unix is there twice"),
        ("mtls:unix:/s", "an address of TCP after mtls:"),
        ("notls:unix:/s", "an address of TCP after notls:"),
        ("tag[a]:unix:/s", "an address of TCP after tag"),
    ] {
        let expected = parse(text).unwrap_err();
        assert!(expected.contains(words), "{text:?}: {expected}");
    }
}

#[test]
fn a_list_is_shown_as_it_is_given() {
    let given = "127.0.0.1,[::1]:11213,*:0,notls:proto[ascii]:*,mtls:readonly:10.0.0.1:3,\
                 unix:/run/s,proto[binary]:unix[mode=660,readers,readonly,noauth]:./t";
    assert_eq!(text(&parse(given).unwrap()), given);
}

/// Pieces of addresses. Texts made of them are often valid and often almost valid.
const PIECES: [&str; 38] = [
    "notls:",
    "btls:",
    "mtls:",
    "tls:",
    "proto[",
    "ascii",
    "binary",
    "negotiating",
    "tag[",
    "a",
    "tag_a_:",
    "readonly",
    "readonly:",
    "unix",
    "unix:",
    "unix[",
    "mode=",
    "660",
    "readers",
    "noauth",
    "[",
    "]",
    "]:",
    ":",
    ",",
    ";",
    "/",
    ".",
    "/run/s",
    "*",
    "::1",
    "[::1]",
    "%",
    "5",
    "127.0.0.1",
    "\0",
    " ",
    "é",
];

proptest! {
    #[test]
    fn any_text_is_an_error_or_is_shown_as_a_text_with_the_same_meaning(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14),
        other in ".{0,30}",
    ) {
        for given in [pieces.concat(), other.clone(), pieces.concat() + &other] {
            if let Ok(list) = parse(&given) {
                let shown = text(&list);
                prop_assert_eq!(parse(&shown), Ok(list), "{:?}: {:?}", given, shown);
            }
        }
    }
}
