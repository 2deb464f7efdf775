//! Every transcript of conformance/wire holds on larderd and on Debian's memcached. A word on the
//! command line selects the transcripts with that word in their names.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use larder_testkit::Subject;
use larder_testkit::server::{larderd, memcached};
use larder_testkit::transcript::Suite;

fn main() -> ExitCode {
    // Words with dashes are options of the standard test harness, which this is not.
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    match run(&wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failures) => {
            eprintln!("{failures:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(wanted: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("a workspace")?;
    let suite = Suite {
        folder: root.join("conformance/wire"),
        servers: vec![
            (Subject::Larder, larderd(env!("CARGO_BIN_EXE_larderd"))),
            (Subject::Memcached, memcached()?),
        ],
    };
    suite.run(wanted)
}
