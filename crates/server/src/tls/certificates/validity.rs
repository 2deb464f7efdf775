//! The time in which the server's own certificate is valid.

use std::fmt;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;
use x509_parser::time::ASN1Time;

/// The first and the last moment at which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    begins: ASN1Time,
    ends: ASN1Time,
}

/// The state of a certificate at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Valid,
    /// It ends within [`SOON`].
    EndsSoon {
        days_left: u64,
    },
    Expired,
    NotYetValid,
}

impl Validity {
    /// Returns the validity of a certificate; `None` if it cannot be parsed.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(certificate).ok()?;
        let validity = certificate.validity();
        Some(Self { begins: validity.not_before, ends: validity.not_after })
    }

    /// Returns the Unix time in seconds at which the certificate ends; `None` before 1970.
    pub(super) fn expiry_secs(self) -> Option<u64> {
        u64::try_from(self.ends.timestamp()).ok()
    }

    /// Returns the state at a time.
    pub(crate) fn at(self, now: SystemTime) -> State {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        if now < self.begins.timestamp() {
            return State::NotYetValid;
        }
        match u64::try_from(self.ends.timestamp().saturating_sub(now)) {
            Err(_) => State::Expired,
            Ok(left) if left < SOON.as_secs() => State::EndsSoon { days_left: left / DAY_SECS },
            Ok(_) => State::Valid,
        }
    }

    /// Returns the time at which the certificate becomes valid, for messages.
    pub(crate) fn begins(self) -> impl fmt::Display {
        Rfc3339(self.begins)
    }

    /// Returns the time at which the certificate ends, for messages.
    pub(crate) fn ends(self) -> impl fmt::Display {
        Rfc3339(self.ends)
    }
}

struct Rfc3339(ASN1Time);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A certificate's times are in UTC.
        let at = self.0.to_datetime();
        let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
        let (hour, minute, second) = at.to_hms();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

const DAY_SECS: u64 = 86_400;

/// A certificate that ends within this time causes warnings.
const SOON: Duration = Duration::from_secs(7 * DAY_SECS);
