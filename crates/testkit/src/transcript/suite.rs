//! Plays all transcripts of a folder, on several servers, cut in several ways.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::{Split, Transcript, play};
use crate::{ServerUnderTest, Subject, Transport};

/// The transcripts to play and the servers to play them on.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The transcripts' folder.
    pub folder: PathBuf,
    /// The servers and their binaries.
    pub servers: Vec<(Subject, PathBuf)>,
    /// Names of the transcripts that larderd does not play.
    pub left_out: Vec<String>,
}

impl Suite {
    /// Plays the transcripts whose names contain `wanted`, on every server in every way of cutting,
    /// each time on a fresh server. Prints how many passed. The environment variable `LARDER_SEED`
    /// determines the random cuts.
    ///
    /// # Errors
    /// Lists every failure.
    pub fn run(&self, wanted: &str) -> Result<()> {
        let mut transcripts = Transcript::load_all(&self.folder)?;
        transcripts.retain(|transcript| transcript.name().contains(wanted));

        let splits = [Split::Whole, Split::Bytes, Split::Random { seed: seed()? }];
        let failures = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let plays: Vec<_> = transcripts
            .iter()
            .flat_map(|transcript| self.servers.iter().map(move |server| (transcript, server)))
            .filter(|(transcript, (subject, _))| {
                transcript.only.is_none_or(|only| only == *subject)
                    && !(*subject == Subject::Larder && self.leaves_out(transcript))
            })
            .flat_map(|(transcript, server)| splits.map(|split| (transcript, server, split)))
            .collect();
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some((transcript, (subject, binary), split)) =
                        plays.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        if let Err(error) = play_fresh(transcript, *subject, binary, *split) {
                            failures.lock().expect("no player panics").push(format!("{error:#}"));
                        }
                    }
                });
            }
        });
        let mut failures = failures.into_inner().context("a player has panicked")?;
        println!(
            "transcripts: {} passed, {} failed ({} files)",
            plays.len() - failures.len(),
            failures.len(),
            transcripts.len()
        );
        if !failures.is_empty() {
            failures.sort();
            bail!("{}", failures.join("\n"));
        }
        Ok(())
    }

    fn leaves_out(&self, transcript: &Transcript) -> bool {
        self.left_out.iter().any(|name| *name == transcript.name())
    }
}

fn play_fresh(
    transcript: &Transcript,
    subject: Subject,
    binary: &Path,
    split: Split,
) -> Result<()> {
    let folder = transcript.path.parent().unwrap_or(Path::new("")).display().to_string();
    let args: Vec<_> = transcript.args.iter().map(|arg| arg.replace("<folder>", &folder)).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let server = ServerUnderTest::start(binary, Transport::Unix, &args)?;
    Ok(play(transcript, &server, subject, split)?)
}

fn seed() -> Result<u64> {
    match std::env::var("LARDER_SEED") {
        Ok(seed) => seed.parse().context("LARDER_SEED is a number"),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

/// More players than processors: transcripts mostly wait.
const AT_ONCE: usize = 8;
