//! Plays all transcripts of a folder, on several servers, cut in several ways.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::{Split, Transcript, play};
use crate::server::version;
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
    /// each time on a fresh server. What fails is played again at the end. Prints how many passed.
    /// The environment variable `LARDER_SEED` determines the random cuts.
    ///
    /// # Errors
    /// Lists every failure.
    pub fn run(&self, wanted: &str) -> Result<()> {
        let mut transcripts = Transcript::load_all(&self.folder)?;
        transcripts.retain(|transcript| transcript.name().contains(wanted));

        let splits = [Split::Whole, Split::Bytes, Split::Random { seed: seed()? }];
        let plays: Vec<_> = transcripts
            .iter()
            .flat_map(|transcript| self.servers.iter().map(move |server| (transcript, server)))
            .filter(|(transcript, (subject, _))| {
                transcript.only.includes(*subject)
                    && !(*subject == Subject::Larder && self.leaves_out(transcript))
            })
            .flat_map(|(transcript, server)| splits.map(|split| Play { transcript, server, split }))
            .collect();
        let failed = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some(play) = plays.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = play.on_fresh_server() {
                            let mut failed = failed.lock().expect("no player panics");
                            failed.push((play, error));
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().expect("no player panics");
        let mut failures: Vec<String> =
            failed.iter().filter_map(|(play, error)| play.fails_again(error)).collect();
        let versions = self.servers.iter().map(|(_, binary)| version(binary));
        println!(
            "transcripts: {} passed, {} failed ({} files, on {})",
            plays.len() - failures.len(),
            failures.len(),
            transcripts.len(),
            versions.collect::<Result<Vec<_>>>()?.join(", ")
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

/// A transcript on one server in one way of cutting.
struct Play<'a> {
    transcript: &'a Transcript,
    server: &'a (Subject, PathBuf),
    split: Split,
}

impl Play<'_> {
    fn on_fresh_server(&self) -> Result<()> {
        let transcript = self.transcript;
        let folder = transcript.path.parent().unwrap_or(Path::new("")).display().to_string();
        let args: Vec<_> =
            transcript.args.iter().map(|arg| arg.replace("<folder>", &folder)).collect();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let (subject, binary) = self.server;
        let server = ServerUnderTest::start(binary, Transport::Unix, &args)?;
        Ok(play(transcript, &server, *subject, self.split)?)
    }

    /// Plays again after a failure, with the machine to itself: transcripts have times to live of a
    /// few seconds, which a busy machine may miss. Returns the failure if there is one again, and
    /// otherwise prints the first one.
    fn fails_again(&self, error: &anyhow::Error) -> Option<String> {
        if let Err(again) = self.on_fresh_server() {
            return Some(format!("{again:#}"));
        }
        println!("transcripts: passed only when played again, alone: {error:#}");
        None
    }
}

fn seed() -> Result<u64> {
    match std::env::var("LARDER_SEED") {
        Ok(seed) => seed.parse().context("LARDER_SEED is a number"),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

/// More players than processors: transcripts mostly wait.
const AT_ONCE: usize = 8;
