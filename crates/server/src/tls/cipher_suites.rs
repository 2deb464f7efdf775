//! Parses lists of cipher suites.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, SupportedCipherSuite};

/// Returns the cryptography provider with the cipher suites of a list in the form of `-o
/// ssl_ciphers`, or with all suites without a list. Also returns the unknown entries of the list,
/// which are ignored as in OpenSSL.
///
/// A list has OpenSSL's syntax. An entry adds cipher suites. With `-` it removes them, with `!` it
/// removes them permanently, and with `+` it only moves them. An entry is a suite, a class of
/// suites, or several of these joined by `+`, all of which must apply. Classes concern only TLS
/// 1.2. A list that names no suite of TLS 1.3 leaves all suites of TLS 1.3 enabled.
///
/// # Errors
/// Fails if the list leaves no suite.
pub(crate) fn provider(list: Option<&str>) -> Result<(Arc<CryptoProvider>, Vec<String>), String> {
    let mut provider = ring::default_provider();
    let mut unknown = Vec::new();
    if let Some(list) = list {
        provider.cipher_suites = suites(list, &provider.cipher_suites, &mut unknown)?;
    }
    Ok((Arc::new(provider), unknown))
}

fn suites(
    list: &str,
    all: &[SupportedCipherSuite],
    unknown: &mut Vec<String>,
) -> Result<Vec<SupportedCipherSuite>, String> {
    let (mut chosen, mut killed) = (Vec::<CipherSuite>::new(), Vec::new());
    let mut is_any_chosen = false;
    for word in list.split([':', ',', ';', ' ']).filter(|word| !word.is_empty()) {
        if let Some(command) = word.strip_prefix('@') {
            match level(command) {
                Some(level) => killed.extend(weaker_than(level)),
                None => unknown.push(word.to_owned()),
            }
            continue;
        }
        let name = word.trim_start_matches(['!', '-', '+']);
        let Some(meant) = meant(name) else {
            unknown.push(word.to_owned());
            continue;
        };
        match word.chars().next() {
            Some('!') => killed.extend(meant),
            Some('-') => chosen.retain(|suite| !meant.contains(suite)),
            Some('+') => {}
            _ => {
                is_any_chosen |= !meant.is_empty();
                chosen.extend(meant);
            }
        }
    }
    if is_any_chosen && !chosen.iter().copied().any(is_tls13) {
        chosen.extend(NAMES.iter().map(|(suite, ..)| *suite).filter(|suite| is_tls13(*suite)));
    }
    let is_allowed = |suite: &SupportedCipherSuite| {
        chosen.contains(&suite.suite()) && !killed.contains(&suite.suite())
    };
    let suites: Vec<_> = all.iter().copied().filter(is_allowed).collect();
    if suites.is_empty() {
        let names: Vec<_> = NAMES.iter().map(|(_, openssl, _)| *openssl).collect();
        return Err(format!(
            "{list:?} leaves no cipher suite; the supported ones are {}",
            names.join(", ")
        ));
    }
    Ok(suites)
}

/// Returns the suites that an entry selects, possibly none; `None` if the entry is invalid.
fn meant(word: &str) -> Option<Vec<CipherSuite>> {
    if let Some(suite) = suite(word) {
        return Some(vec![suite]);
    }
    let mut meant: Vec<_> =
        NAMES.iter().map(|(suite, ..)| *suite).filter(|suite| !is_tls13(*suite)).collect();
    for class in word.split('+') {
        let part = class_part(class)?;
        meant.retain(|suite| {
            let name = suite.as_str().unwrap_or_default();
            part.is_some_and(|part| name.contains(part))
        });
    }
    Some(meant)
}

/// Returns the text that all suite names of a class contain; `Some(None)` if no supported suite is
/// in the class, `None` if it is not a class.
fn class_part(class: &str) -> Option<Option<&'static str>> {
    Some(match class {
        "ALL" | "DEFAULT" | "HIGH" | "SECURE" | "TLSv1.2" | "ECDHE" | "EECDH" | "ECDH"
        | "kECDHE" | "kEECDH" => Some(""),
        "ECDSA" | "aECDSA" => Some("_ECDSA_"),
        "aRSA" => Some("_RSA_"),
        "AES" | "AESGCM" | "FIPS" => Some("_AES_"),
        "AES128" => Some("_AES_128_"),
        "AES256" => Some("_AES_256_"),
        "CHACHA20" => Some("_CHACHA20_"),
        _ if ABSENT.contains(&class) => None,
        _ => return None,
    })
}

/// Returns the level of `SECLEVEL=<number>`; 0 for `STRENGTH`, which only sorts.
fn level(command: &str) -> Option<u8> {
    match command {
        "STRENGTH" => Some(0),
        _ => command.strip_prefix("SECLEVEL=")?.parse().ok().filter(|level| *level <= 5),
    }
}

/// Returns the suites that are weaker than an OpenSSL security level requires. From level 4 on, 128
/// bits are not enough.
fn weaker_than(level: u8) -> impl Iterator<Item = CipherSuite> {
    let suites = NAMES.iter().map(|(suite, ..)| *suite);
    suites.filter(move |suite| {
        level >= 4 && suite.as_str().is_some_and(|name| name.contains("_AES_128_"))
    })
}

