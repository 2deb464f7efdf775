//! The names in a client's certificate.

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Returns the names in a verified certificate, in the order in which users are looked up: SPIFFE
/// ids, DNS names, then the common name. DNS names are in lower case. A certificate that cannot be
/// parsed has no names.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let alternative = parsed.subject_alternative_name().ok().flatten();
    let alternative = alternative.map_or(&[][..], |names| &names.value.general_names);
    let spiffe = alternative.iter().filter_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with("spiffe://") => Some((*uri).to_owned()),
        _ => None,
    });
    let dns = alternative.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let common = parsed.subject().iter_common_name();
    let common = common.filter_map(|name| name.as_str().ok().map(str::to_owned));
    spiffe.chain(dns).chain(common).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn spiffe_ids_come_before_dns_names_and_the_common_name() {
        let mut params = CertificateParams::new(["Web.Example".to_owned()]).unwrap();
        for uri in ["https://example.org/", "spiffe://example.org/web"] {
            params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        }
        params.distinguished_name.push(DnType::CommonName, "web");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(names(certificate.der()), ["spiffe://example.org/web", "web.example", "web"]);
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_names() {
        assert!(names(&CertificateDer::from(vec![0x30, 0x82])).is_empty());
    }
}
