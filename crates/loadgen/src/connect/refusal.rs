//! The messages for TLS errors: the problem and the remedy.

use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Returns the message for an error; `None` if it is not a TLS error. `has_certificate` is true if
/// the client has a certificate.
pub fn words(error: &io::Error, has_certificate: bool) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(reason) => of_certificate(reason),
        Error::AlertReceived(alert) => of_alert(*alert, has_certificate),
        Error::InvalidMessage(_) => NO_TLS.to_owned(),
        Error::PeerIncompatible(why) => format!(
            "the server and this tool have no TLS version or cipher suite in common: {}",
            plain(why)
        ),
        Error::PeerMisbehaved(why) => {
            format!("the server violates the TLS protocol: {}", plain(why))
        }
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "the server violates the TLS protocol: it sent an unexpected message".to_owned()
        }
        other => reason(other),
    })
}

/// Returns the reason why a certificate and a key cannot be used.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::InconsistentKeys(_) => {
            "the private key does not belong to the certificate: use the key and the certificate \
             that were created together"
                .to_owned()
        }
        Error::InvalidCertificate(CertificateError::BadEncoding) => NO_CERTIFICATE.to_owned(),
        Error::InvalidCertificate(why) => of_certificate(why),
        Error::General(why) => why.clone(),
        other => plain(other),
    }
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
            match presented[..] {
                [] => "no name".to_owned(),
                _ => presented.iter().map(|name| plain_name(name)).collect::<Vec<_>>().join(", "),
            },
            expected.to_str()
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: renew it".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: check the clocks of both machines"
                .to_owned()
        }
        CertificateError::BadEncoding => {
            format!("the server's certificate cannot be used: {NO_CERTIFICATE}")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's certificate is not for servers: create one with the extended key usage \
             serverAuth"
                .to_owned()
        }
        other => format!("the server's certificate is not valid ({}): replace it", plain(other)),
    }
}

/// Returns a name of a certificate from the library's debug form, such as `DnsName("server")`.
fn plain_name(shown: &str) -> &str {
    let kind = shown.split('(').next().unwrap_or_default();
    let inner = shown[kind.len()..].strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    match (kind, inner) {
        ("DnsName" | "IpAddress" | "UniformResourceIdentifier", Some(inner)) => {
            inner.trim_matches('"')
        }
        _ => "a name of another kind",
    }
}

/// Returns the name of a variant as plain text, for example `handshake failure` for
/// `HandshakeFailure`. Many errors of the library have no other description.
fn plain(variant: &impl fmt::Debug) -> String {
    let shown = format!("{variant:?}");
    let name = shown.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let mut words = String::new();
    let mut after_small = false;
    for character in name.chars() {
        if after_small && character.is_ascii_uppercase() {
            words.push(' ');
        }
        after_small = !character.is_ascii_uppercase();
        words.push(character.to_ascii_lowercase());
    }
    words
}

fn of_alert(alert: AlertDescription, has_certificate: bool) -> String {
    match alert {
        AlertDescription::CertificateRequired if !has_certificate => DEMANDS.to_owned(),
        // With TLS 1.2 these are the alerts of servers for a missing certificate.
        AlertDescription::HandshakeFailure | AlertDescription::BadCertificate
            if !has_certificate =>
        {
            format!("the server refuses the handshake: {MAY_DEMAND}")
        }
        AlertDescription::ProtocolVersion => {
            "the server has neither TLS 1.2 nor TLS 1.3".to_owned()
        }
        alert if has_certificate => format!(
            "the server refuses the handshake ({}): the certificate of --tls-cert must be valid, \
             and signed by an authority that the server trusts",
            plain(&alert)
        ),
        alert => {
            format!("the server refuses the handshake ({}): see the server's log", plain(&alert))
        }
    }
}

/// The message for a server without TLS.
pub const NO_TLS: &str =
    "the server does not speak TLS: leave --tls out, or give the address that has TLS";

/// The message for a server that requires TLS.
pub const TLS_ONLY: &str = "the server speaks TLS: add --tls and --tls-ca FILE";

const NO_CERTIFICATE: &str = "it is not an X.509 certificate";

const DEMANDS: &str =
    "the server demands a client certificate: give --tls-cert FILE and --tls-key FILE";

/// The message for a server that may demand a client certificate.
pub(super) const MAY_DEMAND: &str =
    "it may demand a client certificate (--tls-cert FILE and --tls-key FILE)";

#[cfg(test)]
mod tests {
    use rustls::InconsistentKeys;

    use super::*;

    #[test]
    fn names_and_errors_of_the_library_are_words() {
        for (shown, name) in [
            (r#"DnsName("server")"#, "server"),
            ("IpAddress(127.0.0.1)", "127.0.0.1"),
            ("IpAddress(::1)", "::1"),
            ("DirectoryName", "a name of another kind"),
            ("Unsupported(0x01)", "a name of another kind"),
        ] {
            assert_eq!(plain_name(shown), name);
        }
        assert_eq!(plain(&AlertDescription::HandshakeFailure), "handshake failure");
        assert_eq!(plain(&AlertDescription::UnknownCA), "unknown ca");
        let mismatch = Error::InconsistentKeys(InconsistentKeys::KeyMismatch);
        assert!(reason(&mismatch).contains("does not belong to the certificate"));
    }
}
