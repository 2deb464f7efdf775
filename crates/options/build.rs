//! Tells the compiler which commit this is a build of: `LARDER_COMMIT`, for `identity.rs`.
//!
//! It is what the environment has under that name; otherwise what git says of the checkout in which this crate lies;
//! otherwise `unknown`, as in a tarball. The script runs again where that may have changed, and only then: git's log
//! of `HEAD` grows with each commit and each checkout.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a commit is called where nothing names it.
const UNKNOWN: &str = "unknown";

/// The length of a name: no longer than git's own.
const NAME_BYTES_MAX: usize = 64;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let commit = match env::var(VARIABLE) {
        Ok(commit) if !commit.is_empty() => commit,
        _ => of_checkout().unwrap_or_else(|| UNKNOWN.to_owned()),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    if commit.len() > NAME_BYTES_MAX || !commit.bytes().all(is_name) {
        println!(
            "cargo::error={VARIABLE} is {commit:?}: a commit has up to {NAME_BYTES_MAX} letters, digits and .-_+"
        );
        return ExitCode::FAILURE;
    }
    println!("cargo::rustc-env={VARIABLE}={commit}");
    ExitCode::SUCCESS
}

/// Returns the commit of the checkout that this crate is a part of. One that merely lies around a tarball's folder, as
/// where a distribution keeps its packages, names another commit.
fn of_checkout() -> Option<String> {
    let workspace =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?.canonicalize().ok()?;
    let top = PathBuf::from(git(&workspace, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != workspace {
        return None;
    }
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&workspace, &["rev-parse", "--git-path", name]) {
            let path = workspace.join(path);
            // One that is not there would let the script run each time.
            if path.is_file() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    git(&workspace, &["rev-parse", "--short=12", "HEAD"])
}

/// Returns what git prints, without the end of the line; none where there is no git, or it fails.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim_end();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// The name that the environment and the compiler have for it.
const VARIABLE: &str = "LARDER_COMMIT";
