//! Subcommands take the address of their server with `--server ADDR`, and the old forms still work.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use larder_testkit::Transport;

use crate::admin::Managed;
use crate::{Fixture, Ran, larder};

/// The subcommands with the option `--server`.
const WITH_SERVER: &[&str] = &[
    "get", "set", "delete", "stats", "ping", "export", "import", "doctor", "top", "keys", "hot",
    "drain", "kill", "replay", "bench",
];

/// The subcommands that use the admin listener, except `top`, in an order in which each succeeds.
const OF_ADMIN_LISTENER: &[&[&str]] =
    &[&["keys"], &["hot"], &["delete", "--prefix", "a:"], &["drain"], &["drain", "--undo"]];

fn help(subcommand: &str) -> String {
    String::from_utf8(larder(b"", &[subcommand, "--help"]).printed()).unwrap()
}

#[test]
fn each_help_names_a_server_by_one_option() {
    for subcommand in WITH_SERVER {
        let help = help(subcommand);
        assert!(help.contains("-s, --server <ADDR>"), "{subcommand}: {help}");
        for old in ["--admin ", "[ADDR]", "<ADDR|", " <TARGET>", " <SOURCE>"] {
            assert!(!help.contains(old), "{subcommand} shows {old:?}: {help}");
        }
    }
    for subcommand in ["inspect", "fsck"] {
        assert!(!help(subcommand).contains("--server"), "{subcommand} reads files only");
    }
}

/// Asserts that an old form works on a server, like `--server` and `-s`.
#[track_caller]
fn assert_same(new: &[&str], old: &[&str], address: &str, end: &[&str]) {
    let named = |option| larder(b"", &[new, &[option, address], end].concat());
    let is_done = |ran: &Ran| assert_eq!(ran.exit_code, 0, "{new:?} at {address}: {ran:?}");
    is_done(&named("--server"));
    is_done(&named("-s"));
    is_done(&larder(b"", &[old, &[address], end].concat()));
}

/// Returns all forms of the addresses of a server on a Unix socket and a server on a port.
fn addresses(unix: &Fixture, tcp: &Fixture) -> [String; 4] {
    let (path, port) = (unix.address(), tcp.address());
    let port_alone = port.rsplit_once(':').unwrap().1;
    [format!("unix:{path}"), format!("localhost:{port_alone}"), path, port]
}

#[test]
fn import_export_and_doctor_take_the_address_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("items.dump").display().to_string();
    let (unix, tcp) = (Fixture::start(), Fixture::start_on(Transport::Tcp, &["-m", "64"]));
    unix.larder("set", &["k", "v"]).printed();
    for address in addresses(&unix, &tcp) {
        assert_same(&["export"], &["export"], &address, &[&dump, "--quiet"]);
        let import = ["import", &dump];
        assert_same(&import, &import, &address, &["--quiet"]);
        let ignored = ["--ignore", "restart", "--ignore", "no-huge-pages"];
        assert_same(&["doctor"], &["doctor"], &address, &ignored);
    }
    assert_eq!(unix.larder("get", &["k"]).printed(), b"v");
}

#[test]
fn subcommands_of_the_cache_take_all_forms_of_an_address() {
    let (unix, tcp) = (Fixture::start(), Fixture::start_on(Transport::Tcp, &["-m", "64"]));
    for address in addresses(&unix, &tcp) {
        for args in [&["set", "k", "v"][..], &["get", "k"], &["stats"], &["ping"], &["delete", "k"]]
        {
            for option in ["-s", "--server"] {
                larder(b"", &["set", "k", "v", option, &address]).printed();
                larder(b"", &[args, &[option, &address]].concat()).printed();
            }
        }
    }
}

#[test]
fn subcommands_of_the_admin_listener_take_the_address_in_both_forms() {
    const TOKEN: &str = "0123456789-0123456789-0123456789";
    let folder = tempfile::tempdir().unwrap();
    let [tokens, token] = ["tokens", "token"].map(|name| folder.path().join(name));
    std::fs::write(&tokens, format!("full {TOKEN}\n")).unwrap();
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
    let [tokens, token] = [tokens, token].map(|path| path.display().to_string());
    let port = larder_testkit::server::free_address().unwrap().to_string();
    let path = folder.path().join("admin.sock").display().to_string();
    let listen = format!("{port};{path}");
    let args = ["--drain-grace", "0", "--admin-token-file", &tokens, "--admin-listen", &listen];
    let _server = Managed::start(&args);
    let token = ["--token-file", &token];
    for address in [format!("unix:{path}"), path.clone(), port] {
        for args in OF_ADMIN_LISTENER {
            assert_same(args, &[args, &["--admin"][..]].concat(), &address, &token);
        }
    }
    // It takes a second for each form.
    assert_same(&["top", "--once"], &["top", "--once", "--admin"], &path, &token);
}

#[test]
fn the_option_comes_before_the_environment() {
    let managed = Managed::start(&[]);
    for option in ["--server", "--admin"] {
        let ran = Command::new(env!("CARGO_BIN_EXE_larder"))
            .args(["keys", option, &managed.admin])
            .env("LARDER_ADMIN", "127.0.0.1:1")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{option}: {ran:?}");
    }
}

#[test]
fn both_forms_together_are_refused() {
    for args in [
        &["import", "f", "a:1", "--server", "b:1"][..],
        &["export", "a:1", "f", "--server", "b:1"],
        &["doctor", "a:1", "--server", "b:1"],
        &["top", "--admin", "a:1", "--server", "b:1"],
        &["keys", "--admin", "a:1", "--server", "b:1"],
        &["hot", "--admin", "a:1", "--server", "b:1"],
        &["drain", "--admin", "a:1", "--server", "b:1"],
        &["delete", "--prefix", "p", "--admin", "a:1", "--server", "b:1"],
        &["delete", "k", "--admin", "a:1", "--server", "b:1"],
    ] {
        let ran = larder(b"", args);
        ran.failed(2, "cannot be used with");
        ran.failed(2, "--server <ADDR>");
    }
}

/// A single path after `export` may be the file that the user wants to export. It must not be
/// overwritten.
#[test]
fn an_export_without_a_server_or_a_cache_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cache").display().to_string();
    std::fs::write(&file, "as it was").unwrap();
    let ran = larder(b"", &["export", &file]);
    ran.failed(2, "the destination of the export is missing: name a server with --server ADDR");
    assert_eq!(std::fs::read(&file).unwrap(), b"as it was");
    larder(b"", &["export", "--server", "localhost:1", &file]).failed(2, "cannot connect to");
    assert!(Path::new(&file).exists());
}

#[test]
fn without_an_address_the_server_is_that_of_this_machine() {
    for subcommand in ["get", "set", "delete", "stats", "ping", "import", "doctor", "bench"] {
        let help = help(subcommand);
        assert!(help.contains("[default: 127.0.0.1:11211]"), "{subcommand}: {help}");
    }
    for subcommand in ["top", "keys", "hot", "drain", "kill", "delete"] {
        let help = help(subcommand);
        assert!(help.contains("LARDER_ADMIN, or /run/larder/admin.sock"), "{subcommand}: {help}");
    }
}

/// The admin listener has no default port, so an address without a port is an error.
#[test]
fn the_address_of_an_admin_listener_has_a_port() {
    for subcommand in [&["keys"][..], &["hot"], &["top"], &["drain"], &["delete", "--prefix", "a"]]
    {
        for option in ["--server", "--admin"] {
            let ran = larder(b"", &[subcommand, &[option, "localhost"]].concat());
            ran.failed(2, "expected host:port");
        }
    }
}
