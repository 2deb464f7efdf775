//! Cipher suites by their names.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, SupportedCipherSuite};

/// The cryptography with the suites of a list as `-o ssl_ciphers` takes it; of all where there is no list.
///
/// A list that names none of TLS 1.3 leaves all of those allowed: OpenSSL's lists are about older versions.
///
/// # Errors
/// A name that is not known, or a list of nothing.
pub(crate) fn provider(list: Option<&str>) -> Result<Arc<CryptoProvider>, String> {
    let mut provider = ring::default_provider();
    if let Some(list) = list {
        provider.cipher_suites = suites(list, &provider.cipher_suites)?;
    }
    Ok(Arc::new(provider))
}

fn suites(list: &str, all: &[SupportedCipherSuite]) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen: Vec<CipherSuite> = Vec::new();
    let mut excluded = Vec::new();
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        if let Some(word) = word.strip_prefix('!') {
            match suite(word) {
                Some(suite) => excluded.push(suite),
                None if ABSENT.contains(&word) => {}
                None => return Err(unknown(word)),
            }
        } else if ["ALL", "DEFAULT", "HIGH", "SECURE"].contains(&word) {
            chosen.extend(NAMES.iter().map(|(suite, ..)| *suite));
        } else {
            chosen.push(suite(word).ok_or_else(|| unknown(word))?);
        }
    }
    if chosen.iter().all(|suite| !is_tls13(*suite)) && !chosen.is_empty() {
        chosen.extend(NAMES.iter().map(|(suite, ..)| *suite).filter(|suite| is_tls13(*suite)));
    }
    let is_allowed = |suite: &SupportedCipherSuite| {
        chosen.contains(&suite.suite()) && !excluded.contains(&suite.suite())
    };
    let suites: Vec<_> = all.iter().copied().filter(is_allowed).collect();
    if suites.is_empty() { Err("it leaves no cipher suite".to_owned()) } else { Ok(suites) }
}

fn suite(name: &str) -> Option<CipherSuite> {
    let found = NAMES.iter().find(|(_, openssl, iana)| name == *openssl || name == *iana);
    found.map(|(suite, ..)| *suite)
}

fn is_tls13(suite: CipherSuite) -> bool {
    suite.as_str().is_some_and(|name| name.starts_with("TLS13_"))
}

fn unknown(word: &str) -> String {
    let names: Vec<_> = NAMES.iter().map(|(_, openssl, _)| *openssl).collect();
    format!("there is no cipher suite {word:?}; there are {}", names.join(", "))
}

/// The suites, by OpenSSL's names and by the standard's.
const NAMES: [(CipherSuite, &str, &str); 9] = [
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
    (
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS13_CHACHA20_POLY1305_SHA256",
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
];

/// What lists exclude by habit, and what is not there anyway.
const ABSENT: [&str; 15] = [
    "aNULL", "eNULL", "NULL", "ADH", "EXP", "EXPORT", "LOW", "MEDIUM", "MD5", "SHA1", "RC4", "DES",
    "3DES", "PSK", "SRP",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let provider = provider(Some(list)).unwrap();
        let suites = provider.cipher_suites.iter();
        suites
            .map(|suite| NAMES.iter().find(|(known, ..)| *known == suite.suite()).unwrap().1)
            .collect()
    }

    #[test]
    fn every_suite_of_the_library_has_its_names() {
        let all = provider(None).unwrap();
        assert_eq!(all.cipher_suites.len(), NAMES.len());
        assert_eq!(names("HIGH:!aNULL:!MD5").len(), NAMES.len());
    }

    #[test]
    fn suites_of_older_versions_do_not_exclude_those_of_the_newest() {
        let found = names("ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found[3], "ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(names("TLS_AES_128_GCM_SHA256"), ["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(names("ALL:!TLS13_AES_128_GCM_SHA256").len(), NAMES.len() - 1);
    }

    #[test]
    fn an_unknown_name_is_said() {
        for list in ["AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256:foo", "ALL:!KEXYZ", "", ":"] {
            assert!(provider(Some(list)).is_err(), "{list}");
        }
        assert!(provider(Some("foo")).unwrap_err().contains("\"foo\""));
    }
}
