//! The severity of a line of the log.

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The server fails, or loses data or service.
    Error,
    /// The server continues, but an operator should look.
    Warn,
    /// An event that an operator may want to know of.
    Info,
    /// Commands and responses, with `-vv`.
    Debug,
}

impl Level {
    /// Returns its name in a line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Returns its number in syslog (RFC 5424) and in the journal of systemd.
    pub(super) fn priority(self) -> u8 {
        match self {
            Self::Error => 3,
            Self::Warn => 4,
            Self::Info => 6,
            Self::Debug => 7,
        }
    }
}
