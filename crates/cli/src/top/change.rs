//! Rates: the differences of counters between two samples of a process.

use serde_json::Value;

use super::sample::Sample;

/// Two samples of a process, or only one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    before: Option<&'a Value>,
    now: &'a Value,
    /// The seconds between the samples.
    secs: f64,
}

impl<'a> Change<'a> {
    /// Compares two samples. Ignores `before` if it is of another process or not older than `now`.
    pub(super) fn between(before: Option<&'a Sample>, now: &'a Sample) -> Self {
        let millis = |sample: &Sample| sample.status["time_ms"].as_u64();
        let of_same = before.filter(|before| before.pid() == now.pid());
        let millis = of_same.and_then(|before| millis(now)?.checked_sub(millis(before)?));
        let secs = millis.unwrap_or(0) as f64 / 1000.0;
        let before = of_same.filter(|_| secs > 0.0).map(|before| &before.status);
        Self { before, now: &now.status, secs }
    }

    /// Returns the value of a counter; `None` if the server does not have it.
    pub(super) fn total(&self, name: &str) -> Option<f64> {
        number(self.now, name)
    }

    /// Returns the sum of counters.
    pub(super) fn totals(&self, names: &[&str]) -> Option<f64> {
        names.iter().map(|name| self.total(name)).sum()
    }

    /// Returns the increase of a counter; `None` if it was reset.
    pub(super) fn grown(&self, name: &str) -> Option<f64> {
        let difference = self.total(name)? - number(self.before?, name)?;
        (difference >= 0.0).then_some(difference)
    }

    /// Returns the increase of the sum of counters.
    pub(super) fn grown_all(&self, names: &[&str]) -> Option<f64> {
        names.iter().map(|name| self.grown(name)).sum()
    }

    /// Returns the increase of the sum of counters per second.
    pub(super) fn rate(&self, names: &[&str]) -> Option<f64> {
        Some(self.grown_all(names)? / self.secs)
    }
}

/// Returns a row of `stats` or `stats larder`.
fn number(status: &Value, name: &str) -> Option<f64> {
    let row = status["stats"].get(name).or_else(|| status["larder"].get(name));
    row.and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(pid: u64, time_ms: u64, gets: u64) -> Sample {
        let stats = json!({ "pid": pid, "cmd_get": gets });
        Sample {
            status: json!({ "time_ms": time_ms, "stats": stats, "larder": { "groups": 1 } }),
            hot: Err("off"),
            ready: Value::Null,
            address: String::new(),
        }
    }

    #[test]
    fn rates_are_of_one_process_and_of_counters_that_grow() {
        let old = sample(1, 1000, 10);
        for (now, rate) in [
            (sample(1, 3000, 110), Some(50.0)),
            (sample(2, 3000, 110), None),
            (sample(1, 3000, 9), None),
            (sample(1, 1000, 110), None),
            (sample(1, 900, 110), None),
        ] {
            let change = Change::between(Some(&old), &now);
            assert_eq!(change.rate(&["cmd_get"]), rate, "{now:?}");
            assert_eq!(change.rate(&["cmd_get", "none"]), None);
        }
        let change = Change::between(None, &old);
        assert_eq!((change.total("cmd_get"), change.grown("cmd_get")), (Some(10.0), None));
        assert_eq!(change.total("groups"), Some(1.0));
    }
}
