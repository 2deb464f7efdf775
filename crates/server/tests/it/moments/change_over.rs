//! A changeover has two processes. A successor starts, one of the processes is held at a step, and
//! one of them receives a signal.

use anyhow::{Result, ensure};
use larder_server::Step::{self, *};
use larder_testkit::server::Signal;
use rustix::process::{Pid, kill_process};

use super::scene::{KINDS, Kind, Scene, has_ended};
use super::start_and_stop::{PROMPT, START};
use super::{run_all, wants_all};

/// The steps that exist only in a changeover.
pub(crate) const STEPS: &[Step] = &[Rehearsed, DirectoryTaken, Retired, DirectoryLeft];

/// The process that receives the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Old,
    New,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    step: Step,
    to: To,
    told: Signal,
}

/// True if the old process is the one that is held at the step.
fn is_old(step: Step) -> bool {
    matches!(step, Retired | DirectoryLeft)
}

/// True if the old process no longer serves, because it has left the directory or is about to.
fn has_left(case: Case) -> bool {
    let before = [SignalsCaught, SocketsListen, StopWatched, MemoryMapped, Rehearsed];
    case.kind.has_directory() && !before.contains(&case.step)
}

fn cases() -> Vec<Case> {
    let told = [Signal::TERM, Signal::KILL, Signal::USR2, Signal::HUP];
    let told = if wants_all() { &told[..] } else { &told[..2] };
    let mut cases = Vec::new();
    for kind in KINDS {
        for &step in START.iter().chain(STEPS) {
            let is_of_directory = step == DirectoryRead || STEPS.contains(&step);
            // At the last step the changeover has ended.
            if is_of_directory && !kind.has_directory() || step == Announced {
                continue;
            }
            for to in [To::Old, To::New] {
                cases.extend(told.iter().map(|&told| Case { kind, step, to, told }));
            }
        }
    }
    cases
}

#[test]
fn a_signal_at_any_step_of_a_change_over_loses_nothing() {
    run_all(cases(), |case| {
        let mut scene = Scene::new(case.kind)?;
        let mut old = scene.serve()?;
        scene.set("acknowledged")?;
        scene.hold(case.step)?;
        old.signal(Signal::USR2)?;
        let new = match is_old(case.step) {
            false => scene.wait_for_new(case.step)?,
            true => {
                scene.wait_for(old.pid, case.step)?;
                scene.wait_for_new(Rehearsed)?
            }
        };
        kill_process(if case.to == To::Old { old.pid } else { new }, case.told)?;
        if (case.to, case.told) == (To::New, Signal::TERM) && PROMPT.contains(&case.step) {
            scene.wait_until("it ends while it is held", || Ok(has_ended(new)))?;
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
        scene.let_go(case.step)?;
        let serves = judge(*case, &mut scene, &mut old, new)?;
        if let Some(pid) = serves {
            // Memory that is not shared with readers is not handed over, and a cache's disk is
            // empty after a kill.
            let may_be_empty = match case.kind {
                Kind::Memory => pid != old.pid,
                Kind::Cache => case.told == Signal::KILL,
                Kind::File | Kind::Store => false,
            };
            let has_it = may_be_empty || scene.has("acknowledged")?;
            ensure!(has_it, "the one that serves has lost it: {}", scene.log());
            kill_process(pid, Signal::TERM)?;
            scene.wait_until("it ends", || Ok(has_ended(pid) || old.has_ended()?))?;
        }
        scene.wait_until("both have ended", || Ok(old.has_ended()? && has_ended(new)))?;
        let is_left = match case.kind {
            Kind::Memory => false,
            Kind::File | Kind::Store => true,
            Kind::Cache => case.told != Signal::KILL || serves == Some(old.pid),
        };
        scene.check_items(if is_left { &["acknowledged"] } else { &[] })
    });
}

/// Waits for the end of the changeover. Returns the process that serves; `None` if the service has
/// ended.
fn judge(
    case: Case,
    scene: &mut Scene,
    old: &mut super::scene::Server,
    new: Pid,
) -> Result<Option<Pid>> {
    let (ends, is_killed) = (case.told == Signal::TERM, case.told == Signal::KILL);
    match case.to {
        // Other signals do not disturb the changeover.
        _ if !ends && !is_killed => {
            scene.wait_until("the successor serves", || Ok(serves(scene, new)))?;
            Ok(Some(new))
        }
        // The service ends. A successor that already serves is another service.
        To::Old if ends => {
            scene.wait_until("the old process ends", || old.has_ended())?;
            let goes_on = [OpeningEnded, PidfileWritten].contains(&case.step);
            scene.wait_until("the successor serves or ends", || {
                Ok(has_ended(new) || serves(scene, new))
            })?;
            ensure!(
                has_ended(new) || goes_on || has_left(case),
                "the successor serves although the service was told to end: {}",
                scene.log()
            );
            Ok((!has_ended(new)).then_some(new))
        }
        // The successor can serve without the old process.
        To::Old => {
            scene
                .wait_until("the successor serves", || Ok(has_ended(new) || serves(scene, new)))?;
            Ok((!has_ended(new)).then_some(new))
        }
        To::New => {
            scene.wait_until("the successor ends", || Ok(has_ended(new)))?;
            if has_left(case) {
                scene.wait_until("the old process ends", || old.has_ended())?;
                return Ok(None);
            }
            // The old process continues.
            ensure!(!old.has_ended()?, "no process serves: {}", scene.log());
            Ok(Some(old.pid))
        }
    }
}

fn serves(scene: &Scene, pid: Pid) -> bool {
    scene.is_past(pid, Announced)
}
