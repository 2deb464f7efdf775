//! A single process: it starts, is held at a step, receives signals, and continues.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use larder_server::Step::{self, *};
use larder_testkit::server::Signal;

use super::scene::{KINDS, Kind, Scene};
use super::{run_all, wants_all};

/// The steps of a start.
pub(crate) const START: &[Step] = &[
    SignalsCaught,
    SocketsListen,
    StopWatched,
    MemoryMapped,
    DirectoryRead,
    StopOrderly,
    CacheOpen,
    WorkersRun,
    OpeningEnded,
    PidfileWritten,
    Announced,
];

/// The steps of a start at which a signal to stop ends the process, even if the main thread is
/// busy.
pub(crate) const PROMPT: &[Step] = &[StopWatched, MemoryMapped, DirectoryRead, Rehearsed];

/// The steps of a stop.
pub(crate) const STOP: &[Step] = &[StopAsked, WorkersEnded, DiskEnded, HttpEnded];

/// The signals that a process receives while it is held.
const TOLD: &[&[Signal]] = &[
    &[Signal::TERM],
    &[Signal::KILL],
    &[Signal::TERM, Signal::TERM],
    &[Signal::INT],
    &[Signal::USR1],
    &[Signal::HUP],
    &[Signal::HUP, Signal::TERM],
    &[Signal::USR2],
    &[Signal::USR2, Signal::TERM],
    &[Signal::TERM, Signal::KILL],
];

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    step: Step,
    told: &'static [Signal],
}

/// Returns all cases, or only those that a change of the code would break first.
fn cases(steps: &[Step]) -> Vec<Case> {
    let told = if wants_all() { TOLD } else { &TOLD[..3] };
    let mut cases = Vec::new();
    for kind in KINDS {
        let is_reached = |step: &&Step| **step != DirectoryRead || kind.has_directory();
        for &step in steps.iter().filter(is_reached) {
            cases.extend(told.iter().map(|told| Case { kind, step, told }));
        }
    }
    cases
}

#[test]
fn a_signal_at_any_step_of_a_start_loses_nothing() {
    run_all(cases(START), |case| {
        let mut scene = Scene::new(case.kind)?;
        fill(&mut scene)?;
        scene.hold(case.step)?;
        let server = scene.start()?;
        scene.wait_for(server.pid, case.step)?;
        judge(*case, scene, server, vec!["kept"])
    });
}

#[test]
fn a_signal_at_any_step_of_a_stop_loses_nothing() {
    run_all(cases(STOP), |case| {
        let mut scene = Scene::new(case.kind)?;
        fill(&mut scene)?;
        scene.hold(case.step)?;
        let server = scene.serve()?;
        scene.set("acknowledged")?;
        server.signal(Signal::TERM)?;
        scene.wait_for(server.pid, case.step)?;
        judge(*case, scene, server, vec!["kept", "acknowledged"])
    });
}

/// A client connects while the directory opens, and is answered before the main thread begins to
/// check for signals. With this `--durability` the log is synced only once a minute, so that a stop
/// that is not orderly would lose the change.
#[test]
fn what_is_acknowledged_in_the_first_moment_stays() {
    let mut scene = Scene::new(Kind::Store).unwrap();
    scene.options = &["--durability", "interval=60000", "--tier-wait-secs", "20"];
    scene.hold(DirectoryRead).unwrap();
    scene.hold(OpeningEnded).unwrap();
    let mut server = scene.start().unwrap();
    scene.wait_for(server.pid, DirectoryRead).unwrap();
    let mut client = scene.connect().unwrap();
    client.write_all(b"set early 0 0 1\r\nv\r\n").unwrap();
    // Clients are accepted at this point, and wait.
    sleep(Duration::from_millis(300));
    scene.let_go(DirectoryRead).unwrap();
    scene.wait_for(server.pid, OpeningEnded).unwrap();
    assert_eq!(client.ask(b"", b"\r\n").unwrap(), b"STORED\r\n", "{}", scene.log());
    server.signal(Signal::TERM).unwrap();
    sleep(Duration::from_millis(100));
    assert!(!server.has_ended().unwrap(), "it ended as if it had answered nothing");
    scene.let_go(OpeningEnded).unwrap();
    assert!(server.wait(&scene).unwrap().success(), "{}", scene.log());
    scene.check_items(&["early"]).unwrap();
}

/// Leaves an item in the cache of a server that then ends.
fn fill(scene: &mut Scene) -> Result<()> {
    let mut server = scene.serve()?;
    scene.set("kept")?;
    server.signal(Signal::TERM)?;
    let status = server.wait(scene)?;
    ensure!(status.success(), "the first stop: {status}: {}", scene.log());
    Ok(())
}

/// Sends the signals to a server that is held, releases it, and checks its exit and the state that
/// it leaves.
fn judge(
    case: Case,
    mut scene: Scene,
    mut server: super::scene::Server,
    mut keys: Vec<&str>,
) -> Result<()> {
    for signal in case.told {
        // Fails if an earlier signal has ended the process.
        let _ = server.signal(*signal);
        // The threads that wait for signals receive each of them.
        sleep(Duration::from_millis(30));
    }
    if case.told[0] == Signal::TERM && PROMPT.contains(&case.step) {
        scene.wait_until("the process ends while it is held", || server.has_ended())?;
    }
    let is_killed = case.told.contains(&Signal::KILL);
    let is_told_to_stop =
        case.told.iter().any(|signal| [Signal::TERM, Signal::INT, Signal::USR1].contains(signal));
    let stops = is_killed || is_told_to_stop || STOP.contains(&case.step);
    scene.let_go(case.step)?;
    if !stops {
        // The server continues after these signals, and a later stop works like any other.
        if case.told.contains(&Signal::USR2) {
            let successor = scene.wait_for_new(Announced)?;
            scene.set("later")?;
            rustix::process::kill_process(successor, Signal::TERM)?;
            scene.wait_until("the successor ends", || Ok(super::scene::has_ended(successor)))?;
        } else {
            scene.wait_for(server.pid, Announced)?;
            scene.set("later")?;
            server.signal(Signal::TERM)?;
        }
        keys.push("later");
    }
    let status = server.wait(&scene)?;
    // A process that ended before the last signal was not killed by it.
    let was_killed = status.signal() == Some(Signal::KILL.as_raw());
    ensure!(status.success() || is_killed && was_killed, "it ends with {status}: {}", scene.log());
    let is_left = match case.kind {
        Kind::Memory => false,
        Kind::File | Kind::Store => true,
        // The directory is empty after a kill.
        Kind::Cache => !was_killed,
    };
    scene.check_items(if is_left { &keys } else { &[] })
}
