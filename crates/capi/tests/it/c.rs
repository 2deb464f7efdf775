//! Compiles C programs with the header and with the static and the shared library, and runs them.
#![cfg(target_os = "linux")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use larder_testkit::{Address, ServerUnderTest, Transport, larderd_of_this_build};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../c")
}

/// Returns the folder of the library: cargo puts it next to this test.
fn built() -> PathBuf {
    env::current_exe().unwrap().ancestors().nth(1).unwrap().to_path_buf()
}

/// System libraries that a static Rust library needs.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

/// The program that checks the contracts of the header.
const BEHAVIOUR: &[&str] = &[
    "tests/behaviour.c",
    "tests/connected.c",
    "tests/same_calls.c",
    "tests/tier.c",
    "tests/reports.c",
];

/// Compiles `sources` with these arguments.
fn compile(compiler: &str, sources: &[&str], words: &[&str], program: &Path) {
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-I"]);
    command.arg(folder().join("include")).arg("-o").arg(program);
    command.args(sources.iter().map(|source| folder().join(source)));
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn plays(program: &Path, socket: Option<&Path>) {
    plays_in(tempfile::tempdir().unwrap().path(), program, socket);
}

fn plays_in(folder: &Path, program: &Path, socket: Option<&Path>) {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).arg(folder).args(socket);
    let output = command.env("LD_LIBRARY_PATH", built()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.ends_with("all is so\n"), "{said}{complaints}");
}

#[test]
fn the_static_library_does_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("behaviour");
    let library = built().join("liblarder_c.a");
    let words = [&["-std=gnu11", library.to_str().unwrap()], &SYSTEM[..]].concat();
    compile("cc", BEHAVIOUR, &words, &program);
    plays(&program, None);
    let readable = ["--local-readers", "same-uid"];
    let larderd = larderd_of_this_build().unwrap();
    let server = ServerUnderTest::start(&larderd, Transport::Unix, &readable).unwrap();
    let Address::Unix(socket) = server.address() else {
        panic!("the server listens on a unix socket")
    };
    plays(&program, Some(socket));
}

#[test]
fn a_client_misses_nothing_beside_a_disk() {
    let larderd = larderd_of_this_build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("beside_disk");
    let library = built().join("liblarder_c.a");
    let words = [&["-std=gnu11", library.to_str().unwrap()], &SYSTEM[..]].concat();
    compile("cc", &["tests/beside_disk.c"], &words, &program);
    for mode in ["store", "cache"] {
        for io in ["uring", "epoll"] {
            let tier = folder.path().join(format!("{io}-{mode}"));
            let tier = ["--tier-path", tier.to_str().unwrap(), "--tier-mode", mode];
            let size = ["--tier-size", "1g", "-m", "4", "--io", io];
            let args = [&tier[..], &size, &["--local-readers", "same-uid"]].concat();
            let server = ServerUnderTest::start(&larderd, Transport::Unix, &args).unwrap();
            let Address::Unix(socket) = server.address() else {
                panic!("the server listens on a unix socket")
            };
            plays_in(Path::new(mode), &program, Some(socket));
        }
    }
}

#[test]
fn the_shared_library_does_too() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("behaviour");
    let library = built().join("liblarder_c.so");
    // The loader looks for the library by its soname.
    std::os::unix::fs::symlink(&library, folder.path().join("liblarder.so.1")).unwrap();
    let at = format!("-Wl,-rpath,{}", folder.path().display());
    let words = ["-std=gnu11", library.to_str().unwrap(), &at, "-lpthread"];
    compile("cc", BEHAVIOUR, &words, &program);
    plays(&program, None);
}

#[test]
fn nothing_is_read_or_written_where_it_must_not_be() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("behaviour");
    let library = built().join("liblarder_c.a");
    let words =
        [&["-std=gnu11", "-fsanitize=address,undefined", library.to_str().unwrap()], &SYSTEM[..]]
            .concat();
    compile("cc", BEHAVIOUR, &words, &program);
    plays(&program, None);
}

#[test]
fn the_header_is_for_strict_c11_and_for_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("example");
    let library = built().join("liblarder_c.a");
    let words = [&["-std=c11", library.to_str().unwrap()], &SYSTEM[..]].concat();
    compile("cc", &["examples/greeting.c"], &words, &program);
    let output = Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n");
    if Command::new("c++").arg("--version").output().is_ok() {
        let words = [&["-std=c++17", library.to_str().unwrap()], &SYSTEM[..]].concat();
        compile("c++", &["tests/header.cpp"], &words, &program);
    }
}
