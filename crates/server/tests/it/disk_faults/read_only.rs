//! A file system that is read-only when the server starts, and one that becomes read-only while it
//! runs.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, run_to_end};

use super::history::History;
use super::image::{Image, KINDS};
use super::{ask, binary, http, options, start, value};

const ARGS: [&str; 4] = ["--tier-mode", "store", "--durability", "sync"];

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn a_start_on_a_read_only_file_system_says_so_and_changes_nothing() -> Result<()> {
    for kind in KINDS {
        let image = Image::new(kind)?;
        let mut history = History::new(0);
        for _ in 0..2 {
            let (server, _) = start(&image.mounted(), &ARGS)?;
            let mut stream = server.connect()?;
            ensure!(history.check(&mut stream)?.is_empty(), "changes are lost on {kind}");
            (0..100).try_for_each(|_| history.change(&mut stream))?;
            server.signal(Signal::KILL)?;
            drop(server);
            image.unmount()?;
            image.mount(&["ro"])?;
            let mut larderd = command(&binary());
            larderd.arg("-s").arg(image.mounted().join("../socket"));
            let output = run_to_end(larderd.args(options(&image.mounted(), &ARGS)?))?;
            let said = String::from_utf8_lossy(&output.stderr);
            let is_clear = said.contains("option --tier-path: ") && said.contains("Read-only");
            ensure!(output.status.code() == Some(1) && is_clear, "{}: {said}", output.status);
            image.unmount()?;
            image.mount(&[])?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs root, loop devices and xfsprogs: make verify ONLY=tier runs it"]
fn a_file_system_that_becomes_read_only_ends_changes_and_nothing_else() -> Result<()> {
    let image = Image::new("ext4")?;
    image.unmount()?;
    image.mount(&["errors=remount-ro"])?;
    let mut history = History::new(0);
    let (server, admin) = start(&image.mounted(), &ARGS)?;
    let mut stream = server.connect()?;
    let set = "set kept 0 0 4\r\nkept\r\n";
    ensure!(ask(&mut stream, set)? == "STORED");
    (0..200).try_for_each(|_| history.change(&mut stream))?;
    image.find_error()?;
    let ended = history.work(&mut stream, &AtomicBool::new(false));
    let ended = format!("{:#}", ended.err().context("changes continue")?);
    ensure!(ended.ends_with("got \"\"") || ended.contains("the disk has failed"), "{ended}");
    let mut stream = server.connect()?;
    let refused = ask(&mut stream, set)?;
    ensure!(refused.starts_with("SERVER_ERROR the disk has failed"), "{refused}");
    ensure!(value(&mut stream, "kept")?.as_deref() == Some(b"kept".as_slice()), "reads continue");
    let ready = http::get(&admin, "/ready", &[])?;
    ensure!(ready.status == 503 && ready.body.contains("the disk has failed"), "{}", ready.body);
    ensure!(server.log().contains("Read-only file system"), "{}", server.log());
    drop(server);
    image.unmount()?;
    image.mount(&[])?;
    let (server, _) = start(&image.mounted(), &ARGS)?;
    let lost = history.check(&mut server.connect()?).with_context(|| server.log())?;
    ensure!(lost.iter().all(|change| change.answered.is_none()), "answered changes are lost");
    Ok(())
}
