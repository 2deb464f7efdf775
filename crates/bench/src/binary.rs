//! The measured programs.

use std::path::PathBuf;

/// Returns the program that an environment variable names (`LARDERD`, `LARDER`). The targets of the
/// Makefile set it to the release build.
///
/// # Errors
/// The variable is not set, or does not name a file. The error names a remedy.
pub fn binary(variable: &str) -> Result<PathBuf, String> {
    let advice = "`make` sets it; otherwise name a release build";
    let Some(path) = std::env::var_os(variable).map(PathBuf::from) else {
        return Err(format!("{variable} is not set: {advice}"));
    };
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("{variable} names {}, which is not a file: {advice}", path.display())),
    }
}
