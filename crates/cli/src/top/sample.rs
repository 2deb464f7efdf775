//! Samples of a server: its documents at one time.

use anyhow::{Result, ensure};
use hyper::StatusCode;
use serde_json::Value;

use crate::admin::client::{Ask, Client};

/// The documents of a server at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// `/api/v1/status`.
    pub(super) status: Value,
    /// `/api/v1/hot`, or the reason why the server does not report hot keys.
    pub(super) hot: Result<Value, &'static str>,
    /// `/ready`; `Null` if the listener does not serve it.
    pub(super) ready: Value,
    /// The address of the admin listener.
    pub(super) address: String,
}

impl Sample {
    /// Returns the process id of the server.
    pub(super) fn pid(&self) -> Option<u64> {
        self.status["stats"]["pid"].as_u64()
    }
}

/// Takes samples of a server.
#[derive(Debug)]
pub(super) struct Sampler {
    client: Client,
    /// The process that does not report hot keys, and the reason.
    without_hot: Option<(Option<u64>, &'static str)>,
}

impl Sampler {
    /// Creates a sampler.
    pub(super) fn new(client: Client) -> Self {
        Self { client, without_hot: None }
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// The server cannot be reached, or it refuses the status.
    pub(super) fn sample(&mut self) -> Result<Sample> {
        let status = self.client.json(&Ask::get("/api/v1/status"))?;
        let is_status = status["stats"]["pid"].is_u64() && status["larder"].is_object();
        ensure!(is_status, "{} sends a status without statistics", self.client.address());
        let ready = self.client.ask(&Ask::get("/ready"))?;
        let ready = serde_json::from_slice(&ready.body).unwrap_or_default();
        let hot = self.hot(status["stats"]["pid"].as_u64())?;
        Ok(Sample { status, hot, ready, address: self.client.address().to_string() })
    }

    /// Requests the hot keys, unless this process has refused them before.
    fn hot(&mut self, pid: Option<u64>) -> Result<Result<Value, &'static str>> {
        if let Some((refused, reason)) = self.without_hot
            && refused == pid
        {
            return Ok(Err(reason));
        }
        let ask = Ask::get(format!("/api/v1/hot?limit={KEYS}"));
        let answer = self.client.ask(&ask)?;
        let reason = match answer.status {
            StatusCode::NOT_FOUND => "this larderd does not sample its requests",
            StatusCode::FORBIDDEN => "the server does not show keys: it runs with -X",
            _ => return self.client.document(&ask, &answer).map(Ok),
        };
        self.without_hot = Some((pid, reason));
        Ok(Err(reason))
    }
}

/// The maximum number of hot keys on the screen.
const KEYS: usize = 20;
