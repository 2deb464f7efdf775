//! Servers with TLS, client certificates and logins, and the error for each missing or wrong
//! credential.

mod admin;
pub(crate) mod certificates;

use std::process::{Command, Output};

use larder_testkit::{ServerUnderTest, Transport};

use self::certificates::{Files, authority, identity};
use crate::{Fixture, Ran, binary, larder};

/// The certificates of a server and of its clients.
struct Scene {
    files: Files,
    /// The authority of the server and its clients.
    ca: String,
    /// The options of a server with TLS.
    words: String,
    /// Options of the tool: a client certificate of that authority, and one of another authority.
    client: [String; 4],
    stranger: [String; 4],
}

impl Scene {
    fn new() -> Self {
        let files = Files::new();
        let (ours, ca) = authority(&files, "ours");
        let (theirs, _) = authority(&files, "theirs");
        let [chain, key] = identity(&files, "server", &ours);
        let words = format!("ssl_chain_cert={chain},ssl_key={key},ssl_ca_cert={ca}");
        let options = |[certificate, key]: [String; 2]| {
            ["--tls-cert".to_owned(), certificate, "--tls-key".to_owned(), key]
        };
        let client = options(identity(&files, "client", &ours));
        let stranger = options(identity(&files, "stranger", &theirs));
        Self { files, ca, words, client, stranger }
    }

    /// Starts a server with TLS, `words` for `-o`, and more options.
    fn start(&self, words: &str, args: &[&str]) -> Fixture {
        let words = format!("{}{words}", self.words);
        Fixture::start_on(Transport::Tcp, &[&["-Z", "-o", &words], args].concat())
    }

