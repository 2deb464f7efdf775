//! The options of the log.

use std::time::Duration;

use crate::given::values::Values;
use crate::table::Id;
use crate::value::duration::duration;

/// The form and the contents of the log on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// `--log-format`: the form of a line.
    pub format: LogFormat,
    /// `--log-time`: whether a line begins with the time.
    pub time: LogTime,
    /// `--log-slower-than`: the time from which a request is logged as slow; `None`: no request is.
    pub slower_than: Option<Duration>,
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level and message.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// Whether a line of the log contains the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogTime {
    /// Unless standard error is the journal of systemd, which records the time itself.
    #[default]
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

impl LogOptions {
    pub(crate) fn new(values: &Values) -> Self {
        Self {
            format: match values.text(Id::LogFormat) {
                Some("json") => LogFormat::Json,
                _ => LogFormat::Text,
            },
            time: match values.text(Id::LogTime) {
                Some("yes") => LogTime::Yes,
                Some("no") => LogTime::No,
                _ => LogTime::Auto,
            },
            slower_than: values.text(Id::LogSlowerThan).and_then(duration),
        }
    }
}
