//! Wire transcripts: what a client sends and what the server answers, as text files.
//!
//! The format is described in `conformance/README.md`. Files in reading order: [`template`],
//! [`packet`], `parse`, [`split`], `conversation`, [`play`](mod@play),
//! [`suite`].

mod conversation;
pub mod packet;
mod parse;
pub mod play;
pub mod split;
pub mod suite;
pub mod template;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::Subject;
pub use packet::Packet;
pub use play::{Failure, play};
pub use split::Split;
pub use suite::Suite;
pub use template::Template;

/// A transcript, parsed.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The file.
    pub path: PathBuf,
    /// Arguments the server is started with.
    pub args: Vec<String>,
    /// The only server it is about, if not both.
    pub only: Option<Subject>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One line of a transcript.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number, from 1.
    pub line: usize,
    /// The servers it is for.
    pub audience: Audience,
    /// The connection it is about.
    pub connection: u8,
    /// What happens.
    pub action: Action,
}

/// What happens in one line of a transcript.
#[derive(Clone, Debug)]
pub enum Action {
    /// The client sends bytes.
    Send(Template),
    /// The client sends no more, and still reads.
    SendNoMore,
    /// The client closes the connection.
    Close,
    /// The server answers with bytes.
    Expect(Template),
    /// The server answers with lines that do not matter, up to the next that is expected.
    ExpectLines,
    /// The client sends a request of the binary protocol.
    Ask(Packet),
    /// The server answers in the binary protocol.
    ExpectAnswer(Packet),
    /// The server answers in the binary protocol what does not matter, up to the next that is expected.
    ExpectAnswers,
    /// The server closes the connection.
    ExpectClosed,
    /// Time passes.
    Wait(Duration),
}

/// The servers that a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Both.
    All,
    /// Debian's memcached 1.6.18, where 1.6.45 differs.
    Memcached18,
    /// memcached 1.6.45 and therefore Larder, where 1.6.18 differs.
    Memcached45,
    /// Larder, where it differs from 1.6.45 on purpose.
    Larder,
}

impl Audience {
    /// Whether a line is for this server.
    pub fn includes(self, subject: Subject) -> bool {
        match self {
            Self::All => true,
            Self::Memcached18 => subject == Subject::Memcached,
            Self::Memcached45 | Self::Larder => subject == Subject::Larder,
        }
    }
}

impl Transcript {
    /// Reads a transcript.
    ///
    /// # Errors
    /// Names the line that is not understood.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        Self::parse(path, &text)
    }

    /// Reads all transcripts of a folder, in the order of their names.
    ///
    /// # Errors
    /// Names the first line that is not understood.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>> {
        let folder_name = || format!("{}", folder.display());
        let mut paths = Vec::new();
        for file in fs::read_dir(folder).with_context(folder_name)? {
            paths.push(file.with_context(folder_name)?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
        paths.sort();
        paths.iter().map(|path| Self::load(path)).collect()
    }

    /// The file's name without folder and extension.
    pub fn name(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
    }
}
