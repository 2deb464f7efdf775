//! The words for an error of TLS: what was wrong, and the remedy.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Returns the words for an error; `None` if it is not one of TLS. `has_certificate`: the client
/// can show a certificate.
pub fn words(error: &io::Error, has_certificate: bool) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(reason) => of_certificate(reason),
        Error::AlertReceived(alert) => of_alert(*alert, has_certificate),
        Error::InvalidMessage(_) => NO_TLS.to_owned(),
        other => other.to_string(),
    })
}

fn of_certificate(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => {
            "the server's certificate is not signed by an authority \
             of --tls-ca (a self-signed certificate is its own authority)"
                .to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the server's certificate is for {}, not for {}: --tls-name gives the name that it \
             must have",
            presented.join(", "),
            expected.to_str()
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: renew it".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: compare the clocks".to_owned()
        }
        other => format!("the server's certificate is invalid: {other}"),
    }
}

fn of_alert(alert: AlertDescription, has_certificate: bool) -> String {
    match alert {
        AlertDescription::CertificateRequired if !has_certificate => DEMANDS.to_owned(),
        // Servers with TLS 1.2 have no other alert for a missing certificate.
        AlertDescription::HandshakeFailure | AlertDescription::BadCertificate
            if !has_certificate =>
        {
            format!("the server refuses the handshake: {MAY_DEMAND}")
        }
        AlertDescription::ProtocolVersion => {
            "the server has neither TLS 1.2 nor TLS 1.3".to_owned()
        }
        alert if has_certificate => format!(
            "the server refuses the handshake ({alert:?}): the certificate of --tls-cert must be \
             valid, and signed by an authority that the server trusts"
        ),
        alert => format!("the server refuses the handshake ({alert:?})"),
    }
}

/// The words for a server without TLS.
pub const NO_TLS: &str =
    "the server does not speak TLS: leave --tls out, or give the address that has TLS";

/// The words for a server with TLS.
pub const TLS_ONLY: &str = "the server speaks TLS: add --tls and --tls-ca FILE";

const DEMANDS: &str =
    "the server demands a client certificate: give --tls-cert FILE and --tls-key FILE";

/// The words for a server that may demand a certificate.
pub(super) const MAY_DEMAND: &str =
    "it may demand a client certificate (--tls-cert FILE and --tls-key FILE)";
