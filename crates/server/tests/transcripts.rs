//! Every transcript of conformance/wire must hold on larderd and on Debian's memcached, and on the
//! newest memcached if `MEMCACHED` names it (`make verify ONLY=transcripts`). Each is a separate
//! test for each server and each way of dividing the input. With LARDER_TIER, larderd has a disk
//! tier and plays all transcripts except those in conformance/tier.toml.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use larder_testkit::Subject;
use larder_testkit::server::{larderd, memcached};
use larder_testkit::transcript::Suite;
use libtest_mimic::{Arguments, Trial};

/// More players than processors, because transcripts usually wait.
const AT_ONCE: usize = 8;

fn main() -> ExitCode {
    match trials() {
        Ok(trials) => {
            let mut arguments = Arguments::from_args();
            arguments.test_threads.get_or_insert(AT_ONCE);
            libtest_mimic::run(&arguments, trials).exit_code()
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn trials() -> Result<Vec<Trial>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("a workspace")?;
    let mut servers = vec![
        (Subject::Larder, larderd(env!("CARGO_BIN_EXE_larderd"))),
        (Subject::Memcached, memcached()?),
    ];
    if let Some(newest) = std::env::var_os("MEMCACHED") {
        servers.push((Subject::NewMemcached, newest.into()));
    }
    let suite = Suite {
        folder: root.join("conformance/wire"),
        servers,
        left_out: match std::env::var("LARDER_TIER") {
            Ok(mode) => contradicting(&root.join("conformance/tier.toml"), &mode)?,
            Err(_) => Vec::new(),
        },
    };
    suite.trials()
}

/// Returns the transcripts that cannot hold with a disk tier of this mode.
fn contradicting(table: &Path, mode: &str) -> Result<Vec<String>> {
    let table: toml::Table = std::fs::read_to_string(table)?.parse()?;
    let contradictions = table["contradiction"].as_array().context("an array of tables")?;
    let words = |of: &toml::Value, name: &str| -> Vec<String> {
        let words = of.get(name).and_then(toml::Value::as_array).into_iter().flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let concerned =
        contradictions.iter().filter(|of| words(of, "modes").iter().any(|of| of == mode));
    Ok(concerned.flat_map(|of| words(of, "transcripts")).collect())
}
