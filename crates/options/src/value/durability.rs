//! The point from which a change of a disk tier survives a power loss.

use std::fmt;
use std::time::Duration;

use super::forms::form_of;

/// `--durability`: when a change survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The change survives before the server responds to it.
    Sync,
    /// The change survives at most twice this duration after the response.
    Interval(Duration),
    /// The change survives some time after the response, usually within 100 ms.
    Async,
}

impl Default for Durability {
    fn default() -> Self {
        Self::Interval(Duration::from_millis(100))
    }
}

impl Durability {
    /// The forms of a text.
    pub(crate) const FORMS: &[&str] = &["sync", "interval=MS", "async"];
    /// The interval in milliseconds.
    pub(crate) const INTERVALS: &str = "from 1 to 60000";

    /// Parses a text; `None` if it has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match form_of(Self::FORMS, text)? {
            ("sync", _) => Some(Self::Sync),
            ("async", _) => Some(Self::Async),
            ("interval=MS", millis) => {
                let millis = millis.parse().ok().filter(|millis| (1..=60_000).contains(millis))?;
                Some(Self::Interval(Duration::from_millis(millis)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync => f.write_str("sync"),
            Self::Interval(interval) => write!(f, "interval={}", interval.as_millis()),
            Self::Async => f.write_str("async"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_is_one_of_three_words() {
        let interval = |millis| Some(Durability::Interval(Duration::from_millis(millis)));
        for (text, durability) in [
            ("sync", Some(Durability::Sync)),
            ("async", Some(Durability::Async)),
            ("interval=1", interval(1)),
            ("interval=60000", interval(60_000)),
            ("interval=0", None),
            ("interval=60001", None),
            ("interval=-1", None),
            ("interval=", None),
            ("interval", None),
            ("", None),
            ("always", None),
        ] {
            assert_eq!(Durability::parse(text), durability, "{text}");
            assert!(durability.is_none_or(|durability| durability.to_string() == text), "{text}");
        }
        assert_eq!(Durability::default().to_string(), "interval=100");
    }
}
