//! Wire transcripts: requests of a client and responses of the server, as text files.
//!
//! conformance/README.md describes the format. Files in reading order: [`template`], [`packet`],
//! `parse`, [`split`], `conversation`, [`play`](mod@play), [`suite`].

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

/// A parsed transcript.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The file.
    pub path: PathBuf,
    /// The arguments of the server.
    pub args: Vec<String>,
    /// The servers on which the transcript is played.
    pub only: Audience,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One line of a transcript.
#[derive(Clone, Debug)]
pub struct Step {
    /// Line number, from 1.
    pub line: usize,
    /// The servers to which the step applies.
    pub audience: Audience,
    /// The number of the connection.
    pub connection: u8,
    /// The action.
    pub action: Action,
}

/// The action of one line of a transcript.
#[derive(Clone, Debug)]
pub enum Action {
    /// The client sends bytes.
    Send(Template),
    /// The client shuts down its sending side and continues to read.
    SendNoMore,
    /// The client closes the connection.
    Close,
    /// The server responds with bytes.
    Expect(Template),
    /// The server responds with any lines, up to the next expected one.
    ExpectLines,
    /// The client sends a request of the binary protocol.
    Ask(Packet),
    /// The server responds in the binary protocol.
    ExpectAnswer(Packet),
    /// The server responds with any binary packets, up to the next expected one.
    ExpectAnswers,
    /// The server closes the connection.
    ExpectClosed,
    /// The client waits.
    Wait(Duration),
}

/// The servers to which a line applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All servers.
    All,
    /// Debian's memcached 1.6.18; 1.6.45 differs.
    Memcached18,
    /// memcached 1.6.45 and Larder; 1.6.18 differs.
    Memcached45,
    /// memcached 1.6.45 only: Larder differs from it on purpose, and 1.6.18 also differs.
    Memcached45Only,
    /// Both versions of memcached; Larder differs on purpose.
    Memcached,
    /// Larder, which differs from 1.6.45 on purpose.
    Larder,
}

impl Audience {
    /// Returns true if the line applies to this server.
    pub fn includes(self, subject: Subject) -> bool {
        match self {
            Self::All => true,
            Self::Memcached18 => subject == Subject::Memcached,
            Self::Memcached45 => subject != Subject::Memcached,
            Self::Memcached45Only => subject == Subject::NewMemcached,
            Self::Memcached => subject != Subject::Larder,
            Self::Larder => subject == Subject::Larder,
        }
    }
}

impl Transcript {
    /// Reads and parses a transcript.
    ///
    /// # Errors
    /// Names the line that cannot be parsed.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        Self::parse(path, &text)
    }

    /// Reads all transcripts of a folder, in the order of their names.
    ///
    /// # Errors
    /// Names the first line that cannot be parsed.
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

    /// Returns the file name without folder and extension.
    pub fn name(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
    }
}