    /// Returns the options of a tool that trusts the authority.
    fn tls(&self) -> [&str; 3] {
        ["--tls", "--tls-ca", &self.ca]
    }
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Runs the tool with a password in the environment.
pub(crate) fn with_password(password: &str, args: &[&str]) -> Ran {
    let run = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(args)
        .env("LARDER_PASSWORD", password)
        .output();
    let Output { status, stdout, stderr } = run.unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    Ran { exit_code: status.code().unwrap(), stdout, stderr }
}

/// Runs each subcommand that speaks the text protocol on the server with these options, and checks
/// its result: an import restores the items of an export.
fn check_all_subcommands(fixture: &Fixture, files: &Files, options: &[&str]) {
    let address = fixture.address();
    let on_server =
        |name: &str, args: &[&str]| fixture.larder(name, &[args, options].concat()).printed();
    let at = |args: &[&str]| larder(b"", &[args, options].concat());
    let large = "v".repeat(200_000);
    on_server("set", &["small", "value"]);
    fixture.larder_reading(large.as_bytes(), "set", &[&["large"], options].concat()).printed();
    assert_eq!(on_server("get", &["small"]), b"value");
    assert!(on_server("stats", &["--raw"]).starts_with(b"STAT pid "));
    assert!(on_server("ping", &[]).starts_with(address.as_bytes()));
    let dump = files.write("dump", "");
    assert_eq!(at(&["export", "--server", &address, &dump, "--quiet"]).printed(), b"");
    on_server("delete", &["small", "large"]);
    assert_eq!(on_server("stats", &["--raw", "reset"]), b"");
    at(&["import", &dump, "--server", &address, "--quiet"]).printed();
    assert_eq!(on_server("get", &["small"]), b"value");
    assert_eq!(on_server("get", &["large"]), large.as_bytes());
    let examined =
        at(&["doctor", "--server", &address, "--ignore=restart", "--ignore=no-huge-pages"]);
    assert_eq!(examined.stderr, "", "{examined:?}");
}

#[test]
fn every_subcommand_speaks_tls_and_logs_in() {
    let scene = Scene::new();
    let users = scene.files.write("users", "ops:pass-word\n");
    let password = scene.files.write("password", "pass-word\n");
    let login = ["--user", "ops", "--password-file", &password];
    let tls = scene.tls();
    let plain = Fixture::start_on(Transport::Tcp, &["-Y", &users]);
    check_all_subcommands(&plain, &scene.files, &login);
    check_all_subcommands(&scene.start("", &[]), &scene.files, &tls);
    let demanding = scene.start(",ssl_verify_mode=2", &["-Y", &users]);
    let client = strs(&scene.client);
    check_all_subcommands(&demanding, &scene.files, &[&tls[..], &client, &login].concat());
    let address = demanding.address();
    let ping = [&["ping", "-s", &address, "--user=ops"], &tls[..], &client].concat();
    with_password("pass-word", &ping).printed();
    with_password("other", &ping).failed(2, "refuses the login of \"ops\"");
}

/// Over TLS memcached leaves some requests unread if they arrive together.
#[test]
fn many_items_move_between_servers_with_tls() {
    let scene = Scene::new();
    let (source, target) = (scene.start("", &[]), scene.start("", &[]));
    let tls = scene.tls();
    let keys = ["--keys=3000", "--value-bytes=0-5000", "--seconds=1", "--connections=1"];
    source.larder("bench", &[&keys[..], &tls].concat()).printed();
    let dump = scene.files.write("dump", "");
    larder(b"", &[&["export", "--server", &source.address(), &dump, "--quiet"], &tls[..]].concat())
        .printed();
    larder(b"", &[&["import", &dump, "--server", &target.address(), "--quiet"], &tls[..]].concat())
        .printed();
    let check = ["--no-load", "--mode=get", "--json"];
    let ran = target.larder("bench", &[&keys[..], &check, &tls].concat());
    let counted = crate::bench::json(ran.printed());
    assert_eq!((&counted["hit_ratio"], &counted["wrong_values"]), (&1.0.into(), &0.into()));
}

#[test]
fn a_trace_is_replayed_over_tls() {
    let scene = Scene::new();
    let fixture = scene.start("", &[]);
    let lines: String = (0..200).map(|number| format!("{},100\n", number % 50)).collect();
    let trace = zstd::encode_all(lines.as_bytes(), 0).unwrap();
    let path = scene.files.write("trace.csv.zst", "");
    std::fs::write(&path, trace).unwrap();
    let ran = fixture.larder("replay", &[&["--trace", &path], &scene.tls()[..]].concat());
    assert_eq!((ran.value("agree"), ran.value("hits")), ("yes".to_owned(), "150".to_owned()));
}

/// Asserts that each of the subcommands fails with an error that contains `words`.
#[track_caller]
fn all_fail(address: &str, options: &[&str], words: &str) {
    let dump = tempfile::NamedTempFile::new().unwrap();
    let empty = dump.path().display().to_string();
    larder_dump_of_nothing(&empty);
    for subcommand in [
        &["get", "-s", address, "k"][..],
        &["ping", "-s", address],
        &["export", "--server", address, "-", "--quiet"],
        &["import", &empty, "--server", address, "--quiet"],
        &["doctor", "--server", address],
    ] {
        let ran = larder(b"", &[subcommand, options].concat());
        assert_eq!(ran.exit_code, 2, "{subcommand:?} {options:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{subcommand:?}: {:?} lacks {words:?}", ran.stderr);
    }
}

/// Writes a dump without items. An import of it still connects to the server.
fn larder_dump_of_nothing(path: &str) {
    let fixture = Fixture::start();
    larder(b"", &["export", "--server", &fixture.address(), path, "--quiet"]).printed();
}

#[test]
fn a_server_that_cannot_be_trusted_is_named() {
    let scene = Scene::new();
    let fixture = scene.start("", &[]);
    let (_, other) = authority(&scene.files, "other");
    let address = fixture.address();
    let untrusted = "certificate is not signed by an authority of --tls-ca";
    all_fail(&address, &["--tls", "--tls-ca", &other], untrusted);
    let elsewhere = [&scene.tls()[..], &["--tls-name=elsewhere"]].concat();
    all_fail(&address, &elsewhere, "not for elsewhere: --tls-name gives the name");
}

#[test]
fn a_tool_without_tls_learns_that_the_server_has_it_and_the_reverse() {
    let scene = Scene::new();
    all_fail(&scene.start("", &[]).address(), &[], "speaks TLS: add --tls and --tls-ca FILE");
    let plain = Fixture::start_on(Transport::Tcp, &[]);
    larder(b"", &[&["ping", "-s", &plain.address()], &scene.tls()[..]].concat())
        .failed(2, "does not speak TLS: leave --tls out");
}

#[test]
fn a_missing_or_foreign_client_certificate_is_named() {
    let scene = Scene::new();
    for versions in ["", ",ssl_min_version=3"] {
        let fixture = scene.start(&format!(",ssl_verify_mode=2{versions}"), &[]);
        let address = fixture.address();
        all_fail(&address, &scene.tls(), "demand");
        all_fail(&address, &scene.tls(), "--tls-cert FILE and --tls-key FILE");
        let stranger = [&scene.tls()[..], &strs(&scene.stranger)].concat();
        all_fail(&address, &stranger, "the certificate of --tls-cert must be");
    }
}

#[test]
fn a_login_that_is_missing_wrong_or_without_password_is_named() {
    let files = Files::new();
    let users = files.write("users", "ops:secret\n");
    let wrong = files.write("wrong", "Secret\n");
    let fixture = Fixture::start_on(Transport::Tcp, &["-Y", &users]);
    let address = fixture.address();
    all_fail(&address, &[], "(-Y): give --user NAME and --password-file FILE");
    let wrong = ["--user=ops", "--password-file", &wrong];
    all_fail(&address, &wrong, "refuses the login of \"ops\": CLIENT_ERROR authentication failure");
    all_fail(&address, &["--user=ops"], "give --password-file FILE, or set LARDER_PASSWORD");
    let two = files.write("two", "a\nb\n");
    all_fail(&address, &["--user=ops", "--password-file", &two], "expected one line");
    let endless = ["--user=ops", "--password-file=/dev/zero"];
    all_fail(&address, &endless, "expected one line");
    let ran = with_password("a\nb", &["ping", "-s", &address, "--user=ops"]);
    ran.failed(2, "LARDER_PASSWORD: expected one line");
    assert!(!ran.stderr.contains("a\\nb"), "the password is shown: {ran:?}");
}

#[test]
fn a_server_with_only_the_binary_protocol_is_named() {
    let scene = Scene::new();
    let users = scene.files.write("users", "ops:secret\n");
    let password = scene.files.write("password", "secret\n");
    let login = ["--user", "ops", "--password-file", &password];
    let pwdb = [("MEMCACHED_SASL_PWDB", &*users)];
    let words = "takes only the binary protocol, as with -S (SASL)";
    for (args, tls) in [
        (&["-S"][..], &[][..]),
        (&["-S", "-Z", "-o", &scene.words], &scene.tls()),
        (&["-B", "binary"], &[]),
    ] {
        let server = ServerUnderTest::start_with(&binary(), Transport::Tcp, args, &pwdb);
        let fixture = Fixture { server: server.unwrap() };
        all_fail(&fixture.address(), tls, words);
        all_fail(&fixture.address(), &[tls, &login].concat(), words);
    }
}

#[test]
fn options_that_have_no_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache");
    drop(larder::Cache::builder().memory_bytes(4 << 20).shared(&file).open().unwrap());
    let file = file.display().to_string();
    for (args, words) in [
        (&["export", &file, "-", "--tls"][..], "--tls has no effect: a memory file is read"),
        (&["doctor", &file, "--user=a"], "--user has no effect: a memory file is read"),
        (&["ping", "--tls"], "--tls needs --tls-ca FILE"),
        (&["ping", "--tls-ca=x"], "--tls-ca needs --tls"),
        (&["ping", "--tls", "--tls-ca=x", "--tls-cert=x"], "belong together"),
        (&["ping", "--tls", "--tls-ca=x", "-s", "./s"], "needs --tls-name"),
        (&["ping", "--tls", "--tls-ca=/nowhere/x"], "cannot read certificates in /nowhere/x"),
        (&["ping", "--password-file=x"], "--password-file needs --user"),
        (
            &["keys", "--server", "./s", "--tls"],
            "is a Unix socket, where the admin listener has no TLS",
        ),
        (&["delete", "--prefix=a", "--user=b"], "--user has no effect: --prefix uses the admin"),
    ] {
        larder(b"", args).failed(2, words);
    }
}

/// No option of the tool takes the password itself.
#[test]
fn no_option_takes_a_password() {
    for subcommand in ["ping", "export", "import", "doctor", "replay", "bench", "top"] {
        let help = String::from_utf8(larder(b"", &[subcommand, "--help"]).printed()).unwrap();
        assert!(help.contains("--tls-ca <FILE>"), "{subcommand}: {help}");
        assert!(!help.contains("--password "), "{subcommand}: {help}");
    }
}
