//! Finds the larderd of the same build as a test.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail, ensure};

/// Returns the larderd to test: the environment variable `LARDERD`, or the larderd of the same
/// build as the test program.
///
/// cargo builds programs only for the tests of the package that contains them. For the tests of
/// other packages this function calls cargo to build larderd, unless larderd is newer than its
/// sources. After `cargo test --workspace` it is newer; after `cargo test -p larder-cli` it may be
/// old or missing. cargo's own lock orders test programs that run at the same time.
///
/// # Errors
/// The test program is not in cargo's usual folder, or larderd does not compile.
pub fn larderd_of_this_build() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(given) = env::var_os("LARDERD") {
        return Ok(given.into());
    }
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|words| anyhow!(words))
}

fn build() -> Result<PathBuf> {
    let test = env::current_exe()?;
    let folder = Folder::of(&test).with_context(|| {
        format!("{} is not in a target folder of cargo: set LARDERD", test.display())
    })?;
    let larderd = folder.path.join("larderd");
    if !is_newer_than_its_sources(&larderd)? {
        folder.build_larderd()?;
        ensure!(larderd.exists(), "cargo built no {}: set LARDERD", larderd.display());
    }
    Ok(larderd)
}

/// The folder of a profile: `target/debug`, or `target/TRIPLE/debug` with `--target`.
#[derive(Debug, PartialEq, Eq)]
struct Folder {
    path: PathBuf,
    target_folder: PathBuf,
    triple: Option<String>,
}

impl Folder {
    /// Returns the folder of the profile with which a test program was built. The program is in the
    /// subfolder `deps`.
    fn of(test: &Path) -> Option<Self> {
        let path = test.ancestors().nth(2)?.to_owned();
        let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").exists();
        let target_folder = path.ancestors().skip(1).take(2).find(is_target)?.to_owned();
        let between = path.parent()?.strip_prefix(&target_folder).ok()?;
        let triple = Some(between.to_str()?.to_owned()).filter(|triple| !triple.is_empty());
        Some(Self { path, target_folder, triple })
    }

    fn build_larderd(&self) -> Result<()> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "-p", "larder-server", "--bin", "larderd"]);
        cargo.arg("--target-dir").arg(&self.target_folder);
        cargo.args(self.triple.iter().flat_map(|triple| ["--target", triple]));
        match self.path.file_name().and_then(|name| name.to_str()) {
            Some("debug") => {}
            Some(profile) => drop(cargo.args(["--profile", profile])),
            None => bail!("{} names no profile", self.path.display()),
        }
        // cargo has set these variables for the test. Build scripts that depend on them would run
        // again.
        let of_a_package = |name: &str| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_a_package))
        {
            cargo.env_remove(name);
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let status = cargo.current_dir(root).status();
        let status = status.context("cannot start cargo, which builds larderd: set LARDERD")?;
        ensure!(status.success(), "larderd does not compile: cargo ended with {status}");
        Ok(())
    }
}

/// True if a program is newer than all its source files. cargo lists them in a file next to the
/// program.
fn is_newer_than_its_sources(program: &Path) -> Result<bool> {
    let Some(built) = changed(program)? else { return Ok(false) };
    let list = match fs::read_to_string(program.with_extension("d")) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let sources = sources(&list);
    for source in &sources {
        // A removed source also makes the program old.
        if changed(source)?.is_none_or(|changed| changed > built) {
            return Ok(false);
        }
    }
    Ok(!sources.is_empty())
}

/// Returns the time at which a file was last changed; `None` if the file does not exist.
fn changed(path: &Path) -> Result<Option<SystemTime>> {
    match fs::metadata(path).and_then(|found| found.modified()) {
        Ok(changed) => Ok(Some(changed)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Parses a file of dependencies in make's format, `program: source source`, and returns the
/// sources. A backslash precedes a space that is part of a path.
fn sources(list: &str) -> Vec<PathBuf> {
    let Some((_, sources)) = list.lines().next().and_then(|line| line.split_once(": ")) else {
        return Vec::new();
    };
    let spaced = sources.replace("\\ ", "\0");
    spaced.split_whitespace().map(|path| path.replace('\0', " ").into()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_profile_is_that_of_the_test_program() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::create_dir(&target).unwrap();
        assert_eq!(Folder::of(&target.join("debug/deps/test-1")), None, "no folder of cargo");
        File::create(target.join("CACHEDIR.TAG")).unwrap();
        for (place, triple) in [("debug", None), ("arm/release", Some("arm"))] {
            let found = Folder::of(&target.join(place).join("deps/test-1"));
            let expected = Folder {
                path: target.join(place),
                target_folder: target.clone(),
                triple: triple.map(str::to_owned),
            };
            assert_eq!(found, Some(expected), "{place}");
        }
        assert_eq!(Folder::of(Path::new("/test")), None);
    }

    #[test]
    fn a_program_is_old_once_a_source_is_newer_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (program, source) = (path("program"), path("a source.rs"));
        assert!(!is_newer_than_its_sources(&program).unwrap(), "there is no program");
        File::create(&source).unwrap();
        let file = File::create(&program).unwrap();
        assert!(!is_newer_than_its_sources(&program).unwrap(), "its sources are unknown");
        let listed = source.display().to_string().replace(' ', "\\ ");
        fs::write(path("program.d"), format!("{}: {listed}\n", program.display())).unwrap();
        assert!(is_newer_than_its_sources(&program).unwrap());
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        assert!(!is_newer_than_its_sources(&program).unwrap(), "the source is newer");
        file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        assert!(is_newer_than_its_sources(&program).unwrap());
        fs::remove_file(source).unwrap();
        assert!(!is_newer_than_its_sources(&program).unwrap(), "the source is gone");
    }
}
