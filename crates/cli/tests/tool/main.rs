//! Tests that run the binary `larder` like a user.
//!
//! The environment variable `LARDERD` names the server; without it the tests use the larderd of the
//! same build.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod admin;
mod backup;
mod bench;
mod bench_live;
mod bench_login;
mod bench_lost;
mod commands;
mod compare;
mod delete_everywhere;
mod directories;
mod doctor;
mod doctor_disk;
mod doctor_kernel;
mod doctor_near;
mod hostile;
mod messages;
mod passwd;
mod regions;
mod replay;
mod secured;
mod servers;
mod shadow;
mod top;
mod transfer;
mod warm;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::spawn;

use larder_testkit::{Address, ServerUnderTest, Transport};

/// Returns the path of the server's binary.
fn binary() -> PathBuf {
    larder_testkit::larderd_of_this_build().unwrap()
}

/// A running server and the tool pointed at it.
struct Fixture {
    server: ServerUnderTest,
}

impl Fixture {
    fn start() -> Self {
        Self::start_with(&["-m", "64"])
    }

    fn start_with(args: &[&str]) -> Self {
        Self::start_on(Transport::Unix, args)
    }

    fn start_on(transport: Transport, args: &[&str]) -> Self {
        Self { server: ServerUnderTest::start(&binary(), transport, args).unwrap() }
    }

    /// Returns the address in the form that `--server` takes.
    fn address(&self) -> String {
        match self.server.address() {
            Address::Unix(path) => path.display().to_string(),
            Address::Tcp(address) => address.to_string(),
        }
    }

    /// Runs `larder SUBCOMMAND --server ADDR ARGS`.
    fn larder(&self, subcommand: &str, args: &[&str]) -> Ran {
        self.larder_reading(b"", subcommand, args)
    }

    fn larder_reading(&self, stdin: &[u8], subcommand: &str, args: &[&str]) -> Ran {
        let address = self.address();
        larder(stdin, &[&[subcommand, "--server", &address], args].concat())
    }
}

/// The output and the exit code of a run of the tool.
#[derive(Debug, PartialEq)]
struct Ran {
    exit_code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    /// Asserts that the run succeeded without output on stderr. Returns its output.
    #[track_caller]
    fn printed(self) -> Vec<u8> {
        assert_eq!((self.exit_code, &*self.stderr), (0, ""), "{self:?}");
        self.stdout
    }

    /// Asserts the exit code and a part of stderr.
    #[track_caller]
    fn failed(&self, exit_code: i32, said: &str) {
        assert_eq!(self.exit_code, exit_code, "{self:?}");
        assert!(self.stderr.contains(said), "{:?} lacks {said:?}", self.stderr);
    }

    /// Returns the value of a line `name=value`.
    #[track_caller]
    fn value(&self, name: &str) -> String {
        let text = String::from_utf8(self.stdout.clone()).unwrap();
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let value = lines.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned());
        value.unwrap_or_else(|| panic!("no {name}= in {text}{}", self.stderr))
    }
}

/// Runs the tool to its end.
fn larder(stdin: &[u8], args: &[&str]) -> Ran {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The tool may exit before it has read all of its stdin.
    tool.stdin.take().unwrap().write_all(stdin).ok();
    let Output { status, stdout, stderr } = tool.wait_with_output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    Ran { exit_code: status.code().unwrap(), stdout, stderr }
}

/// Starts a server that calls `serve` in a thread for each connection. Returns its address.
fn start_server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    spawn(move || {
        for stream in listener.incoming() {
            let (serve, stream) = (serve.clone(), stream.unwrap());
            spawn(move || serve(stream));
        }
    });
    address
}
