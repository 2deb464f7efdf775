//! Passes the commit of this build to the compiler as `LARDER_COMMIT`, for `identity.rs`.
//!
//! The commit is the environment variable of that name; otherwise the commit of the git checkout
//! that contains this crate; otherwise `unknown`, as in a tarball. The script reruns only when the
//! commit may have changed: git's log of `HEAD` grows with each commit and each checkout.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The commit of a build from sources without git.
const UNKNOWN: &str = "unknown";

/// The maximum length of a commit's name in bytes; git's own is no longer.
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
            "cargo::error={VARIABLE} is {commit:?}, expected up to {NAME_BYTES_MAX} letters, \
            digits and .-_+"
        );
        return ExitCode::FAILURE;
    }
    println!("cargo::rustc-env={VARIABLE}={commit}");
    ExitCode::SUCCESS
}

/// Returns the commit of the checkout that this crate belongs to. A checkout that merely contains
/// an unpacked tarball, such as a distribution's package tree, names another commit and is ignored.
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
            // A missing file would rerun the script on every build.
            if path.is_file() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    git(&workspace, &["rev-parse", "--short=12", "HEAD"])
}

/// Returns git's output without the line end; `None` if git is missing or fails.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim_end();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// The name of the variable, in the environment and for the compiler.
const VARIABLE: &str = "LARDER_COMMIT";
