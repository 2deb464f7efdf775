//! `--check`: reports what a start would use and every reason why it would fail, without changing
//! anything.
//!
//! A check executes the same functions as a start, in the same order, as far as they change
//! nothing outside the process. It even switches to the user of `-u`, so that the kernel itself
//! judges the permissions. A thread executes the steps, so that a disk that hangs does not hang the
//! check.

mod findings;
mod in_use;
mod listeners;
pub(crate) mod permissions;
mod storage;

pub(crate) use storage::check_dump;

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use larder_options::{Discovery, Io, OptionError, Options};
use nix::unistd::{User, geteuid};

use crate::discovery;
use crate::failure::{EXIT_OS, EXIT_USAGE, Failure};
use crate::process::{limits, overdue, pidfile, privileges, start};
use crate::tls::certificates::Certificates;
use crate::tls::certificates::validity::Validity;
use findings::Findings;
use in_use::InUse;

/// Checks whether a server with these options could start. Prints what it would use on standard
/// output, and notes and problems on standard error. Returns the exit status that the start would
/// have; 0 if it would succeed.
pub fn check(options: Result<Options, Vec<OptionError>>, warnings: &[String]) -> u8 {
    for warning in warnings {
        findings::say(format_args!("{warning}"));
    }
    let mut findings = Findings::default();
    match options {
        Ok(options) => run(options, &mut findings),
        Err(errors) => {
            for error in errors {
                findings.problem(Failure::new(OptionError::EXIT_CODE, error));
            }
        }
    }
    findings.print()
}

/// A message of the thread that executes the steps.
enum Message {
    /// A step begins. The text names the files or names that it waits for.
    Begin(&'static str),
    /// The findings of a step.
    Found(Findings),
}

/// Executes the steps on a thread, and stops waiting if one takes too long.
fn run(options: Options, findings: &mut Findings) {
    let (sender, messages) = mpsc::channel();
    let begun = thread::Builder::new().name("check".to_owned());
    if let Err(error) = begun.spawn(move || execute(options, &sender)) {
        findings.problem(start::os_failure("start a thread", &error));
        return;
    }
    let mut waits_for = "";
    loop {
        match messages.recv_timeout(STEP_TIMEOUT) {
            Ok(Message::Begin(what)) => waits_for = what,
            Ok(Message::Found(found)) => findings.append(found),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                findings.problem(Failure::new(
                    EXIT_OS,
                    format_args!(
                        "{waits_for} did not respond within {} s, so a start would hang; check the \
                         disk or the name server",
                        STEP_TIMEOUT.as_secs()
                    ),
                ));
                // A thread that waits for a disk could keep the process alive.
                overdue::exit(findings.print());
            }
        }
    }
}

/// A step with the name of the things that it waits for.
type Step = (&'static str, fn(&mut State, &mut Findings));

/// The state of a check between its steps.
struct State {
    options: Options,
    listeners: Vec<Result<listeners::Listener, Failure>>,
}

/// The steps, in the order of a start.
const STEPS: [Step; 9] = [
    ("the file of a path of the options", |state, findings| {
        findings.take(start::make_absolute(&mut state.options));
    }),
    ("the disk of the certificates (-o ssl_chain_cert, ssl_key, ssl_ca_cert)", certificates),
    ("the disk of --admin-token-file", tokens),
    ("the name of an address (-l, --admin-listen)", resolve),
    ("the user of -u", user),
    ("the directory of a socket", |state, findings| {
        for listener in std::mem::take(&mut state.listeners) {
            if let Some(listener) = findings.take(listener) {
                listener.check(findings);
            }
        }
    }),
    ("the disk of the pid file, -e or --tier-path", storage),
    ("the disk of the users (-S, -Y, --users)", users),
    ("the disk of --cluster-file", cluster),
];

fn execute(options: Options, messages: &Sender<Message>) {
    let mut state = State { options, listeners: Vec::new() };
    for (waits_for, step) in STEPS {
        let mut findings = Findings::default();
        // The receiver lives until this thread has ended.
        let _ = messages.send(Message::Begin(waits_for));
        step(&mut state, &mut findings);
        let _ = messages.send(Message::Found(findings));
    }
}

fn certificates(state: &mut State, findings: &mut Findings) {
    let Some(tls) = &state.options.tls else { return };
    let loaded = Certificates::load(tls).map_err(|error| Failure::new(EXIT_USAGE, error));
    let Some(certificates) = findings.take(loaded) else { return };
    let ends = certificates.validity().map(Validity::ends);
    let ends = ends.map_or_else(String::new, |at| format!(", expires {at}"));
    findings.uses("TLS", format_args!("{}{ends}", certificates.path().display()));
    if let Some(warning) = certificates.warning() {
        findings.note(warning);
    }
}

fn tokens(state: &mut State, findings: &mut Findings) {
    if let Some(Some(tokens)) = findings.take(start::admin_tokens(&state.options)) {
        findings.uses("tokens", tokens.path().display());
    }
}

/// Resolves the addresses, and finds out who uses them while the process may still see that.
fn resolve(state: &mut State, findings: &mut Findings) {
    state.listeners = listeners::listeners(&state.options);
    let in_use = InUse::read();
    for listener in state.listeners.iter().flatten() {
        listener.note_use(&in_use, findings);
    }
}

fn user(state: &mut State, findings: &mut Findings) {
    let options = &state.options;
    let count = findings.take(limits::raise(options));
    findings.take(privileges::drop_root(options));
    let user = geteuid();
    let name = User::from_uid(user).ok().flatten().map_or_else(String::new, |of| of.name + ", ");
    findings.uses("user", format_args!("{name}uid {user}"));
    if let Some(count) = count {
        findings.uses("connections", format_args!("at most {count}"));
    }
    let io = match options.io {
        Io::Auto => "io_uring if the kernel allows it, otherwise epoll",
        Io::Uring => "io_uring",
        Io::Epoll => "epoll",
    };
    findings.uses("workers", format_args!("{}, {io}", options.worker_count));
}

fn storage(state: &mut State, findings: &mut Findings) {
    let options = &state.options;
    if let Some(path) = &options.pidfile {
        findings.uses("pid file", path.display());
        if let Some(Some(pid)) = findings.take(pidfile::check(path)) {
            findings.note(format_args!(
                "option -P: {} contains the id of running process {pid}, and a start overwrites it",
                path.display()
            ));
        }
    }
    storage::check(options, findings);
}

fn users(state: &mut State, findings: &mut Findings) {
    if let Some(Some(users)) = findings.take(start::credentials(&state.options)) {
        findings.uses("users", users.path().display());
    }
    if let Some(path) = &state.options.users
        && findings.take(start::check_users(path)).is_some()
    {
        findings.uses("users", path.display());
    }
}

fn cluster(state: &mut State, findings: &mut Findings) {
    match &state.options.discovery {
        Some(Discovery::File(path)) => {
            let read = discovery::first(path).map_err(|error| Failure::new(EXIT_USAGE, error));
            if let Some(list) = findings.take(read) {
                findings.uses("cluster", format_args!("{}, {list}", path.display()));
            }
        }
        // A start does not wait until it is resolved.
        Some(Discovery::Name(name)) => findings.uses("cluster", name),
        None => {}
    }
}

/// How long a step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(15);
