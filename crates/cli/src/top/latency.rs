//! Percentiles of the time of requests, from cumulative histograms.

use serde_json::Value;

/// A histogram of each kind of request: its name, and the count of each bucket.
type Counts = Vec<(String, Vec<u64>)>;

/// The histograms of a status.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    bounds_secs: Vec<f64>,
    counts: Counts,
}

impl Latency {
    /// Reads the histograms; `None` if the server does not report them.
    pub(super) fn of(status: &Value) -> Option<Self> {
        let latency = status.get("latency")?;
        let bounds = latency["bounds_secs"].as_array()?;
        let of_kind = |(name, counts): (&String, &Value)| -> Option<(String, Vec<u64>)> {
            let counts = counts.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
            Some((name.escape_default().to_string(), counts))
        };
        Some(Self {
            bounds_secs: bounds.iter().map(Value::as_f64).collect::<Option<_>>()?,
            counts: latency["counts"].as_object()?.iter().map(of_kind).collect::<Option<_>>()?,
        })
    }

    /// Returns percentiles of the time of the requests since `first`, for each kind of request and
    /// each of `shares`. A percentile is the upper bound of the bucket in which it is. `Some(None)`
    /// is a time beyond the last bound. `None` means that no request was counted.
    pub(super) fn since(
        &self,
        first: &Self,
        shares: &[f64],
    ) -> Vec<(&str, Vec<Option<Option<f64>>>)> {
        let of_kind = |(name, counts): &'_ (String, Vec<u64>)| {
            let old = first.counts.iter().find(|(old, _)| old == name);
            let old = old.map(|(_, counts)| counts.as_slice()).unwrap_or_default();
            let grown = counts.iter().enumerate().map(|(bucket, count)| {
                count.saturating_sub(old.get(bucket).copied().unwrap_or_default())
            });
            let grown: Vec<_> = grown.collect();
            shares.iter().map(|share| self.quantile(&grown, *share)).collect()
        };
        self.counts.iter().map(|kind| (kind.0.as_str(), of_kind(kind))).collect()
    }

    fn quantile(&self, counts: &[u64], share: f64) -> Option<Option<f64>> {
        let all: u64 = counts.iter().fold(0, |sum, count| sum.saturating_add(*count));
        let mut seen: u64 = 0;
        let bucket = counts.iter().position(|count| {
            seen = seen.saturating_add(*count);
            all > 0 && seen as f64 >= share * all as f64
        });
        bucket.map(|bucket| self.bounds_secs.get(bucket).copied())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentiles_are_of_the_requests_since_the_first_sample() {
        let of = |get: [u64; 3], set: [u64; 3]| {
            let counts = json!({ "get": get, "set": set });
            let latency = json!({ "bounds_secs": [0.001, 0.002], "counts": counts });
            Latency::of(&json!({ "latency": latency })).unwrap()
        };
        let (first, now) = (of([1000, 0, 0], [5, 5, 5]), of([1098, 1, 1], [5, 5, 5]));
        let found = now.since(&first, &[0.5, 0.99, 1.0]);
        let expected = vec![Some(Some(0.001)), Some(Some(0.002)), Some(None)];
        assert_eq!(found, [("get", expected), ("set", vec![None; 3])]);
    }

    #[test]
    fn a_status_without_histograms_has_none() {
        for status in [
            json!({}),
            json!({ "latency": null }),
            json!({ "latency": { "bounds_secs": [1], "counts": { "get": ["x"] } } }),
            json!({ "latency": { "bounds_secs": "x", "counts": {} } }),
        ] {
            assert!(Latency::of(&status).is_none(), "{status}");
        }
    }
}
