//! Loads of `larder bench` on a server.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::daemon::Daemon;

/// The length of the keys of `larder bench`.
pub(crate) const KEY_BYTES: usize = 20;

/// A load that runs in another process and ends by itself.
pub(crate) struct Load(Child);

/// The results of a load.
pub(crate) struct Measured(Value);

impl Load {
    /// Begins `larder bench` with these options, separated by spaces.
    pub(crate) fn begin(larder: &Path, daemon: &Daemon, options: &str) -> Result<Self> {
        let mut command = Command::new(larder);
        command.args(["bench", "--json", "--timeout", "60", "--server"]);
        command.arg(daemon.address()?.to_string()).args(options.split(' '));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("starting {}", larder.display()))?;
        Ok(Self(child))
    }

    /// Waits for the end of the load. Fails if a value was wrong or the server returned an error.
    pub(crate) fn finish(self) -> Result<Measured> {
        let output = self.0.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "larder bench: {errors}{printed}");
        Ok(Measured(serde_json::from_str(&printed).context("larder bench --json")?))
    }

    pub(crate) fn run(larder: &Path, daemon: &Daemon, options: &str) -> Result<Measured> {
        Self::begin(larder, daemon, options)?.finish()
    }
}

impl Measured {
    /// Returns a number of the report by its name.
    pub(crate) fn of(&self, name: &str) -> Result<f64> {
        let number = self.0.get(name).and_then(Value::as_f64);
        number.with_context(|| format!("larder bench does not report {name}"))
    }
}