fn suite(name: &str) -> Option<CipherSuite> {
    let found = NAMES.iter().find(|(_, openssl, iana)| name == *openssl || name == *iana);
    found.map(|(suite, ..)| *suite)
}

fn is_tls13(suite: CipherSuite) -> bool {
    suite.as_str().is_some_and(|name| name.starts_with("TLS13_"))
}

/// The suites, with their names in OpenSSL and in the standard.
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

/// Classes that contain no supported suite: OpenSSL's names for key exchanges, authentications,
/// ciphers, digests and versions. From ciphers(1).
const ABSENT: [&str; 75] = [
    "3DES",
    "ADH",
    "AECDH",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "CBC",
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "DES",
    "DH",
    "DHE",
    "DSS",
    "EDH",
    "EXP",
    "EXPORT",
    "EXPORT40",
    "EXPORT56",
    "GOST12",
    "GOST89MAC",
    "GOST94",
    "IDEA",
    "LOW",
    "MD5",
    "MEDIUM",
    "NULL",
    "PSK",
    "RC2",
    "RC4",
    "RSA",
    "RSAPSK",
    "SEED",
    "SHA",
    "SHA1",
    "SHA256",
    "SHA384",
    "SRP",
    "SSLv2",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "TLSv1.1",
    "aDH",
    "aDSS",
    "aECDH",
    "aGOST",
    "aGOST01",
    "aNULL",
    "aPSK",
    "aSRP",
    "eNULL",
    "kDH",
    "kDHE",
    "kDHEPSK",
    "kDHd",
    "kDHr",
    "kECDH",
    "kECDHEPSK",
    "kECDHe",
    "kECDHr",
    "kEDH",
    "kFZA",
    "kGOST",
    "kGOST18",
    "kPSK",
    "kRSA",
    "kRSAPSK",
    "kSRP",
    "kKRB5",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: &str) -> (Vec<&'static str>, Vec<String>) {
        let (provider, unknown) = provider(Some(list)).unwrap();
        let suites = provider.cipher_suites.iter();
        let name = |suite: &SupportedCipherSuite| {
            NAMES.iter().find(|(known, ..)| *known == suite.suite()).unwrap().1
        };
        (suites.map(name).collect(), unknown)
    }

    /// Returns the suites of a list without unknown entries.
    fn names(list: &str) -> Vec<&'static str> {
        let (names, unknown) = named(list);
        assert!(unknown.is_empty(), "{list}: {unknown:?}");
        names
    }

    #[test]
    fn every_suite_of_the_library_has_its_names() {
        let (all, _) = provider(None).unwrap();
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
    fn lists_that_openssl_takes_are_taken() {
        const INTERMEDIATE: &str = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
            ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:\
            ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:\
            DHE-RSA-CHACHA20-POLY1305";
        let (names_of, unknown) = named(INTERMEDIATE);
        assert_eq!(names_of.len(), NAMES.len());
        assert_eq!(unknown.len(), 3);
        assert!(unknown.iter().all(|word| word.starts_with("DHE-")), "{unknown:?}");

        for whole in [
            "HIGH:!aNULL:!eNULL:!kRSA:!PSK:!SRP:!MD5:!RC4",
            "DEFAULT@SECLEVEL=1".replace('@', ":@").as_str(),
            "ALL:@STRENGTH",
            "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL:!MD5:!DSS",
            "EECDH+AESGCM,EDH+AESGCM CHACHA20;+AES256",
            "kRSA:aECDSA:aRSA",
            "ALL:-AES:AES",
        ] {
            assert_eq!(names(whole).len(), NAMES.len(), "{whole}");
        }
        let with_128 = |names: &[&str]| names.iter().filter(|name| name.contains("128")).count();
        for (list, suites, of_128) in [
            ("AES256:!ECDSA", 3 + 1, 1),
            ("ECDHE+aRSA:!AES128", 3 + 2, 1),
            ("ALL:-AES", 3 + 2, 1),
            ("ALL:!AES:AES", 3 + 2, 1),
            ("HIGH:@SECLEVEL=4", 2 + 4, 0),
            ("ALL:!TLSv1.2", 3, 1),
        ] {
            let found = names(list);
            assert_eq!((found.len(), with_128(&found)), (suites, of_128), "{list}: {found:?}");
        }
    }

    #[test]
    fn unknown_words_are_ignored_and_reported() {
        for list in ["ALL:foo", "foo:ALL", "ALL:!foo", "ALL:-foo", "ALL:@foo", "ALL:AES+foo"] {
            let (found, unknown) = named(list);
            assert_eq!((found.len(), unknown.len()), (NAMES.len(), 1), "{list}");
            assert!(unknown[0].contains("foo"), "{unknown:?}");
        }
    }

    #[test]
    fn a_list_that_leaves_nothing_is_refused() {
        for list in [
            "AES128-SHA",
            "foo",
            "kRSA",
            "ALL:!ALL:!TLS_AES_256_GCM_SHA384:!TLS_AES_128_GCM_SHA256:!TLS_CHACHA20_POLY1305_SHA256",
            "!ALL",
            "",
            ":",
            "@SECLEVEL=1",
        ] {
            let error = provider(Some(list)).map(|_| ()).unwrap_err();
            assert!(error.contains(list), "{list}: {error}");
            assert!(error.contains("ECDHE-"), "{list}: {error}");
        }
    }
}
