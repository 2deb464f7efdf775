//! Plays all transcripts of a folder on several servers, with the bytes cut in several ways.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use libtest_mimic::{Failed, Trial};

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
    /// Names of the transcripts that are skipped for larderd.
    pub left_out: Vec<String>,
}

impl Suite {
    /// Returns a test for each combination of transcript, server and way to cut the bytes. Each
    /// test starts a new server. The environment variable `LARDER_SEED` determines the random cuts.
    ///
    /// # Errors
    /// A transcript cannot be read, or `LARDER_SEED` is not a number.
    pub fn trials(&self) -> Result<Vec<Trial>> {
        let splits = [
            ("whole", Split::Whole),
            ("bytes", Split::Bytes),
            ("cut", Split::Random { seed: seed()? }),
        ];
        let versions = self.servers.iter().map(|(_, binary)| version(binary));
        eprintln!("transcripts on {}", versions.collect::<Result<Vec<_>>>()?.join(", "));
        let mut trials = Vec::new();
        for transcript in Transcript::load_all(&self.folder)?.into_iter().map(Arc::new) {
            for (subject, binary) in &self.servers {
                if !self.plays(&transcript, *subject) {
                    continue;
                }
                for (word, split) in splits {
                    let name = format!("{} on {subject}, {word}", transcript.name());
                    let (transcript, subject, binary) =
                        (transcript.clone(), *subject, binary.clone());
                    trials.push(Trial::test(name, move || {
                        on_fresh_server(&transcript, subject, &binary, split)
                            .map_err(|error| Failed::from(format!("{error:#}")))
                    }));
                }
            }
        }
        Ok(trials)
    }

    fn plays(&self, transcript: &Transcript, subject: Subject) -> bool {
        let is_left_out = self.left_out.iter().any(|name| *name == transcript.name());
        transcript.only.includes(subject) && !(subject == Subject::Larder && is_left_out)
    }
}

fn on_fresh_server(
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
