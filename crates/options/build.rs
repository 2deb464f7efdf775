//! Passes the identity of this build to the compiler, for `identity.rs`: `LARDER_COMMIT`, the date
//! `LARDER_DATE` and the features of larderd, `LARDER_FEATURES`.
//!
//! The commit is the first of these that exists: the environment variable `LARDER_COMMIT`, the
//! commit of the git checkout that contains this crate, the commit that `git archive` has written
//! into the sources, or `unknown`. The date is `SOURCE_DATE_EPOCH` if it is set, otherwise the date
//! of the commit. It is never the current date, so that a build can be reproduced. The script
//! reruns only when the commit may have changed: cargo watches git's log of `HEAD`, which grows
//! with each commit and each checkout.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use time::OffsetDateTime;

/// The commit, or the date, of a build if no source is known for it.
const UNKNOWN: &str = "unknown";

/// The maximum length of a commit's name in bytes. The hashes of git are not longer.
const NAME_BYTES_MAX: usize = 64;

/// The digits of a commit's hash that are shown.
const HASH_DIGITS: usize = 12;

/// A commit, and the Unix time at which it was made.
#[derive(Default)]
struct Source {
    commit: Option<String>,
    epoch: Option<String>,
}

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ARCHIVED}");
    match identity() {
        Ok(variables) => {
            for (name, value) in variables {
                println!("cargo::rustc-env={name}={value}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("cargo::error={error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the variables for the compiler.
fn identity() -> Result<[(&'static str, String); 3], String> {
    let given_commit = given(COMMIT);
    let given_epoch = given(EPOCH);
    let source = of_checkout().or_else(of_archive).unwrap_or_default();
    let commit = given_commit.clone().or(source.commit).unwrap_or_else(|| UNKNOWN.to_owned());
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    if commit.len() > NAME_BYTES_MAX || !commit.bytes().all(is_name) {
        return Err(format!(
            "{COMMIT} is {commit:?}, expected up to {NAME_BYTES_MAX} letters, digits and .-_+"
        ));
    }
    // The date of the sources belongs to their commit. If `LARDER_COMMIT` names another commit, the
    // date is not used.
    let own_epoch = source.epoch.filter(|_| given_commit.is_none());
    let date = match given_epoch.or(own_epoch) {
        Some(epoch) => date(&epoch)?,
        None => UNKNOWN.to_owned(),
    };
    Ok([(COMMIT, commit), (DATE, date), ("LARDER_FEATURES", features())])
}

/// Returns a variable of the environment; `None` if it is missing or empty.
fn given(variable: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={variable}");
    env::var(variable).ok().filter(|text| !text.is_empty())
}

/// Returns the day in UTC, as `2026-11-23`.
fn date(epoch: &str) -> Result<String, String> {
    let wrong = || format!("{EPOCH} is {epoch:?}, expected seconds since 1970");
    let secs = epoch.parse().map_err(|_| wrong())?;
    let moment = OffsetDateTime::from_unix_timestamp(secs).map_err(|_| wrong())?;
    let (year, month, day) = moment.to_calendar_date();
    Ok(format!("{year:04}-{:02}-{day:02}", u8::from(month)))
}

/// Returns the features of a larderd for this target. The filter of system calls for
/// `-o drop_privileges` exists only for some architectures.
fn features() -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let has_filter = ["x86_64", "aarch64", "riscv64"].contains(&arch.as_str());
    if has_filter { "io_uring seccomp tls" } else { "io_uring tls" }.to_owned()
}

/// Returns the commit of the checkout that this crate belongs to. The crate may also be unpacked
/// inside the checkout of another project, such as a distribution's tree of packages. The commit of
/// such a checkout is not Larder's, so it is ignored.
fn of_checkout() -> Option<Source> {
    let workspace = manifest_folder().ancestors().nth(2)?.canonicalize().ok()?;
    let top = PathBuf::from(git(&workspace, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != workspace {
        return None;
    }
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&workspace, &["rev-parse", "--git-path", name]) {
            let path = workspace.join(path);
            // cargo would rerun the script on every build for a file that does not exist.
            if path.is_file() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    let abbreviated = format!("--short={HASH_DIGITS}");
    let commit = git(&workspace, &["rev-parse", &abbreviated, "HEAD"])?;
    let epoch = git(&workspace, &["show", "--no-patch", "--format=%ct", "HEAD"]);
    Some(Source { commit: Some(commit), epoch })
}

/// Returns git's output without the line end; `None` if git is missing or fails.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim_end();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// Returns the commit and the time that `git archive` has put into [`ARCHIVED`]; `None` where the
/// file still has its placeholders.
fn of_archive() -> Option<Source> {
    let text = fs::read_to_string(manifest_folder().join(ARCHIVED)).ok()?;
    let (hash, epoch) = text.trim().split_once(' ')?;
    if !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(Source {
        commit: Some(hash.get(..HASH_DIGITS)?.to_owned()),
        epoch: Some(epoch.to_owned()),
    })
}

fn manifest_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names of the variables, in the environment and for the compiler.
const COMMIT: &str = "LARDER_COMMIT";
const DATE: &str = "LARDER_DATE";
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// The file whose placeholders `git archive` replaces: .gitattributes names it.
const ARCHIVED: &str = "archived.txt";
