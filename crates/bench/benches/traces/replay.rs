//! Runs `larder replay`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The tool and the folder of the traces.
pub(crate) struct Tool {
    pub(crate) larder: PathBuf,
    pub(crate) folder: PathBuf,
}

/// The output of a replay, one name=value per line.
pub(crate) struct Printed(String);

impl Tool {
    /// Checks that the trace exists.
    ///
    /// # Errors
    /// Names the missing file.
    pub(crate) fn check(&self, trace: &str) -> Result<()> {
        for path in [self.path(trace), self.folder.join("sizes-kvcache_reg.txt")] {
            ensure!(
                path.is_file(),
                "{} is missing; set LARDER_TRACES to the folder of the traces",
                path.display()
            );
        }
        Ok(())
    }

    pub(crate) fn path(&self, trace: &str) -> PathBuf {
        self.folder.join(trace).with_extension("csv.zst")
    }

    /// Replays a trace, with all sizes multiplied by `scale`.
    ///
    /// # Errors
    /// The tool fails, which includes wrong values and counts that differ from the server's.
    pub(crate) fn replay(&self, trace: &str, scale: u32, args: &[&str]) -> Result<Printed> {
        let mut command = Command::new(&self.larder);
        command.args(["replay", "--scale", &scale.to_string(), "--trace"]);
        let output = command.arg(self.path(trace)).args(args).output();
        let output = output.with_context(|| format!("cannot start {}", self.larder.display()))?;
        let [stdout, stderr] = [output.stdout, output.stderr].map(String::from_utf8);
        let (stdout, stderr) = (stdout?, stderr?);
        let (status, printed) = (output.status, Printed(stdout));
        let is_sound =
            status.success() || (status.code() == Some(1) && printed.counts_refused()?);
        ensure!(is_sound, "{command:?}: {status}: {}{stderr}", printed.0);
        Ok(printed)
    }
}

impl Printed {
    /// True if the server's counts differ from the client's only by refused sets. memcached 1.6.45
    /// counts the sets that it refuses for lack of memory.
    fn counts_refused(&self) -> Result<bool> {
        let [sets, refused, counted] =
            ["sets", "sets_refused", "server_cmd_set"].map(|name| self.number(name));
        let (sets, refused, counted) = (sets?, refused?, counted?);
        Ok(self.number("wrong_values")? == 0.0
            && self.number("hits")? == self.number("server_get_hits")?
            && self.number("gets")? == self.number("server_cmd_get")?
            && self.number("misses")? == self.number("server_get_misses")?
            && (sets - refused..=sets).contains(&counted))
    }

    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        let mut words = self.0.lines().filter_map(|line| line.split_once('='));
        let found = words.find(|(found, _)| *found == name);
        let (_, value) = found.with_context(|| format!("no {name} in {}", self.0))?;
        Ok(value.parse()?)
    }
}
